"""What a person asks of `pretrain`, `finetune` and `resume`, in small groups of settings.

Each setting is defined once, as a field here or of a description beside this file (`Shape`, `Training`, `Graft`,
`Masking`, `Contrast`). The command line makes its options from these fields, and the functions of the same names their
keyword arguments.
"""

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast, get_args, get_type_hints

from greffon.core.choices import FLAG, Device, ExecutorName, Precision, PretrainingObjective, Task
from greffon.core.config import Description, check_keywords, override, read_keyword
from greffon.core.errors import UserError, did_you_mean, out_of_range, setting
from greffon.core.graft import Graft
from greffon.core.shape import Shape
from greffon.core.training import Training

Verb = TypeVar("Verb", bound=Callable[..., Any])


def _metavar(name: str) -> Mapping[str, Any]:
    """Metadata of a field whose value has a name of its own in the help text."""
    return types.MappingProxyType({"metavar": name})


MOST = 10**12
"""The greatest budget; many more tokens than there are, and more minutes than anyone waits."""

COMMAS: Mapping[str, Any] = types.MappingProxyType({"metavar": "N,N,…", "commas": True})
"""Metadata of a field with several numbers, which the command line reads from one word."""


@dataclass(frozen=True)
class Start:
    """What to pretrain, and which weights and tokenizer to start from."""

    objective: PretrainingObjective = "causal"
    """Training objective: predict the next token (causal), predict masked tokens (masked), tell two spans of one
    document from those of others (contrastive), or translate (seq2seq)."""
    preset: str | None = field(default=None, metadata=_metavar("NAME"))
    """Named architecture and training settings: auto (default, the shape that suits the objective), compact, lab;
    masked also bert-mini, bert, distilbert, modernbert; causal also gpt2-mini, gpt2, llama; for translation small
    (default), base, marian-small, marian, mbart, m2m100."""
    tokenizer: Path | None = field(default=None, metadata=_metavar("TOK"))
    """Existing tokenizer, or a run that has one; by default one is trained on the text."""
    vocab_size: int | None = None
    """Vocabulary size of the tokenizer to train (default: the preset's, and 16,000 at least for the contrastive
    objective, whose tokenizer lowercases all text)."""
    init_from: Path | None = field(default=None, metadata=_metavar("RUN"))
    """Run whose weights, architecture and tokenizer to start from."""
    encoder_from: Path | None = field(default=None, metadata=_metavar("RUN"))
    """Pretrained run whose body initializes the encoder of a translator and fixes its architecture and tokenizer."""
    decoder_from: Path | None = field(default=None, metadata=_metavar("RUN"))
    """Pretrained run whose body initializes the decoder of a translator and fixes its architecture and tokenizer."""

    def __post_init__(self) -> None:
        objectives = get_args(PretrainingObjective)
        if self.objective not in objectives:
            raise UserError(f"unknown objective {self.objective!r}{did_you_mean(self.objective, objectives)}")


@dataclass(frozen=True)
class Corpus:
    """How the text files of a pretraining are read."""

    mix: tuple[int, ...] = ()
    """Number of sequences to take from each TEXT in turn, for example 3 1 (default: mix all text evenly)."""
    valid: tuple[str, ...] = field(default=(), metadata=_metavar("TEXT"))
    """Validation text files (default: hold out 1 % of the documents)."""
    text_column: str = "text"
    """Column with the text, in files that have columns."""


@dataclass(frozen=True)
class Pairs:
    """Sentence pairs for translation."""

    source: Path | None = None
    """File of source sentences, one per line; needs --target."""
    target: Path | None = None
    """File of the translations of --source, line by line."""
    valid_source: Path | None = None
    """Validation file of source sentences; needs --valid-target (default: hold out 1 % of the pairs)."""
    valid_target: Path | None = None
    """Validation file of the translations of --valid-source, line by line."""
    source_column: str = "source"
    """Column with the source sentence, where the pairs are a table given as TEXT."""
    target_column: str = "target"
    """Column with the translation, where the pairs are a table given as TEXT."""


@dataclass(frozen=True)
class Budget:
    """How long to train: give one of them."""

    steps: int | None = None
    """Train for N optimizer steps."""
    tokens: int | None = None
    """Train on N tokens of text."""
    minutes: float | None = None
    """Train for N minutes on this machine (default: 10)."""

    def __post_init__(self) -> None:
        given = {name: value for name, value in vars(self).items() if value is not None}
        if len(given) > 1:
            raise UserError(f"{' and '.join(map(setting, given))} exclude each other; give one of them")
        for name, value in given.items():
            if not 0 < value <= MOST:
                raise out_of_range(name, value, f"choose a number above 0, and {MOST:,} at most")


@dataclass(frozen=True)
class Labels:
    """How labelled texts are read and split."""

    valid: Path | None = None
    """Validation file, which selects the best epoch (default: finetune selects it by cross-validation, and with 200
    labels or more on a stratified fifth of the training texts, as compare always does)."""
    test: Path | None = None
    """Test file, which is scored and selects nothing."""
    text_column: str = "text"
    """Column with the text."""
    label_column: str | None = None
    """Column with the label (default: label; for other tasks labels, score or spans, and label if there is none)."""
    task: Task | None = None
    """What the files ask for: a class, several labels or a score for each text, a class or a score for each pair of
    texts, or spans of a text (default: guessed from the training file); for pairs, regression reads labels as
    scores."""
    pair_columns: tuple[str, ...] = ("text_a", "text_b")
    """Columns with the two texts of a pair."""
    label_separator: str = "|"
    """What stands between the labels of a text."""


@dataclass(frozen=True)
class Finetuning:
    """How a body is fine-tuned."""

    epochs: int = 15
    """Number of passes over the training texts."""
    adapt: bool = field(default=False, metadata=FLAG)
    """Continue pretraining on the training texts first, without their labels."""
    gradual_unfreezing: bool = field(default=False, metadata=FLAG)
    """Unfreeze one more layer with each epoch, from the top."""


@dataclass(frozen=True)
class Comparing:
    """How often the arms of a comparison are trained, and where."""

    seeds: int = 3
    """Number of random seeds; each model is trained once per seed."""
    train_sizes: tuple[int, ...] = field(default=(), metadata=COMMAS)
    """Numbers of labels for the label curve, for example 20,100,1000: every arm with so many labels, over --seeds
    draws; all choices are made with those labels alone."""
    tune: bool = field(default=False, metadata=FLAG)
    """Search for the settings of every arm on validation first, with the same number of trials for each."""
    jobs: int | None = None
    """Number of trainings that run at the same time (default: one per CPU core)."""
    executor: ExecutorName = "local"
    """Where the trainings run: in processes of this machine, on a Dask cluster, or as Slurm jobs."""

    def __post_init__(self) -> None:
        for name, count in (("seeds", self.seeds), ("jobs", self.jobs)):
            if count is not None and count < 1:
                raise out_of_range(name, count, "choose 1 or more")
        if self.executor not in get_args(ExecutorName):
            raise UserError(f"unknown executor {self.executor!r}{did_you_mean(self.executor, get_args(ExecutorName))}")


@dataclass(frozen=True)
class Launch:
    """Processes that share the work, and where else its metrics are logged; a run can be resumed with others."""

    processes: int = 1
    """Number of processes on this machine that share the work; the losses do not depend on it."""
    fsdp: bool = field(default=False, metadata=FLAG)
    """Shard the weights over the processes (fully sharded data parallel), for bodies that do not fit into one."""
    tensorboard: bool = field(default=False, metadata=FLAG)
    """Also write the metrics for TensorBoard, into the directory tensorboard of the run."""
    mlflow: bool = field(default=False, metadata=FLAG)
    """Also log settings and metrics to MLflow: to MLFLOW_TRACKING_URI, or to mlflow.db in this directory."""

    @property
    def trackers(self) -> tuple[str, ...]:
        """The tools that are told of the metrics."""
        return tuple(name for name in ("tensorboard", "mlflow") if getattr(self, name))


@dataclass(frozen=True)
class Machine:
    """What to compute with; a run can be resumed on another machine."""

    device: Device | None = None
    """Device to compute on; auto takes a GPU where there is one (default: GREFFON_DEVICE, or cpu)."""
    precision: Precision | None = None
    """Number format of the matrix products inside the body; weights, losses and the head stay fp32 (default: fp32)."""
    threads: int | None = None
    """Number of threads on the CPU (default: one per core)."""

    def __post_init__(self) -> None:
        for name, choices in (("device", get_args(Device)), ("precision", get_args(Precision))):
            value = getattr(self, name)
            if value is not None and value not in choices:
                raise UserError(f"unknown {name} {value!r}{did_you_mean(str(value), choices)}")
        if self.threads is not None and self.threads < 1:
            raise out_of_range("threads", self.threads, "choose 1 or more")


BY_PRESET = (Shape, Training, Graft)
"""Descriptions whose defaults, where a setting is left out, are those of the preset."""


def part(description: Description, settings: Mapping[str, Any]) -> tuple[Description, dict[str, Any]]:
    """Return the description with those of the settings that it has, and the other settings."""
    names = {f.name for f in dataclasses.fields(description)}  # type: ignore[arg-type]
    return override(description, settings), {name: value for name, value in settings.items() if name not in names}


def takes(*kinds: type) -> Callable[[Verb], Verb]:
    """Make the fields of the descriptions keyword arguments of a function, and refuse other names and wrong types.

    A function with `**settings` shows them in its signature. Defaults of `Shape`, `Training` and the like are shown as
    None: what is left out is the preset's.
    """

    def show(verb: Verb) -> Verb:
        signature = inspect.signature(verb)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        added: dict[str, inspect.Parameter] = {}
        for kind in kinds:
            hints = get_type_hints(kind)
            for f in dataclasses.fields(kind):
                if f.name not in signature.parameters and f.name not in added:
                    hint, default = (hints[f.name] | None, None) if kind in BY_PRESET else (hints[f.name], f.default)
                    keyword = inspect.Parameter.KEYWORD_ONLY
                    added[f.name] = inspect.Parameter(f.name, keyword, default=default, annotation=hint)
        shown = signature.replace(parameters=[*own, *added.values()])
        checked = {p.name: p.annotation for p in own if p.annotation in (int, float)}
        checked |= {p.name: p.annotation for p in added.values()}

        @functools.wraps(verb)
        def called(*args: Any, **keywords: Any) -> Any:
            check_keywords(shown, keywords)
            read = {name: read_keyword(checked.get(name, Any), value, name) for name, value in keywords.items()}
            return verb(*args, **read)

        called.__signature__ = shown  # type: ignore[attr-defined]
        return cast(Verb, called)

    return show
