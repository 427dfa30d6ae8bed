"""Heads of tasks that do not read one vector a text: hidden states in, logits out."""

from dataclasses import replace

import torch
from torch import Tensor

from greffon.core.config import Graft
from greffon.nn.heads import ClassHead


class TokenHead(ClassHead):
    """A class head on every token instead of one vector a text: (B, T, W) → (B, T, C)."""

    def __init__(self, hidden_size: int, tags: int, graft: Graft, norm_epsilon: float = 1e-5) -> None:
        super().__init__(hidden_size, tags, replace(graft, pooling="mean", concat_embeddings=False), norm_epsilon)

    def forward(self, hidden: Tensor, document_ids: Tensor | None = None) -> Tensor:
        """Return the logits of every tag."""
        return self.classify(hidden)


class TowersHead(ClassHead):
    """A class head on |u − v| and u · v of the vectors u and v of two texts, which alternate: (2 N, W) → (N, C)."""

    def __init__(self, hidden_size: int, classes: int, graft: Graft, norm_epsilon: float = 1e-5) -> None:
        super().__init__(2 * hidden_size, classes, graft, norm_epsilon)

    def classify(self, pooled: Tensor) -> Tensor:
        """Return the logits of every class of each pair."""
        u, v = pooled[0::2], pooled[1::2]
        return super().classify(torch.cat(((u - v).abs(), u * v), dim=-1))
