"""One class for each text: cross-entropy over the classes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from greffon.core.recipe import Recipe
from greffon.data.corpora import Labelled


@dataclass(frozen=True)
class ClassTargets:
    """The number of a class for each text; -1 where the class is unknown."""

    numbers: dict[str, int] = field(default_factory=dict)
    weights: tuple[float, ...] = ()
    """Weight of each class in the loss; none if all are 1."""

    @classmethod
    def from_recipe(cls, recipe: Recipe) -> "ClassTargets":
        """Take the classes and their weights from a recipe."""
        return cls({label: i for i, label in enumerate(recipe.labels)}, recipe.class_weights)

    def of(self, example: Labelled) -> int:
        """Return the number of a text's class."""
        return self.numbers.get(example.label, -1)

    def stack(self, targets: Sequence[int]) -> Tensor:
        """Return the numbers of the classes: (N,)."""
        return torch.tensor(targets, dtype=torch.long)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Sum the cross-entropy over the texts."""
        weight = logits.new_tensor(self.weights) if self.weights else None
        return F.cross_entropy(logits, targets, weight=weight, reduction="sum")

    def outputs(self, logits: Tensor) -> Tensor:
        """Return the probability of each class."""
        return logits.softmax(dim=-1)
