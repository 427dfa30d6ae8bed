"""The frozen description of one run, and of its parts that are neither shape, training nor graft.

Nothing here knows how a run is executed. Impossible settings are refused when the description is made, so that no
other module has to check them again.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from greffon.core.choices import FLAG, Answer, BodyKind, Objective, Pool, Selection, Task
from greffon.core.errors import UserError, check_at_least, out_of_range, setting
from greffon.core.graft import Graft
from greffon.core.shape import Shape
from greffon.core.training import Training


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
    """Settings of masked language modelling (--objective masked)."""

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
    """Settings of contrastive pretraining (--objective contrastive)."""

    span_length: int = 128
    """Maximum number of tokens of each of the two spans of a document; fewer where the context is shorter."""
    temperature: float = 0.07
    """Temperature of the contrastive loss."""
    token_dropout: float = 0.3
    """Share of the tokens that each span loses, drawn anew in each pass."""
    block_share: float = 0.0
    """Size of what the blocks add to the embeddings, as a share of these, in the weights of the finished run; 0 leaves
    it as trained."""

    def __post_init__(self) -> None:
        check_at_least("span_length", self.span_length, 2)
        if not 0 <= self.token_dropout < 1:
            raise out_of_range("token_dropout", self.token_dropout, "choose a share from 0 up to, not including, 1")
        if not 0 < self.temperature < math.inf:
            raise out_of_range("temperature", self.temperature, "choose a number above 0, such as 0.07")
        if not 0 <= self.block_share < math.inf:
            raise out_of_range("block_share", self.block_share, "choose 0, or a share such as 0.25")


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
    tried: Mapping[str, Graft] = field(default_factory=dict)
    """Heads of which the best one on validation becomes `graft`, by name; if empty, nothing was left to choose."""
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
        check_at_least("vocab_size", self.vocab_size, 1)
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
