"""What a person asks of `generate`, `translate`, `classify` and `evaluate`, in small groups of settings.

Each setting is defined once, as a field: its name, type, default, help text (the docstring below it) and checks.
"""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from greffon.core.choices import FLAG, Backend, Task
from greffon.core.errors import UserError, did_you_mean, out_of_range


@dataclass(frozen=True)
class Sampling:
    """How a text is continued."""

    temperature: float = 0.8
    """Sampling temperature; 0 always takes the most likely token."""
    top_k: int = 0
    """Sample from the K most likely tokens only; 0 disables the limit."""
    top_p: float = 0.95
    """Sample from the most likely tokens whose probabilities add up to P (nucleus sampling); 1 disables the limit."""
    max_new_tokens: int = 40
    """Maximum number of tokens to generate."""
    seed: int = 0
    """Random seed."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise out_of_range("temperature", self.temperature, "choose 0 (the most probable token) or more")
        if self.top_k < 0:
            raise out_of_range("top_k", self.top_k, "choose a number of tokens, or 0 for all")
        if not 0 < self.top_p <= 1:
            raise out_of_range("top_p", self.top_p, "choose a share above 0 and up to 1")
        if self.max_new_tokens < 1:
            raise out_of_range("max_new_tokens", self.max_new_tokens, "choose 1 or more")
        if not 0 <= self.seed < 2**63:
            raise out_of_range("seed", self.seed, "choose a number from 0 up to 2^63")


@dataclass(frozen=True)
class Search:
    """How the best translation is searched for."""

    beam_size: int = 4
    """Number of beams in beam search; 1 is greedy search."""
    length_penalty: float = 1.0
    """Exponent of the length by which scores are divided; larger values favour longer translations."""

    def __post_init__(self) -> None:
        if not 1 <= self.beam_size <= 1000:
            raise out_of_range("beam_size", self.beam_size, "choose 1 (greedy) or more, up to 1000")
        if not 0 <= self.length_penalty <= 10:
            raise out_of_range("length_penalty", self.length_penalty, "choose 0 (none) or more, up to 10")


@dataclass(frozen=True)
class Decoding(Search):
    """How translations are computed."""

    backend: Backend = "torch"
    """Inference engine: torch, or ctranslate2, which is faster; the run is converted for it once."""
    int8: bool = field(default=False, metadata=FLAG)
    """Compute with 8-bit integers: faster for many texts or a large model, but slightly less exact."""
    source_lang: str = ""
    """Language of the sources, for a translator of many: fr_XX (mBART), fr (M2M100), fra_Latn (NLLB)."""
    target_lang: str = ""
    """Language to translate into, for a translator of many."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.backend not in get_args(Backend):
            raise UserError(f"unknown backend {self.backend!r}{did_you_mean(self.backend, get_args(Backend))}")


@dataclass(frozen=True)
class Answering:
    """How texts are labelled."""

    task: Task | None = None
    """Task of the texts, which must be the run's."""
    min_probability: float = 0.0
    """Give no label, or no span, whose probability is lower."""
    int8: bool = field(default=False, metadata=FLAG)
    """Compute with 8-bit integers: faster, but slightly less exact; `evaluate` has the same option to measure it."""

    def __post_init__(self) -> None:
        if not 0 <= self.min_probability <= 1:
            raise out_of_range("min_probability", self.min_probability, "choose a number from 0 to 1")


@dataclass(frozen=True)
class EvaluationFiles:
    """How test files are read; what is left out is as in the training of the run."""

    source: Path | None = None
    """File of source sentences, one per line; needs --target (translator)."""
    target: Path | None = None
    """File of the reference translations of --source, line by line (translator)."""
    source_column: str = "source"
    """Column with the source sentence, in a table of pairs (translator)."""
    target_column: str = "target"
    """Column with the reference translation, in a table of pairs (translator)."""
    text_column: str = "text"
    """Column with the text, in files that have columns."""
    label_column: str | None = None
    """Column with the label (fine-tuned run; default: that of the task, as for finetune)."""
    task: Task | None = None
    """Task of the files, which must be the run's (fine-tuned run)."""
    pair_columns: tuple[str, ...] = field(default=(), metadata={"metavar": "A B"})
    """Columns with the two texts of a pair (fine-tuned run; default: those that it was trained with)."""
    label_separator: str | None = None
    """What stands between the labels of a text (fine-tuned run; default: what it was trained with)."""
