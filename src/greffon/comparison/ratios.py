"""Intervals and paired tests of scores that are a sum over texts divided by another one: F1, accuracy, mean error.

An arm is two arrays, (seeds, texts): what stands above and below the line of its score. Knows no models or files.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from greffon.core.rng import generator
from greffon.inference.metrics import Difference, Interval

Floats = npt.NDArray[np.float64]


class Parts(NamedTuple):
    """The two sums of an arm, by seed and text."""

    over: Floats
    under: Floats

    @property
    def by_seed(self) -> Floats:
        """The score of each seed."""
        return ratios(self.over.sum(axis=1), self.under.sum(axis=1))

    @property
    def mean(self) -> float:
        """The mean of the seeds' scores."""
        return float(self.by_seed.mean())


def ratios(over: npt.ArrayLike, under: npt.ArrayLike) -> Floats:
    """Divide; 0 where there is nothing to divide by."""
    above, below = np.asarray(over, dtype=np.float64), np.asarray(under, dtype=np.float64)
    out: Floats = np.divide(above, below, out=np.zeros(np.broadcast_shapes(above.shape, below.shape)), where=below > 0)
    return out


def score_interval(arm: Parts, seed: int = 0, resamples: int = 1000) -> Interval:
    """95 % percentile bootstrap interval of the mean score, over seeds and texts."""
    return _percentiles(_resampled([arm], seed, resamples)[0])


def score_difference(a: Parts, b: Parts, seed: int = 0, resamples: int = 1000, permutations: int = 2000) -> Difference:
    """Compare two arms on the same texts: difference, interval, and the p-value of a paired permutation test."""
    means = _resampled([a, b], seed, resamples)
    return Difference(a.mean - b.mean, _percentiles(means[0] - means[1]), _permutation_p(a, b, seed, permutations))


def _resampled(arms: Sequence[Parts], seed: int, resamples: int) -> list[Floats]:
    """Return the resampled means of each arm; texts are drawn once for all arms, seeds for each."""
    texts = arms[0].over.shape[1]
    random = generator(seed, "bootstrap")
    weights = random.multinomial(texts, np.full(texts, 1 / texts), size=resamples)  # (R, N)
    means = []
    for arm in arms:
        by_seed = ratios(weights @ arm.over.T, weights @ arm.under.T)  # (R, S)
        seeds = by_seed.shape[1]
        shares = random.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples) / seeds
        means.append((by_seed * shares).sum(axis=1))
    return means


def _permutation_p(a: Parts, b: Parts, seed: int, permutations: int) -> float:
    """Swap the answers of the two arms for a random half of the texts, again and again."""
    random, texts = generator(seed, "permutations"), a.over.shape[1]
    ours, theirs = (np.stack([part.mean(axis=0) for part in arm]) for arm in (a, b))  # (2, N) each
    observed = abs(_gap(ours.sum(axis=1), theirs.sum(axis=1)))
    extreme = 0
    for _ in range(permutations):
        swap = random.random(texts) < 0.5
        one, other = np.where(swap, theirs, ours).sum(axis=1), np.where(swap, ours, theirs).sum(axis=1)
        extreme += abs(_gap(one, other)) >= observed - 1e-12
    return (extreme + 1) / (permutations + 1)


def _gap(one: Floats, other: Floats) -> float:
    return float(ratios(one[0], one[1]) - ratios(other[0], other[1]))


def _percentiles(means: Floats) -> Interval:
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)
