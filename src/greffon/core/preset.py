"""A preset: a named shape with the training that suits it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from greffon.core.config import override
from greffon.core.graft import Graft
from greffon.core.shape import Shape
from greffon.core.training import Training

CONTRASTIVE_VOCAB_SIZE = 16_000
"""Tokens of a vocabulary for contrasting documents (docs/findings.md)."""


@dataclass(frozen=True)
class Preset:
    """A shape, how to train it, how to graft a head on it, and the objectives it serves."""

    shape: Shape
    training: Training
    graft: Graft
    finetuning: Training
    finetuning_dropout: float
    adaptation: Training
    contrastive: Training
    objectives: tuple[str, ...]
    vocab_size: int = 8000
    encoder_shape: Shape | None = None
    """The shape of a body that reads both ways, where it differs from that of a causal one."""

    contrastive_layers: int | None = None
    """Number of layers of a body that contrasts documents, where it differs from that of others."""
    small_text_sizes: Mapping[str, int] = field(default_factory=dict)
    """Sizes of a body that contrasts the documents of a small text, where they differ from those of a larger one."""
    small_text_contrast: Mapping[str, float] = field(default_factory=dict)
    """Settings of contrasting the documents of a small text, where they differ from those of a larger one."""

    def shape_for(self, objective: str, *, small_text: bool = False) -> Shape:
        """Return the shape of a body that an objective trains, on a small text or a larger one."""
        if objective == "contrastive" and self.contrastive_layers is not None:
            shape = replace(self.encoder_shape or self.shape, layers=self.contrastive_layers)
            return override(shape, self.small_text_sizes if small_text else {})
        if self.encoder_shape is not None and objective in ("masked", "contrastive"):
            return self.encoder_shape
        return self.shape

    def vocab_size_for(self, objective: str) -> int:
        """Return the size of the vocabulary: a contrast of documents is about words, and wants more of them whole."""
        return max(CONTRASTIVE_VOCAB_SIZE, self.vocab_size) if objective == "contrastive" else self.vocab_size

    def training_for(self, objective: str) -> Training:
        """Return how the shape is pretrained with an objective."""
        return self.contrastive if objective == "contrastive" else self.training
