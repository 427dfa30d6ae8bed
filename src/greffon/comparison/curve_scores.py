"""Score the label curve: what every arm reached with each number of labels, and how many labels a body saves.

Takes predictions and knows nothing of models or files.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from greffon.comparison.names import MAJORITY, TFIDF
from greffon.comparison.results import Difference, LabelSaving, SizeResult, TrainSize
from greffon.inference.metrics import Correct, accuracy_interval, paired_difference


@dataclass(frozen=True)
class Drawn:
    """What one arm reached with one number of labels."""

    correct: Correct
    """Which test texts were classified rightly in each draw: (draws, texts)."""
    chosen_epoch: tuple[int, ...] = ()
    strength: tuple[float, ...] = ()
    weights: tuple[tuple[float, float], ...] = ()


def score_size(size: int, arms: Mapping[str, Drawn], pairs: Sequence[tuple[str, str]]) -> TrainSize:
    """Score every arm with one number of labels, and measure the pairs, each against TF-IDF, and the best two."""
    results = {
        name: SizeResult(
            float(drawn.correct.mean()),
            accuracy_interval(drawn.correct),
            tuple(drawn.correct.mean(axis=1).tolist()),
            drawn.chosen_epoch,
            drawn.strength,
            drawn.weights,
        )
        for name, drawn in arms.items()
    }
    wanted = [*pairs, *((name, TFIDF) for name in arms if name not in (TFIDF, MAJORITY)), best_two(results)]
    measured = []
    for a, b in dict.fromkeys(wanted):
        found = paired_difference(arms[a].correct, arms[b].correct, paired_rows=True)
        measured.append(Difference(a, b, found.mean, found.interval, found.p))
    return TrainSize(size, results, tuple(measured))


def best_two(arms: Mapping[str, SizeResult]) -> tuple[str, str]:
    """Name the two arms with the highest scores, the best first; of equals the one that is named first."""
    first, second, *_ = sorted(arms, key=lambda name: -arms[name].mean)
    return first, second


def label_savings(sizes: Sequence[TrainSize], arms: Sequence[str]) -> tuple[LabelSaving, ...]:
    """Find for each of the arms and sizes how many labels TF-IDF needs for the same score."""
    curve = [(entry.size, entry.arms[TFIDF].mean) for entry in sizes]
    return tuple(
        LabelSaving(name, entry.size, entry.arms[name].mean, labels_needed(curve, entry.arms[name].mean))
        for name in arms
        for entry in sizes
        if entry.arms[name].mean > entry.arms[TFIDF].mean
    )


def labels_needed(curve: Sequence[tuple[int, float]], score: float) -> int | None:
    """Return the number of labels at which a curve reaches a score for good, interpolated on a log scale.

    `curve` holds sizes and scores in order of size; None if the score is above its end.

    >>> labels_needed([(100, 0.7), (400, 0.8)], 0.75)
    200
    >>> labels_needed([(100, 0.7), (400, 0.8)], 0.9) is None
    True
    """
    if score > curve[-1][1]:
        return None
    # From the end: a curve may dip, and what counts is from where on it stays above.
    for (small, low), (large, high) in reversed(list(itertools.pairwise(curve))):
        if low < score:
            share = (score - low) / (high - low)
            return round(math.exp(math.log(small) + share * (math.log(large) - math.log(small))))
    return curve[0][0]
