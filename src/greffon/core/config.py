"""Frozen descriptions of a run, read strictly: an unknown name is an error with the nearest known one.

Each setting is defined once, as a field: its name, type, default, help text (the docstring below it) and checks.
Nothing here knows how a run is executed. Impossible settings are refused when the description is made, so that no
other module has to check them again.
"""

import dataclasses
import math
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from greffon.core.errors import UserError, did_you_mean
from greffon.core.synonyms import our_name

Activation = Literal["relu", "squared-relu", "gelu", "gelu-tanh", "silu", "swiglu"]
Norm = Literal["layer", "rms"]
NormPlace = Literal["pre", "post"]
Positions = Literal["sinusoidal", "sinusoidal-halves", "rotary", "learned", "none"]
PretrainingObjective = Literal["causal", "masked", "contrastive", "seq2seq"]
Objective = Literal["causal", "masked", "contrastive", "classify", "seq2seq", "body"]
BodyKind = Literal["decoder", "encoder", "encoder-decoder"]
Optimizer = Literal["adamw", "muon"]
LrSchedule = Literal["linear", "cosine", "inverse-sqrt", "constant"]
BestMetric = Literal["loss", "bleu"]
Backend = Literal["torch", "ctranslate2"]
Pooling = Literal["cls", "last", "mean", "mean-max"]
Pool = Literal["cls", "mean", "last"]
"""Poolings that need no trained head."""
PoolerActivation = Literal["none", "tanh", "relu"]

LARGEST = {"layers": 1000, "hidden_size": 100_000, "heads": 1000, "intermediate_size": 1_000_000, "context": 1_000_000}
"""Beyond any machine that this package is for: a larger number is a typing mistake."""

FLAG: Mapping[str, Any] = types.MappingProxyType({"flag": True})
"""Metadata of a yes/no field that the command line offers as a bare flag: `--freeze`, not `--freeze true`."""


@dataclass(frozen=True)
class Shape:
    """The architecture of a body."""

    layers: int = 3
    """Number of Transformer blocks."""
    hidden_size: int = 128
    """Width of the hidden states."""
    heads: int = 2
    """Number of attention heads; must divide the hidden size."""
    intermediate_size: int = 512
    """Width of the feed-forward network."""
    activation: Activation = "squared-relu"
    """Activation of the feed-forward network."""
    norm: Norm = "layer"
    """Normalization: LayerNorm or RMSNorm."""
    norm_place: NormPlace = "pre"
    """Normalize before each sublayer (pre) or after it (post)."""
    positions: Positions = "rotary"
    """Position encoding."""
    bias: bool = False
    """Biases in linear layers and layer norms."""
    tie_embeddings: bool = True
    """Use the token embedding as the output matrix of the vocabulary head."""
    dropout: float = 0.0
    """Dropout probability inside the body."""
    context: int = 256
    """Maximum sequence length, in tokens."""
    segments: int = 0
    """Number of segment embeddings; 0 for none."""
    scale_embeddings: bool = True
    """Multiply token embeddings by the square root of the hidden size."""
    embedding_norm: bool = False
    """Normalize the embeddings before the first block, as BERT does."""
    norm_epsilon: float = 1e-5
    """Epsilon that normalization adds to the variance."""
    position_offset: int = 0
    """Number of learned positions before the first one in use (RoBERTa: 2)."""
    head_transform: bool = False
    """Put a dense layer, an activation and a norm before the vocabulary head, as BERT does."""
    head_bias: bool = False
    """Bias of a vocabulary head with tied embeddings (BERT, Marian)."""

    def __post_init__(self) -> None:
        for name in ("layers", "hidden_size", "heads", "intermediate_size", "context"):
            _at_least(name, getattr(self, name), 1)
            if getattr(self, name) > LARGEST[name]:
                raise UserError(f"{name} is {getattr(self, name)}; choose {LARGEST[name]} at most")
        if not 0 <= self.segments <= LARGEST["layers"]:
            raise UserError(f"segments is {self.segments}; choose 0, or 2 for pairs of texts")
        if not 0 <= self.position_offset <= LARGEST["layers"]:
            raise UserError(f"position_offset is {self.position_offset}; choose 0 or more")
        if not 0 < self.norm_epsilon < 1:
            raise UserError(f"norm_epsilon is {self.norm_epsilon}; choose a small number above 0, such as 1e-5")
        if self.hidden_size % self.heads:
            raise UserError(
                f"hidden_size {self.hidden_size} cannot be cut into {self.heads} heads; choose a number that divides it"
            )
        if self.positions == "rotary" and (self.hidden_size // self.heads) % 2:
            raise UserError(
                f"rotary positions turn pairs of features, but hidden_size {self.hidden_size} / {self.heads} heads "
                "is odd; choose an even width for each head"
            )
        if not 0 <= self.dropout < 1:
            raise UserError(f"dropout is {self.dropout}; choose a number from 0 up to, not including, 1")


EVALUATIONS = 10
"""Evaluations of a pretraining, unless the recipe says how many steps lie between two."""


@dataclass(frozen=True)
class Training:
    """How a model is trained."""

    steps: int = 0
    """Number of optimizer steps; 0 for as many as fit into `minutes`."""
    minutes: float = 0.0
    """Minutes of training if no number of steps is given."""
    batch_size: int = 8
    """Sequences in a batch when pretraining, texts when fine-tuning."""
    batch_tokens: int = 4096
    """Maximum tokens in a batch of sentence pairs, with padding, on the longer side (translation)."""
    gradient_accumulation: int = 1
    """Number of batches whose gradients are added up for one step."""
    optimizer: Optimizer = "muon"
    """AdamW for all parameters, or Muon for the matrices inside the blocks and AdamW for the rest."""
    learning_rate: float = 1e-2
    """Learning rate of AdamW."""
    muon_learning_rate: float = 1e-2
    """Learning rate of Muon."""
    weight_decay: float = 0.0
    """Decoupled weight decay of both optimizers."""
    warmup_steps: int = 100
    """Steps over which the learning rate rises linearly to its full value; at most a fifth of all steps."""
    lr_schedule: LrSchedule = "linear"
    """Schedule of the learning rate after the warmup."""
    max_grad_norm: float = 1.0
    """Maximum gradient norm; larger gradients are scaled down to it."""
    skip_loss_spikes: float = 5.0
    """Skip a step whose loss is this many times the recent one; 0 disables the check, except for NaN and infinity."""
    label_smoothing: float = 0.0
    """Label smoothing (translation)."""
    average_checkpoints: int = 0
    """Average the weights of the last N evaluations at the end, and keep the mean if it is better; 0 disables it."""
    metric_for_best: BestMetric = "loss"
    """Validation metric that selects the best weights and stops training early: loss, or BLEU (translation)."""
    layer_decay: float = 1.0
    """Learning rate of each layer as a fraction of the rate of the layer above it."""
    unfreeze_every: int = 0
    """Unfreeze one more layer, from the top, every N steps; 0 trains all layers from the start."""
    patience: int = 0
    """Stop after N evaluations without a better score; 0 disables early stopping."""
    compile: bool = False
    """Compile the blocks with torch.compile: takes about a minute, and seldom pays off on a CPU."""
    seed: int = 0
    """Random seed (default: 0)."""
    evaluate_every: int = 0
    """Steps between two evaluations; 0 for ten in all when pretraining, and for one an epoch when fine-tuning."""
    eval_tokens: int = 65_536
    """Maximum tokens of held-out text that an evaluation reads."""
    checkpoint_minutes: float = 2.0
    """Maximum minutes between two checkpoints."""

    def __post_init__(self) -> None:
        for name in (
            "steps",
            "warmup_steps",
            "evaluate_every",
            "seed",
            "patience",
            "unfreeze_every",
            "average_checkpoints",
        ):
            _at_least(name, getattr(self, name), 0)
        for name in ("batch_size", "batch_tokens", "gradient_accumulation", "eval_tokens"):
            _at_least(name, getattr(self, name), 1)
        for name in ("learning_rate", "muon_learning_rate", "max_grad_norm", "checkpoint_minutes"):
            if not 0 < getattr(self, name) < math.inf:
                raise UserError(f"{name} is {getattr(self, name)}; choose a number above 0")
        if not (self.skip_loss_spikes == 0 or 1 < self.skip_loss_spikes < math.inf):
            raise UserError(f"skip_loss_spikes is {self.skip_loss_spikes}; choose a number above 1, or 0 for none")
        if not 0 < self.layer_decay <= 1:
            raise UserError(f"layer_decay is {self.layer_decay}; choose a share above 0 and up to 1")
        if not 0 <= self.label_smoothing < 1:
            raise UserError(f"label_smoothing is {self.label_smoothing}; choose a share from 0 up to, not including, 1")
        if not 0 <= self.weight_decay < 1:
            raise UserError(f"weight_decay is {self.weight_decay}; choose a number from 0 up to 1")

    @property
    def eval_interval(self) -> int:
        """Steps between two evaluations."""
        return self.evaluate_every or max(1, -(-self.steps // EVALUATIONS))

    def evaluates(self, step: int) -> bool:
        """Whether held-out text is scored after a step: the first (0), the last, and at even distances between."""
        return step == self.steps or step % self.eval_interval == 0


@dataclass(frozen=True)
class Data:
    """Where the text of a run comes from."""

    train: tuple[str, ...] = ()
    """Training files."""
    mix: tuple[int, ...] = ()
    """Number of sequences to take from each training text in turn; empty to mix all text evenly."""
    valid: tuple[str, ...] = ()
    """Validation files; if empty, a fraction of the training text is held out."""
    test: tuple[str, ...] = ()
    """Test files; they are scored and never used to select anything."""
    hold_out_test: bool = False
    """Hold out a fifth of the labelled training texts as the test set."""
    limit: int = 0
    """Maximum number of labelled training texts; 0 for all."""
    source: str = ""
    """File of source sentences, one per line; if empty, the pairs are columns of `train`."""
    target: str = ""
    """File of the translations of `source`, line by line."""
    valid_source: str = ""
    """Validation file of source sentences."""
    valid_target: str = ""
    """Validation file of the translations of `valid_source`, line by line."""
    text_column: str = "text"
    """Column with the text."""
    label_column: str = "label"
    """Column with the label."""
    source_column: str = "source"
    """Column with the source sentence."""
    target_column: str = "target"
    """Column with the translation."""
    tokenizer: str = ""
    """An existing tokenizer; if empty, one is trained on the training text."""
    digest: str = ""
    """Hash of the text and the tokenizer that were read."""


@dataclass(frozen=True)
class Masking:
    """Settings of a masked language model (--objective masked)."""

    mask_rate: float = 0.15
    """Fraction of tokens to predict; of these, 80 % are masked, 10 % replaced and 10 % kept."""
    whole_word_masking: bool = field(default=False, metadata=FLAG)
    """Mask whole words instead of single tokens."""
    next_sentence: bool = field(default=False, metadata=FLAG)
    """Also train next-sentence prediction."""
    gist: bool = field(default=False, metadata=FLAG)
    """Also predict the masked tokens from the mean of all hidden states, for bodies that will classify."""

    def __post_init__(self) -> None:
        if not 0 < self.mask_rate < 1:
            raise UserError(f"mask_rate is {self.mask_rate}; choose a fraction between 0 and 1, such as 0.15")
        if self.gist and self.next_sentence:
            raise UserError("--gist and --next-sentence each train a second head on the whole text; give one of them")


@dataclass(frozen=True)
class Contrast:
    """Settings of the contrast of documents (--objective contrastive)."""

    span_length: int = 128
    """Maximum number of tokens of each of the two spans of a document; fewer where the context is shorter."""
    temperature: float = 0.07
    """Temperature of the contrastive loss."""

    def __post_init__(self) -> None:
        _at_least("span_length", self.span_length, 2)
        if not 0 < self.temperature < math.inf:
            raise UserError(f"temperature is {self.temperature}; choose a number above 0, such as 0.07")


@dataclass(frozen=True)
class Graft:
    """How a class head is grafted on a body."""

    pooling: Pooling = "mean-max"
    """Hidden states that the head reads: of the first token, of the last one, their mean, or mean and maximum."""
    concat_embeddings: bool = False
    """Let the head also read the pooled token embeddings."""
    head_dropout: float = 0.0
    """Dropout probability of the pooled features."""
    adversarial_epsilon: float = 0.0
    """Size of adversarial perturbations of the embeddings, relative to their norm; 0 disables adversarial training."""
    freeze: bool = field(default=False, metadata=FLAG)
    """Freeze the body and train the head alone."""
    pooler_activation: PoolerActivation = "none"
    """Put a dense layer with this activation before the classes (BERT: tanh, DistilBERT: relu)."""
    class_bias: bool = True
    """Bias of the classes (GPT-2 has none)."""

    def __post_init__(self) -> None:
        if not 0 <= self.head_dropout < 1:
            raise UserError(f"head_dropout is {self.head_dropout}; choose a number from 0 up to, not including, 1")
        if not 0 <= self.adversarial_epsilon < math.inf:
            raise UserError(
                f"adversarial_epsilon is {self.adversarial_epsilon}; choose 0 for none, or a number like 0.1"
            )


@dataclass(frozen=True)
class Recipe:
    """Everything that defines one run."""

    objective: Objective
    preset: str
    shape: Shape
    training: Training
    data: Data
    vocab_size: int
    """Vocabulary size, special tokens included."""
    tokenizer_digest: str = ""
    """Hash of the tokenizer in the run directory, once there is one."""
    origin: str = ""
    """Run whose weights initialize the model; if empty, the weights are random."""
    encoder_origin: str = ""
    """Run whose body initializes the encoder of a translator."""
    decoder_origin: str = ""
    """Run whose body and head initialize the decoder of a translator."""
    body: BodyKind = "decoder"
    """Kind of body: causal, bidirectional, or both with cross-attention."""
    masking: Masking | None = None
    contrast: Contrast | None = None
    graft: Graft | None = None
    labels: tuple[str, ...] = ()
    imported: str = ""
    """Checkpoint that the run was imported from; empty if it was trained here."""
    cost: Mapping[str, float] = field(default_factory=dict)
    """Measured by a short calibration before the start: seconds per step, gigabytes at the peak."""

    def __post_init__(self) -> None:
        _at_least("vocab_size", self.vocab_size, 1)


Description = TypeVar("Description")


def from_dict(kind: type[Description], values: Mapping[str, Any], where: str) -> Description:
    """Read a description strictly.

    >>> from_dict(Shape, {"n_laers": 3}, "recipe.json")
    Traceback (most recent call last):
    greffon.core.errors.UserError: recipe.json: unknown setting 'n_laers'; did you mean 'layers'?
    """
    if not isinstance(values, Mapping):
        raise UserError(f"{where}: expected a table of settings, found {type(values).__name__}")
    hints = get_type_hints(kind)
    for name in values:
        if name not in hints:
            raise UserError(f"{where}: {unknown_setting(name, list(hints))}")
    read = {name: read_value(hints[name], value, f"{where}: {name}") for name, value in values.items()}
    required = [
        f.name
        for f in dataclasses.fields(kind)  # type: ignore[arg-type]
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    for name in required:
        if name not in read:
            raise UserError(f"{where}: the setting {name!r} is missing")
    return kind(**read)


def override(description: Description, settings: Mapping[str, Any]) -> Description:
    """Return the description with those of the settings that it has and that are not None."""
    names = {f.name for f in dataclasses.fields(description)}  # type: ignore[arg-type]
    given = {name: value for name, value in settings.items() if name in names and value is not None}
    return dataclasses.replace(description, **given)  # type: ignore[type-var]


def unknown_setting(name: str, known: list[str]) -> str:
    """Say that there is no such setting, and what it is called here or what was meant.

    >>> unknown_setting("lr", ["steps", "learning_rate"])
    "unknown setting 'lr': it is 'learning_rate' here"
    """
    ours = our_name(name, known)
    return f"unknown setting {name!r}" + (did_you_mean(name, known) if ours is None else f": it is {ours!r} here")


def check_names(settings: Mapping[str, Any], *kinds: type, where: str = "") -> None:
    """Refuse settings that none of the descriptions has."""
    known = [f.name for kind in kinds for f in dataclasses.fields(kind)]
    for name in settings:
        if name not in known:
            raise UserError(f"{where}{unknown_setting(name, known)}")


FREE = ("dropout", "context")
"""What fine-tuning may change in the shape of a body."""
PAIR_SETTINGS = ("batch_tokens", "label_smoothing", "metric_for_best")


def refuse_pair_settings(settings: Mapping[str, Any]) -> None:
    """Refuse the settings that mean something to a translator alone."""
    for name in PAIR_SETTINGS:
        if settings.get(name) is not None:
            raise UserError(f"{option(name)} is for translation (--objective seq2seq); leave it out")


def option(name: str) -> str:
    """Write a setting as an option of the command line: `--batch-size`."""
    return f"--{name.replace('_', '-')}"


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise UserError(f"{name} is {value}; choose {least} or more")


def read_value(hint: Any, value: Any, where: str) -> Any:
    """Check one value against its annotation; JSON's lists become tuples, its integers floats."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_dict(hint, value, where)
    origin = get_origin(hint)
    if origin is Literal:
        if value in get_args(hint):
            return value
        raise UserError(f"{where}: unknown choice {value!r}{did_you_mean(str(value), get_args(hint))}")
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        return read_value(next(arg for arg in get_args(hint) if arg is not type(None)), value, where)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(read_value(get_args(hint)[0], item, where) for item in value)
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        return {str(name): read_value(get_args(hint)[1], item, where) for name, item in value.items()}
    if hint is Any:
        return value
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and type(value) is hint:
        return value
    wanted = hint.__name__ if isinstance(hint, type) else str(hint)
    raise UserError(f"{where}: expected {wanted}, found {value!r}")
