"""How far probabilities can be believed: of all answers of probability p, is a share of p right?"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from greffon.core.json_results import JsonResult


@dataclass(frozen=True)
class ReliabilityBin(JsonResult):
    """Answers of similar probability."""

    probability: float
    """Mean probability of the answers."""
    right: float
    """Share of the answers that are right."""
    share: float
    """Share of all answers that are in this bin."""


def reliability(sure: npt.ArrayLike, right: npt.ArrayLike, bins: int = 10) -> tuple[ReliabilityBin, ...]:
    """Sort answers by probability into bins of equal width; bins without any answer are left out."""
    p, hits = np.asarray(sure, dtype=np.float64), np.asarray(right, dtype=np.float64)
    place = np.minimum((p * bins).astype(int), bins - 1)
    found = [(place == i) for i in range(bins)]
    return tuple(
        ReliabilityBin(float(p[own].mean()), float(hits[own].mean()), float(own.mean())) for own in found if own.any()
    )


def calibration_error(bins: Sequence[ReliabilityBin]) -> float:
    """Return the expected calibration error: the mean difference between probability and share of right answers.

    >>> round(calibration_error(reliability([0.9, 0.9, 0.6, 0.6], [True, True, True, False])), 6)
    0.1
    """
    return float(sum(each.share * abs(each.probability - each.right) for each in bins))
