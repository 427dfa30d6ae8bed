"""A score for each text: squared error on targets of mean 0 and standard deviation 1."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from greffon.core.recipe import Recipe
from greffon.data.corpora import Labelled
from greffon.objectives.batch import IGNORE


@dataclass(frozen=True)
class ScoreTargets:
    """The standardised score of each text."""

    mean: float = 0.0
    deviation: float = 1.0

    @classmethod
    def from_recipe(cls, recipe: Recipe) -> "ScoreTargets":
        """Take the mean and the standard deviation of the training scores from a recipe."""
        return cls(*recipe.score_scale)

    def of(self, example: Labelled) -> float:
        """Return the score of a text in standard deviations from the mean."""
        return 0.0 if example.score is None else (example.score - self.mean) / self.deviation

    def stack(self, targets: Sequence[float]) -> Tensor:
        """Return the scores: (N,)."""
        return torch.tensor(targets, dtype=torch.float32)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Sum the squared error over the texts."""
        return ((logits.squeeze(-1) - targets).square() * (targets != IGNORE)).sum()

    def outputs(self, logits: Tensor) -> Tensor:
        """Return the scores, in the units of the file: (N, 1)."""
        return logits * self.deviation + self.mean
