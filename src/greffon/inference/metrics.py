"""Metrics of classifiers: intervals, paired differences, and scores by class.

Correctness is a boolean array (seeds, texts): one row per run, one column per test text. The module knows
no models or files; random numbers come from private generators.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from greffon.core.json_results import JsonResult

Correct = npt.NDArray[np.bool_]
Interval = tuple[float, float]

_Z95 = 1.959963984540054  # the normal's 97.5 % quantile


@dataclass(frozen=True)
class Difference(JsonResult):
    """Mean accuracy of `a` minus that of `b`, its 95 % interval, and a two-sided p-value."""

    mean: float
    interval: Interval
    p: float


@dataclass(frozen=True)
class ClassScore(JsonResult):
    """Scores of one class; a ratio with a denominator of 0 is 0."""

    precision: float
    """Share of what was given this label that has it."""
    recall: float
    """Share of what has this label that was given it."""
    f1: float
    """Harmonic mean of precision and recall."""
    support: int
    """Number of texts, or of spans, with this label."""


def accuracy_interval(correct: Correct, seed: int = 0, resamples: int = 2000) -> Interval:
    """95 % percentile bootstrap interval of the mean, resampling both seeds and texts.

    With a single seed the interval covers the variation over texts only.

    >>> accuracy_interval(np.ones((3, 50), dtype=bool))
    (1.0, 1.0)
    """
    (means,) = _two_way_bootstrap([correct], np.random.default_rng(seed), resamples)
    return _percentiles(means)


def paired_difference(
    a: Correct,
    b: Correct,
    seed: int = 0,
    resamples: int = 2000,
    permutations: int = 10_000,
    *,
    paired_rows: bool = False,
) -> Difference:
    """Compare the accuracies of two arms on the same texts; the numbers of seeds may differ.

    With `paired_rows` the n-th rows of both belong together (they had the same labels), and are resampled together.
    """
    rng = np.random.default_rng(seed)
    means_a, means_b = _two_way_bootstrap([a, b], rng, resamples, paired_rows)
    return Difference(
        mean=float(a.mean() - b.mean()),
        interval=_percentiles(means_a - means_b),
        p=_permutation_p(a, b, rng, permutations),
    )


def _two_way_bootstrap(
    arms: Sequence[Correct], rng: np.random.Generator, resamples: int, paired_rows: bool = False
) -> list[npt.NDArray[np.float64]]:
    """Return each arm's resampled means; texts are drawn once for all arms, seeds for each arm or once, too."""
    texts = arms[0].shape[1]
    assert texts > 0, "no test texts"
    assert all(arm.ndim == 2 and arm.shape[0] > 0 and arm.shape[1] == texts for arm in arms)
    # Texts with the same column are exchangeable, so drawing how often each distinct column comes up is
    # the same bootstrap at a cost that hardly grows with the number of texts.
    columns, counts = np.unique(np.vstack(arms), axis=1, return_counts=True)  # (all seeds, K), (K,)
    text_weights = rng.multinomial(texts, counts / texts, size=resamples) / texts  # (R, K)
    means: list[npt.NDArray[np.float64]] = []
    first = 0
    assert not paired_rows or len({len(arm) for arm in arms}) == 1, "rows that belong together are equally many"
    for arm in arms:
        seeds = arm.shape[0]
        by_seed = text_weights @ columns[first : first + seeds].T  # (R, S)
        if not (paired_rows and means):
            seed_weights = rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=resamples) / seeds
        means.append((by_seed * seed_weights).sum(axis=1))
        first += seeds
    return means


def _permutation_p(a: Correct, b: Correct, rng: np.random.Generator, permutations: int) -> float:
    """Return the p-value of a sign-flip permutation test on each text's seed-averaged difference."""
    # Multiplied by both numbers of seeds the differences are integers: ties are exact.
    difference = a.sum(axis=0, dtype=np.int64) * b.shape[0] - b.sum(axis=0, dtype=np.int64) * a.shape[0]
    # Flipping n texts of one magnitude adds 2·Binomial(n, ½) − n of it; zeros add nothing.
    sizes, counts = np.unique(np.abs(difference[difference != 0]), return_counts=True)
    heads = rng.binomial(counts, 0.5, size=(permutations, len(counts)))  # (P, M)
    sums = (2 * heads - counts) @ sizes
    extreme = int((np.abs(sums) >= abs(int(difference.sum()))).sum())
    return (extreme + 1) / (permutations + 1)


def _percentiles(means: npt.NDArray[np.float64]) -> Interval:
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def wilson_interval(correct: int, n: int) -> Interval:
    """Return the 95 % Wilson interval of one run's accuracy; unlike the normal interval it stays within 0 and 1."""
    assert 0 <= correct <= n, f"{correct} correct of {n}"
    assert n > 0, "no test texts"
    share, z2 = correct / n, _Z95**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z95 / (1 + z2 / n) * float(np.sqrt(share * (1 - share) / n + z2 / (4 * n * n)))
    # Rounding must not leave the share itself outside: all right ends at exactly 1.
    return min(share, max(0.0, centre - half)), max(share, min(1.0, centre + half))


def confusion(gold: Sequence[str], predicted: Sequence[str], classes: Sequence[str]) -> list[list[int]]:
    """Return the number of texts by gold label (row) and predicted label (column).

    >>> confusion(["a", "a", "b"], ["a", "b", "b"], ["a", "b"])
    [[1, 1], [0, 1]]
    """
    position = {label: index for index, label in enumerate(classes)}
    table = [[0] * len(classes) for _ in classes]
    for truth, guess in zip(gold, predicted, strict=True):
        table[position[truth]][position[guess]] += 1
    return table


def per_class(gold: Sequence[str], predicted: Sequence[str], classes: Sequence[str]) -> dict[str, ClassScore]:
    """Return precision, recall, F1 and support of each class."""
    table = np.array(confusion(gold, predicted, classes), dtype=np.int64)
    scores = {}
    for index, label in enumerate(classes):
        hits, support, guesses = table[index, index], table[index].sum(), table[:, index].sum()
        scores[label] = ClassScore(
            precision=float(hits / guesses) if guesses else 0.0,
            recall=float(hits / support) if support else 0.0,
            f1=float(2 * hits / (support + guesses)) if support + guesses else 0.0,
            support=int(support),
        )
    return scores


def macro_f1(gold: Sequence[str], predicted: Sequence[str], classes: Sequence[str]) -> float:
    """Return the unweighted mean of the classes' F1: a rare class counts as much as a frequent one."""
    return float(np.mean([score.f1 for score in per_class(gold, predicted, classes).values()]))
