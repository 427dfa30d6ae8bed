"""Frozen descriptions of a run, read strictly: an unknown name is an error with the nearest known one.

Nothing here knows how a run is executed. Settings that cannot be are refused when the description is
made, so that no other module has to check them again.
"""

import dataclasses
import math
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from greffon.core.errors import UserError, did_you_mean

Activation = Literal["relu", "squared-relu", "gelu", "gelu-tanh", "silu", "swiglu"]
Norm = Literal["layer", "rms"]
NormPlace = Literal["pre", "post"]
Positions = Literal["sinusoidal", "sinusoidal-halves", "rotary", "learned", "none"]
PretrainingObjective = Literal["causal", "masked", "seq2seq"]
Objective = Literal["causal", "masked", "classify", "seq2seq", "body"]
BodyKind = Literal["decoder", "encoder", "encoder-decoder"]
Optimizer = Literal["adamw", "muon"]
LrSchedule = Literal["linear", "cosine", "inverse-sqrt", "constant"]
BestMetric = Literal["loss", "bleu"]
Backend = Literal["torch", "ctranslate2"]
Pooling = Literal["cls", "last", "mean", "mean-max"]
Pool = Literal["cls", "mean", "last"]
"""What can stand for a text that is only looked at."""
PoolerActivation = Literal["none", "tanh", "relu"]

LARGEST = {"layers": 1000, "hidden_size": 100_000, "heads": 1000, "intermediate_size": 1_000_000, "context": 1_000_000}
"""Beyond any machine that this package is for: a larger number is a slip of the finger."""


@dataclass(frozen=True)
class Shape:
    """The form of a body."""

    layers: int = 3
    """Number of blocks."""
    hidden_size: int = 128
    """Features of a hidden state."""
    heads: int = 2
    """Attention heads; they share the width and cost nothing."""
    intermediate_size: int = 512
    """Features inside the feed-forward network."""
    activation: Activation = "squared-relu"
    """What bends inside the feed-forward network."""
    norm: Norm = "layer"
    """LayerNorm, or RMSNorm."""
    norm_place: NormPlace = "pre"
    """Whether norms stand before each sublayer, or after."""
    positions: Positions = "rotary"
    """How a token knows where it stands."""
    bias: bool = False
    """Whether linear maps and layer norms have biases."""
    tie_embeddings: bool = True
    """Whether the vocabulary head borrows the embedding as its matrix."""
    dropout: float = 0.0
    """The share of features that training hides."""
    context: int = 256
    """Tokens of the longest text it is trained on."""
    segments: int = 0
    """Kinds of text in a pair that the body tells apart; 0: none."""
    scale_embeddings: bool = True
    """Whether embeddings are multiplied by √width on their way in."""
    embedding_norm: bool = False
    """Whether a norm stands between the embeddings and the first block (BERT)."""
    norm_epsilon: float = 1e-5
    """What norms add to the variance."""
    position_offset: int = 0
    """Learned positions before the first one in use (RoBERTa: 2)."""
    head_transform: bool = False
    """Whether the vocabulary head maps, bends and normalises what it reads first (BERT)."""
    head_bias: bool = False
    """Whether a tied vocabulary head has a bias of its own (BERT, Marian)."""

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
    """Optimiser steps in all; 0: as many as `minutes` hold, by a short calibration."""
    minutes: float = 0.0
    """Minutes of training, where no steps are given."""
    batch_size: int = 8
    """Rows of a batch (texts, when fine-tuning)."""
    batch_tokens: int = 4096
    """Padded tokens of a batch of pairs at most, on its longer side."""
    gradient_accumulation: int = 1
    """Batches whose gradients are summed for one step."""
    optimizer: Optimizer = "muon"
    """Muon for the matrices inside the blocks and AdamW for the rest, or AdamW for all."""
    learning_rate: float = 1e-2
    """AdamW's rate: embeddings, heads, norms, biases (and matrices, without Muon)."""
    muon_learning_rate: float = 1e-2
    """Muon's rate, for the matrices inside the blocks."""
    weight_decay: float = 0.0
    """The share of a weight that a full step takes away."""
    warmup_steps: int = 100
    """Steps in which the rate climbs to its full height; a fifth of all steps at most."""
    lr_schedule: LrSchedule = "linear"
    """How the rate falls afterwards: to zero at the last step, or with the root of the step (Noam)."""
    max_grad_norm: float = 1.0
    """The largest gradient norm; longer ones are scaled down."""
    skip_loss_spikes: float = 5.0
    """A loss this many times the usual is not learned from, nor a gradient 100 times as many; 0: only no numbers."""
    label_smoothing: float = 0.0
    """The share that is spread over the whole vocabulary instead of the wanted token (translation)."""
    average_checkpoints: int = 0
    """Evaluations, the last ones, whose weights are averaged at the end, if that is better; 0: none."""
    metric_for_best: BestMetric = "loss"
    """Which held-out score chooses the best weights and stops early: loss, or BLEU (translation)."""
    layer_decay: float = 1.0
    """The rate of each layer as a share of the one above it (ULMFiT)."""
    unfreeze_every: int = 0
    """Steps after which one more layer, from the top, begins to learn; 0: all learn from the start."""
    patience: int = 0
    """Evaluations without a better score after which training stops; 0: never."""
    compile: bool = False
    """Whether blocks are compiled first (torch.compile): a minute of waiting, and seldom much faster on a CPU."""
    seed: int = 0
    """What all random numbers are derived from."""
    evaluate_every: int = 0
    """Steps between two evaluations; 0: ten in all (pretraining) or one an epoch (fine-tuning)."""
    eval_tokens: int = 65_536
    """Held-out tokens that an evaluation reads at most."""
    checkpoint_minutes: float = 2.0
    """Minutes between two checkpoints at most."""

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
    """Where the text comes from."""

    train: tuple[str, ...] = ()
    mix: tuple[int, ...] = ()
    """How many rows of each text to take in turn; empty: all text is one."""
    valid: tuple[str, ...] = ()
    """Empty: a share of the training text is held out."""
    test: tuple[str, ...] = ()
    """Scored beside the validation text; never used to choose anything."""
    hold_out_test: bool = False
    """Whether a fifth of the labelled training texts is kept as the test."""
    limit: int = 0
    """How many labelled texts to train on at most; 0: all."""
    source: str = ""
    """A file of sentences, and"""
    target: str = ""
    """one with their translations on the same lines (or both in columns of `train`)."""
    valid_source: str = ""
    valid_target: str = ""
    text_column: str = "text"
    label_column: str = "label"
    source_column: str = "source"
    target_column: str = "target"
    tokenizer: str = ""
    """An existing tokenizer; empty: one is trained on the training text."""
    digest: str = ""
    """The identity of what was read: text and tokenizer."""


@dataclass(frozen=True)
class Masking:
    """What a masked language model hides, and whether it also judges pairs of texts."""

    mask_rate: float = 0.15
    """The share of tokens to predict: 80 % of them hidden, 10 % replaced, 10 % left as they are."""
    whole_word_masking: bool = False
    """Whether all pieces of a word are chosen together."""
    next_sentence: bool = False
    """Whether to learn, too, if one text follows another in the same document."""
    gist: bool = False
    """Whether to tell what is hidden from the mean of its whole text, too."""

    def __post_init__(self) -> None:
        if not 0 < self.mask_rate < 1:
            raise UserError(f"mask_rate is {self.mask_rate}; choose a share between 0 and 1, such as 0.15")
        if self.gist and self.next_sentence:
            raise UserError("--gist and --next-sentence each learn something of a whole text; give one of them")


@dataclass(frozen=True)
class Graft:
    """How a class head is grafted on a body."""

    pooling: Pooling = "mean-max"
    """What the head reads: the first token, the last real one, the mean, or mean and maximum side by side."""
    concat_embeddings: bool = False
    """Whether the head also reads the token embeddings, beside what the body made of them."""
    head_dropout: float = 0.0
    """The share of pooled features that training hides from the head."""
    adversarial_epsilon: float = 0.0
    """How far training also pushes a text's embeddings to where they mislead most, in lengths of one; 0: not at all."""
    freeze: bool = False
    """Train the head alone."""
    pooler_activation: PoolerActivation = "none"
    """Whether the head maps and bends the pooled features first (BERT: tanh, DistilBERT: relu)."""
    class_bias: bool = True
    """Whether the classes have a bias (GPT-2's have none)."""

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
    """Tokens of the vocabulary, special ones included."""
    tokenizer_digest: str = ""
    """The identity of the tokenizer in the run directory, once there is one."""
    origin: str = ""
    """The run whose weights it starts from; empty: fresh ones."""
    encoder_origin: str = ""
    """The run whose body the encoder of a translator starts from."""
    decoder_origin: str = ""
    """The run whose body, and head, the decoder of a translator starts from."""
    body: BodyKind = "decoder"
    """Whether it reads forward only, both ways, or one text while it writes another."""
    masking: Masking | None = None
    graft: Graft | None = None
    labels: tuple[str, ...] = ()
    imported: str = ""
    """The checkpoint it was read from, where it was not trained here."""
    cost: Mapping[str, float] = field(default_factory=dict)
    """What a short calibration measured before the start: seconds a step, gigabytes at the peak."""

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
            raise UserError(f"{where}: unknown setting {name!r}{did_you_mean(name, hints)}")
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


def check_names(settings: Mapping[str, Any], *kinds: type, where: str = "") -> None:
    """Refuse settings that none of the descriptions has."""
    known = [f.name for kind in kinds for f in dataclasses.fields(kind)]
    for name in settings:
        if name not in known:
            raise UserError(f"{where}unknown setting {name!r}{did_you_mean(name, known)}")


FREE = ("dropout", "context")
"""What fine-tuning may change in the shape of a body."""
PAIR_SETTINGS = ("batch_tokens", "label_smoothing", "metric_for_best")


def refuse_pair_settings(settings: Mapping[str, Any]) -> None:
    """Refuse the settings that mean something to a translator alone."""
    for name in PAIR_SETTINGS:
        if settings.get(name) is not None:
            raise UserError(f"--{name.replace('_', '-')} is for translation (--objective seq2seq); leave it out")


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
