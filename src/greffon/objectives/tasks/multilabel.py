"""Several labels for each text: a sigmoid and a binary cross-entropy for each label."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from greffon.core.recipe import Recipe
from greffon.data.corpora import Labelled
from greffon.data.tasks.multilabel import split_labels
from greffon.objectives.batch import IGNORE


@dataclass(frozen=True)
class LabelTargets:
    """0 or 1 for each label and text."""

    labels: tuple[str, ...]
    weights: tuple[float, ...] = ()
    """Weight of the ones of each label in the loss; none if all are 1."""

    @classmethod
    def from_recipe(cls, recipe: Recipe) -> "LabelTargets":
        """Take the labels and their weights from a recipe."""
        return cls(recipe.labels, recipe.class_weights)

    def of(self, example: Labelled) -> list[float]:
        """Return 1 for each label of a text, and 0 for each other."""
        own = {*split_labels(example.label)}
        return [float(label in own) for label in self.labels]

    def stack(self, targets: Sequence[list[float]]) -> Tensor:
        """Return the zeros and ones: (N, C)."""
        return torch.tensor(targets, dtype=torch.float32).reshape(len(targets), len(self.labels))

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Sum the binary cross-entropy over texts and labels."""
        real = targets != IGNORE
        weight = logits.new_tensor(self.weights) if self.weights else None
        losses = F.binary_cross_entropy_with_logits(logits, targets * real, pos_weight=weight, reduction="none")
        return (losses * real).sum()

    def outputs(self, logits: Tensor) -> Tensor:
        """Return the probability of each label."""
        return logits.sigmoid()
