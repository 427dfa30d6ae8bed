"""Heads of tasks that do not read one vector a text: hidden states in, logits out."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from greffon.core.choices import Task
from greffon.core.graft import Graft
from greffon.core.recipe import Recipe
from greffon.nn.heads import ClassHead


class TokenHead(ClassHead):
    """A class head on every token instead of one vector a text: (B, T, W) → (B, T, C)."""

    def __init__(self, hidden_size: int, tags: int, graft: Graft, norm_epsilon: float = 1e-5) -> None:
        width, settings = self.form(hidden_size, graft)
        super().__init__(width, tags, settings, norm_epsilon)

    @classmethod
    def form(cls, hidden_size: int, graft: Graft) -> tuple[int, Graft]:
        """Return the width of a token, and the settings without those of a text's vector."""
        return hidden_size, replace(graft, pooling="mean", concat_embeddings=False)

    @classmethod
    def reads(cls, graft: Graft) -> str:
        """Say what the head reads."""
        return "the first token of every word"

    def forward(self, hidden: Tensor, document_ids: Tensor | None = None) -> Tensor:
        """Return the logits of every tag."""
        return self.classify(hidden)


class TowersHead(ClassHead):
    """A class head on |u − v| and u · v of the vectors u and v of two texts, which alternate: (2 N, W) → (N, C)."""

    def __init__(self, hidden_size: int, classes: int, graft: Graft, norm_epsilon: float = 1e-5) -> None:
        super().__init__(self.form(hidden_size, graft)[0], classes, graft, norm_epsilon)

    @classmethod
    def form(cls, hidden_size: int, graft: Graft) -> tuple[int, Graft]:
        """Return the width of |u − v| and u · v side by side."""
        return 2 * hidden_size, graft

    @classmethod
    def reads(cls, graft: Graft) -> str:
        """Say what the head reads."""
        return f"|u − v| and u · v of both texts ({graft.pooling} of each)"

    def classify(self, pooled: Tensor) -> Tensor:
        """Return the logits of every class of each pair."""
        u, v = pooled[0::2], pooled[1::2]
        return super().classify(torch.cat(((u - v).abs(), u * v), dim=-1))


HEADS: dict[Task, Callable[[Graft], type[ClassHead]]] = {
    "tokens": lambda graft: TokenHead,
    "pairs": lambda graft: TowersHead if graft.reads_apart else ClassHead,
}
"""Tasks whose heads read something else than one vector a text."""


def head_of(recipe: Recipe) -> type[ClassHead]:
    """Return the kind of head of a fine-tuned run."""
    assert recipe.graft is not None
    return HEADS[recipe.task](recipe.graft) if recipe.task in HEADS else ClassHead
