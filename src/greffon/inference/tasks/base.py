"""The interface of a task's answers and scores."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from greffon.core.json_results import JsonResult
from greffon.core.recipe import Recipe
from greffon.core.rng import generator
from greffon.data.corpora import Labelled
from greffon.inference.metrics import Interval

Outputs = Sequence[npt.NDArray[Any]]
"""What a head says of each text, as `objectives/task_texts.py` returns it."""
Found = Mapping[str, float]
"""Held-out scores; a name with a slash is a number that was fitted on the held-out texts, such as a threshold."""


class Measure(Protocol):
    """What the outputs of a head mean, and how good they are."""

    metric: str
    """Name of the measure that comes first."""
    higher_is_better: bool
    """Whether more of it is better."""
    has_probabilities: bool
    """Whether an answer has a probability, of which a least one can be asked for."""
    noun: str
    """What the outputs of the head are called."""

    def held_out(self, recipe: Recipe, examples: Sequence[Labelled], outputs: Outputs) -> dict[str, float]:
        """Return the scores by which a training chooses its weights, `loss` among them."""
        ...

    def key(self, scores: Found) -> tuple[float, ...]:
        """Return what is highest for the best scores."""
        ...

    def calibrated(self, scores: Found, outputs: Outputs) -> Outputs:
        """Return outputs with the temperature among the held-out scores, as a finished run gives them."""
        ...

    def answers(self, recipe: Recipe, scores: Found, examples: Sequence[Labelled], outputs: Outputs) -> Sequence[Any]:
        """Return an answer for each text; `scores` are the held-out ones of the weights."""
        ...

    def parts(
        self, recipe: Recipe, scores: Found, examples: Sequence[Labelled], outputs: Outputs
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return two numbers of each text; the first measure is the sum of the ones divided by that of the others."""
        ...

    def scores(self, recipe: Recipe, scores: Found, examples: Sequence[Labelled], outputs: Outputs) -> "TaskScores":
        """Score the outputs for labelled texts."""
        ...


class TaskScores(JsonResult):
    """Scores of a run on labelled texts; the first one has an interval."""

    metric: str
    interval: Interval
    n: int

    def lines(self) -> list[str]:
        """Return the scores for a person."""
        raise NotImplementedError


def ratio_interval(over: npt.ArrayLike, under: npt.ArrayLike, seed: int = 0, resamples: int = 1000) -> Interval:
    """95 % percentile bootstrap interval over texts of a score that is a sum divided by another one.

    >>> ratio_interval([1, 1, 1], [1, 1, 1])
    (1.0, 1.0)
    """
    above, below = np.asarray(over, dtype=np.float64), np.asarray(under, dtype=np.float64)
    count = len(above)
    weights = generator(seed, "bootstrap").multinomial(count, np.full(count, 1 / count), size=resamples)  # (R, N)
    sums = weights @ below
    ratios = np.divide(weights @ above, sums, out=np.zeros(resamples), where=sums > 0)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return float(low), float(high)


def ratio(over: float, under: float) -> float:
    """Return a share; 0 where there is nothing to share."""
    return float(over / under) if under else 0.0
