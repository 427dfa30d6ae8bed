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

from greffon.core.errors import UserError, did_you_mean, out_of_range, setting
from greffon.core.synonyms import our_name

Activation = Literal["relu", "squared-relu", "gelu", "gelu-tanh", "silu", "swiglu", "geglu"]
GATED = ("swiglu", "geglu")
"""Activations in which a third linear layer of the feed-forward network gates the first."""
Norm = Literal["layer", "rms"]
NormPlace = Literal["pre", "post"]
Positions = Literal["sinusoidal", "sinusoidal-halves", "sinusoidal-tensor2tensor", "rotary", "learned", "none"]
RopeScaling = Literal["none", "linear", "llama3"]
PretrainingObjective = Literal["causal", "masked", "contrastive", "seq2seq"]
Objective = Literal["causal", "masked", "contrastive", "classify", "seq2seq", "body"]
BodyKind = Literal["decoder", "encoder", "encoder-decoder"]
Optimizer = Literal["adamw", "muon"]
LrSchedule = Literal["linear", "cosine", "inverse-sqrt", "constant"]
BestMetric = Literal["loss", "bleu"]
Device = Literal["auto", "cpu", "cuda", "mps"]
Precision = Literal["fp32", "bf16"]
ExecutorName = Literal["local", "dask", "slurm"]
Backend = Literal["torch", "ctranslate2"]
Pooling = Literal["cls", "last", "mean", "mean-max"]
Pool = Literal["cls", "mean", "last"]
"""Poolings that need no trained head."""
PoolerActivation = Literal["none", "tanh", "relu", "gelu", "identity"]
HeadInit = Literal["probe", "random"]
Selection = Literal["held-out", "folds"]
Task = Literal["classes", "multilabel", "regression", "pairs", "tokens"]
Answer = Literal["classes", "multilabel", "regression", "tokens"]
"""Kind of what a head says: pairs have classes or scores."""
PairReading = Literal["towers", "cross"]
ClassWeights = Literal["none", "balanced"]
LongTexts = Literal["windows", "truncate"]

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
    key_value_heads: int = 0
    """Number of heads of keys and values, each shared by a group of query heads; 0 for as many as `heads`."""
    head_dim: int = 0
    """Width of an attention head; 0 for the hidden size divided by the number of heads."""
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
    qkv_bias: bool = False
    """Biases of queries, keys and values, where other layers have none (Qwen2)."""
    qk_norm: bool = False
    """Normalize the queries and keys of each head by RMSNorm (Qwen3)."""
    rope_theta: float = 10_000.0
    """Base of the wavelengths of rotary positions."""
    partial_rotary_factor: float = 1.0
    """Fraction of each head's features that rotary positions rotate (GPT-NeoX: 0.25)."""
    rope_scaling: RopeScaling = "none"
    """Stretch rotary positions for a longer context: all alike (linear), or the slow ones alone (llama3)."""
    rope_factor: float = 1.0
    """Factor by which rotary positions are stretched."""
    rope_low_freq_factor: float = 1.0
    """Turns within the original context up to which wavelengths are fully stretched (llama3)."""
    rope_high_freq_factor: float = 4.0
    """Turns within the original context from which wavelengths are not stretched (llama3)."""
    rope_original_context: int = 8192
    """Context before rotary positions were stretched (llama3)."""
    local_attention: int = 0
    """Window of local attention, in tokens: half to each side, or all to the left in a causal body; 0 for none."""
    global_attention_every: int = 3
    """With local attention, every n-th layer, from the first on, attends to the whole document."""
    local_rope_theta: float = 10_000.0
    """Base of the wavelengths of rotary positions in layers with local attention."""
    parallel_residual: bool = False
    """Let attention and the feed-forward network read the same states, and add both (GPT-NeoX)."""
    first_norm: bool = True
    """Normalize before the attention of the first block; ModernBERT, which normalizes the embeddings, does not."""
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
    """Number of learned or tensor2tensor positions before the first one in use (RoBERTa, M2M100: 2)."""
    head_transform: bool = False
    """Put a dense layer, an activation and a norm before the vocabulary head, as BERT does."""
    head_bias: bool = False
    """Bias of a vocabulary head with tied embeddings (BERT, Marian)."""
    untied_head_bias: bool = True
    """Bias of a vocabulary head with a matrix of its own, where `bias` is on (GPT-NeoX has none)."""

    def __post_init__(self) -> None:
        for name in ("layers", "hidden_size", "heads", "intermediate_size", "context"):
            _at_least(name, getattr(self, name), 1)
            if getattr(self, name) > LARGEST[name]:
                raise out_of_range(name, getattr(self, name), f"choose {LARGEST[name]} at most")
        if not 0 <= self.segments <= LARGEST["layers"]:
            raise out_of_range("segments", self.segments, "choose 0, or 2 for pairs of texts")
        if not 0 <= self.position_offset <= LARGEST["layers"]:
            raise out_of_range("position_offset", self.position_offset, "choose 0 or more")
        if not 0 < self.norm_epsilon < 1:
            raise out_of_range("norm_epsilon", self.norm_epsilon, "choose a small number above 0, such as 1e-5")
        if not self.head_dim and self.hidden_size % self.heads:
            raise UserError(
                f"{setting('hidden_size', self.hidden_size)} cannot be cut into {self.heads} heads; "
                "choose a number that divides it"
            )
        if not 0 <= self.dropout < 1:
            raise out_of_range("dropout", self.dropout, "choose a number from 0 up to, not including, 1")
        self._check_attention()
        self._check_rope()
        if self.parallel_residual and self.norm_place == "post":
            parallel = setting("parallel_residual", True)
            raise UserError(f"{parallel} needs {setting('norm_place', 'pre')}; choose one of the two")
        if not self.first_norm and (self.norm_place == "post" or not self.embedding_norm):
            raise UserError(
                f"{setting('first_norm', False)} needs {setting('norm_place', 'pre')} and "
                f"{setting('embedding_norm', True)}, as in ModernBERT"
            )

    def _check_attention(self) -> None:
        """Refuse heads that cannot be formed, and windows without a width."""
        if not 0 <= self.head_dim <= LARGEST["hidden_size"]:
            raise out_of_range("head_dim", self.head_dim, f"choose 0, or a width of {LARGEST['hidden_size']} at most")
        if self.key_value_heads < 0 or self.heads % self.groups:
            wanted = f"choose 0, or a number that divides the {self.heads} heads"
            raise out_of_range("key_value_heads", self.key_value_heads, wanted)
        if not 0 <= self.local_attention <= LARGEST["context"]:
            raise out_of_range("local_attention", self.local_attention, "choose 0, or a window of tokens such as 128")
        if not 1 <= self.global_attention_every <= LARGEST["layers"]:
            raise out_of_range("global_attention_every", self.global_attention_every, "choose 1 or more")

    def _check_rope(self) -> None:
        """Refuse rotary positions that turn no pairs of features, or by no finite angle."""
        if self.positions != "rotary":
            return
        if self.rotated < 2 or self.rotated % 2:
            raise UserError(
                f"rotary positions turn pairs of features, but {self.rotated} of a head's {self.head_width} features "
                "would turn; choose an even number"
            )
        for name in ("rope_theta", "local_rope_theta", "rope_factor", "rope_low_freq_factor", "rope_high_freq_factor"):
            if not 0 < getattr(self, name) < 1e12:
                raise out_of_range(name, getattr(self, name), "choose a number above 0")
        if self.rope_low_freq_factor >= self.rope_high_freq_factor:
            wanted = f"choose a number below {setting('rope_high_freq_factor', self.rope_high_freq_factor)}"
            raise out_of_range("rope_low_freq_factor", self.rope_low_freq_factor, wanted)
        _at_least("rope_original_context", self.rope_original_context, 1)

    @property
    def head_width(self) -> int:
        """Width of an attention head."""
        return self.head_dim or self.hidden_size // self.heads

    @property
    def numbers_texts(self) -> bool:
        """Whether the two texts of a pair are of different segments; RoBERTa, known by its offset, has one for both."""
        return self.segments > 1 and not self.position_offset

    @property
    def groups(self) -> int:
        """Number of heads of keys and values."""
        return self.key_value_heads or self.heads

    @property
    def rotated(self) -> int:
        """Number of features of a head that rotary positions rotate."""
        return int(self.head_width * self.partial_rotary_factor) if 0 < self.partial_rotary_factor <= 1 else 0

    def is_local(self, layer: int) -> bool:
        """Whether a layer, counted from 0, attends to a window alone."""
        return self.local_attention > 0 and layer % self.global_attention_every > 0


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
                raise out_of_range(name, getattr(self, name), "choose a number above 0")
        if not (self.skip_loss_spikes == 0 or 1 < self.skip_loss_spikes < math.inf):
            raise out_of_range("skip_loss_spikes", self.skip_loss_spikes, "choose a number above 1, or 0 for none")
        if not 0 < self.layer_decay <= 1:
            raise out_of_range("layer_decay", self.layer_decay, "choose a share above 0 and up to 1")
        if not 0 <= self.label_smoothing < 1:
            raise out_of_range("label_smoothing", self.label_smoothing, "choose a share from 0 up to, not including, 1")
        if not 0 <= self.weight_decay < 1:
            raise out_of_range("weight_decay", self.weight_decay, "choose a number from 0 up to 1")

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
    selection: Selection = "held-out"
    """How the epoch is selected without validation files: on a fifth of the training texts, or by cross-validation."""
    fold: int = 0
    """Number of the fold of the training texts that is held out, counted from 1; 0 for none."""
    limit: int = 0
    """Number of labelled training texts to draw for a label curve; 0 for all."""
    draw: int = 0
    """Which stratified draw of `limit` texts; draws of one number are nested."""
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
    label_column: str | None = None
    """Column with the label; None for the task's usual one (`label`, `labels`, `score` or `spans`), or else `label`."""
    task: Task = "classes"
    """What the labelled files ask for: one class, several labels or a score a text, a pair of texts, or spans."""
    pair_columns: tuple[str, ...] = ("text_a", "text_b")
    """Columns with the two texts of a pair."""
    scored: bool = False
    """Read the labels of pairs as scores, whatever their column; a column `score` is read so anyway."""
    label_separator: str = "|"
    """What stands between the labels of one text."""
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

    def __post_init__(self) -> None:
        if not 0 < self.mask_rate < 1:
            raise out_of_range("mask_rate", self.mask_rate, "choose a fraction between 0 and 1, such as 0.15")


@dataclass(frozen=True)
class Contrast:
    """Settings of the contrast of documents (--objective contrastive)."""

    span_length: int = 128
    """Maximum number of tokens of each of the two spans of a document; fewer where the context is shorter."""
    temperature: float = 0.07
    """Temperature of the contrastive loss."""
    token_dropout: float = 0.3
    """Share of the tokens that each span loses, drawn anew in each pass."""

    def __post_init__(self) -> None:
        _at_least("span_length", self.span_length, 2)
        if not 0 <= self.token_dropout < 1:
            raise out_of_range("token_dropout", self.token_dropout, "choose a share from 0 up to, not including, 1")
        if not 0 < self.temperature < math.inf:
            raise out_of_range("temperature", self.temperature, "choose a number above 0, such as 0.07")


@dataclass(frozen=True)
class Graft:
    """How a class head is grafted on a body."""

    pooling: Pooling = "mean-max"
    """Hidden states that the head reads: of the first token, of the last one, their mean, or mean and maximum (default:
    mean for a head that starts as the probe, and for contrastive bodies)."""
    concat_embeddings: bool = False
    """Let the head also read the pooled token embeddings."""
    head_dropout: float = 0.0
    """Dropout probability of the pooled features."""
    adversarial_epsilon: float = 0.0
    """Size of adversarial perturbations of the embeddings, relative to their norm; 0 disables adversarial training."""
    freeze: bool = field(default=False, metadata=FLAG)
    """Freeze the body and train the head alone."""
    pooler_activation: PoolerActivation = "none"
    """Put a dense layer with this activation before the classes (BERT: tanh, DistilBERT: relu, ModernBERT: gelu)."""
    pooler_bias: bool = True
    """Bias of the dense layer before the classes."""
    pooler_norm: bool = False
    """Normalize after the dense layer and its activation, without a bias, as ModernBERT does."""
    class_bias: bool = True
    """Bias of the classes (GPT-2 has none)."""
    head_init: HeadInit = "random"
    """Start the class head as logistic regression on the body's vectors, or at random (default: probe for a pretrained
    body). The probe has a dense layer without activation, normalized, and is fine-tuned at a lower learning rate."""
    pair_reading: PairReading = "towers"
    """Read the texts of a pair each on its own (towers), or as one text (cross)."""
    class_weights: ClassWeights = "none"
    """Weights of the classes in the loss: none, or inverse to their frequency (balanced)."""
    long_texts: LongTexts = "windows"
    """Texts longer than the context: read in windows, whose vectors are averaged, or truncated."""

    def __post_init__(self) -> None:
        if not 0 <= self.head_dropout < 1:
            raise out_of_range("head_dropout", self.head_dropout, "choose a number from 0 up to, not including, 1")
        if not 0 <= self.adversarial_epsilon < math.inf:
            raise out_of_range(
                "adversarial_epsilon", self.adversarial_epsilon, "choose 0 for none, or a number like 0.1"
            )
        for name, value, what in (("pooler_norm", True, "follows"), ("pooler_bias", False, "is that of")):
            if self.pooler_activation == "none" and getattr(self, name) == value:
                raise UserError(
                    f"{setting(name, value)} {what} a dense layer, and {setting('pooler_activation', 'none')} has "
                    "none; choose identity"
                )


@dataclass(frozen=True)
class Embedding:
    """How a checkpoint of sentence-transformers makes one vector of a text."""

    pooling: Pool = "mean"
    """Vector of a text: the mean of its hidden states, the last one, or that of [CLS]."""
    normalize: bool = False
    """Scale each vector to unit length."""
    max_length: int = 512
    """Number of tokens of a text that are read."""


@dataclass(frozen=True)
class GenerationConfig:
    """Which tokens an imported checkpoint writes, by the names of its generation_config.json."""

    eos_token_id: tuple[int, ...] = ()
    """Tokens that end a text; if empty, the end token of the tokenizer."""
    suppress_tokens: tuple[int, ...] = ()
    """Tokens that are never written."""
    begin_suppress_tokens: tuple[int, ...] = ()
    """Tokens that are never written first."""
    forced_bos_token_id: int | None = None
    """Token that is always written first."""
    forced_eos_token_id: int | None = None
    """Token that is written last where a text reaches its maximum length."""
    renormalize_logits: bool = False
    """Let the probabilities of the tokens that may be written add up to one."""


@dataclass(frozen=True)
class Recipe:
    """Everything that defines one run."""

    objective: Objective
    """What is trained: a pretraining objective, or classify for any head that was grafted."""
    preset: str
    """Name of the preset that the recipe began with."""
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
    """Names of the head's outputs: classes, labels or IOB2 tags; none for a score."""
    class_weights: tuple[float, ...] = ()
    """Weight of each class or label in the loss; if empty, all are 1."""
    score_scale: tuple[float, ...] = ()
    """Mean and standard deviation of the training scores, in which a score is learned."""
    embedding: Embedding | None = None
    """How vectors of texts are made, where the checkpoint that the run was imported from says so."""
    generation: GenerationConfig | None = None
    """How text is generated, where the checkpoint that the run was imported from says so."""
    imported: str = ""
    """Checkpoint that the run was imported from; empty if it was trained here."""
    environment: Mapping[str, Any] = field(default_factory=dict)
    """Device, precision and threads of the latest training; a run can be resumed with others."""
    cost: Mapping[str, float] = field(default_factory=dict)
    """Measured by a short calibration before the start: seconds per step, gigabytes at the peak."""

    def __post_init__(self) -> None:
        _at_least("vocab_size", self.vocab_size, 1)
        if self.objective == "seq2seq":
            for name in ("parallel_residual", "local_attention"):
                if getattr(self.shape, name):
                    raise UserError(f"{setting(name)} is for bodies with one side; leave it out for translation")

    @property
    def task(self) -> Task:
        """The task of a head that was grafted."""
        return self.data.task

    @property
    def answer(self) -> Answer:
        """The kind of what the head says."""
        if self.data.task == "pairs":
            return "classes" if self.labels else "regression"
        return self.data.task

    @property
    def outputs(self) -> int:
        """Number of outputs of a grafted head."""
        return max(1, len(self.labels))


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
    try:
        return kind(**read)
    except UserError as mistake:
        raise UserError(f"{where}: {mistake}") from None


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


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise out_of_range(name, value, f"choose {least} or more")


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
