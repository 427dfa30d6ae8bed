"""A score for each text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from greffon.core.json_results import JsonResult
from greffon.core.recipe import Recipe
from greffon.data.corpora import Labelled
from greffon.inference.metrics import Interval
from greffon.inference.tasks.base import Found, Outputs, TaskScores, ratio_interval


@dataclass(frozen=True)
class Rating(JsonResult):
    """A text and its score."""

    text: str
    """The text."""
    score: float
    """Predicted score, on the scale of the training file."""

    def above(self, least: float) -> "Rating":
        """Return the score, which has no probability."""
        return self

    def cells(self) -> dict[str, str]:
        """Return the answer as columns of a table."""
        return {"prediction": f"{self.score:.6g}"}

    def line(self) -> str:
        """Return the answer for a person."""
        return f"{self.score:.3f}\t{' '.join(self.text.split())}"


@dataclass(frozen=True)
class PairRating(JsonResult):
    """A pair of texts and its score."""

    text_a: str
    """The first text."""
    text_b: str
    """The second text."""
    score: float
    """Predicted score, on the scale of the training file."""

    def above(self, least: float) -> "PairRating":
        """Return the score, which has no probability."""
        return self

    def cells(self) -> dict[str, str]:
        """Return the answer as columns of a table."""
        return {"prediction": f"{self.score:.6g}"}

    def line(self) -> str:
        """Return the answer for a person."""
        return f"{self.score:.3f}\t{' '.join(self.text_a.split())}\t{' '.join(self.text_b.split())}"


@dataclass(frozen=True)
class RegressionScores(TaskScores):
    """Scores of a run that gives scores."""

    mae: float
    """Mean absolute error."""
    interval: Interval
    """95 % bootstrap interval of the mean absolute error, over texts."""
    rmse: float
    """Root of the mean squared error."""
    pearson: float
    """Correlation with the true scores; 0 where one of the two is constant."""
    spearman: float
    """Correlation of the ranks; 0 where one of the two is constant."""
    n: int
    """Number of texts."""
    metric: str = "mae"
    """Name of the first measure; lower is better."""

    def lines(self) -> list[str]:
        """Return the scores for a person."""
        low, high = self.interval
        return [
            f"mean absolute error {self.mae:.3f} (95 % interval {low:.3f} to {high:.3f}), RMSE {self.rmse:.3f}, "
            f"Pearson {self.pearson:.3f}, Spearman {self.spearman:.3f}, {self.n:,} texts"
        ]


class Regression:
    """Answers and scores of a run that gives scores."""

    metric: str = "mae"
    higher_is_better: bool = False
    has_probabilities: bool = False
    noun: str = "scores"

    def value(self, row: npt.NDArray[Any]) -> float:
        """Return the score that the outputs for a text stand for."""
        return float(row[0])

    def _both(
        self, examples: Sequence[Labelled], outputs: Outputs
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        gold = np.array([example.score for example in examples], dtype=np.float64)
        return gold, np.array([self.value(row) for row in outputs], dtype=np.float64)

    def held_out(self, recipe: Recipe, examples: Sequence[Labelled], outputs: Outputs) -> dict[str, float]:
        """Return the errors, the correlation, and the loss: the squared error in units of the training scores."""
        gold, found = self._both(examples, outputs)
        deviation = recipe.score_scale[1] if recipe.score_scale else 1.0
        error = found - gold
        return {
            "mae": float(np.abs(error).mean()),
            "pearson": correlation(gold, found),
            "loss": float(np.square(error / deviation).mean()),
        }

    def key(self, scores: Found) -> tuple[float, ...]:
        """Prefer the lowest squared error."""
        return (-scores["loss"],)

    def calibrated(self, scores: Found, outputs: Outputs) -> Outputs:
        """Return the outputs, which have no temperature."""
        return outputs

    def answers(
        self, recipe: Recipe, scores: Found, examples: Sequence[Labelled], outputs: Outputs
    ) -> list[Rating | PairRating]:
        """Return the score of each text."""
        return [
            Rating(example.text, self.value(row))
            if example.second is None
            else PairRating(example.text, example.second, self.value(row))
            for example, row in zip(examples, outputs, strict=True)
        ]

    def parts(
        self, recipe: Recipe, scores: Found, examples: Sequence[Labelled], outputs: Outputs
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return the error of each text, and 1."""
        gold, found = self._both(examples, outputs)
        return np.abs(found - gold), np.ones(len(gold))

    def scores(self, recipe: Recipe, scores: Found, examples: Sequence[Labelled], outputs: Outputs) -> RegressionScores:
        """Score the scores."""
        gold, found = self._both(examples, outputs)
        error = np.abs(found - gold)
        return RegressionScores(
            mae=float(error.mean()),
            interval=ratio_interval(*self.parts(recipe, scores, examples, outputs)),
            rmse=float(np.sqrt(np.square(error).mean())),
            pearson=correlation(gold, found),
            spearman=rank_correlation(gold, found),
            n=len(error),
        )


def correlation(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> float:
    """Return Pearson's correlation; 0 where one of the two is constant."""
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def rank_correlation(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> float:
    """Return Spearman's correlation; 0 where one of the two is constant."""
    from scipy.stats import rankdata

    return correlation(rankdata(a), rankdata(b))
