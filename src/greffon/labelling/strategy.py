"""Which text is asked next.

First a random text of each of the largest clusters: a stratified sample, which varies less than a plain one, and whose
texts are like all others, which the most typical ones are not. Then, by turns, texts that the probe hesitates about,
and the text whose label would leave the least doubt about all others; always some at random, and some kept aside.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from greffon.core.errors import UserError, setting
from greffon.core.rng import generator
from greffon.inference.probe import STRENGTH
from greffon.labelling.clusters import Clusters, unit
from greffon.labelling.heap import Heap
from greffon.labelling.log import Source

Strategy = Literal["mixed", "uncertainty", "diversity", "random"]
_TEN = 10
FIRST = 16
"""Texts that are drawn from the clusters before anything else decides."""
_ROUNDING = 1e-6
_AMONG = 0.05
"""Share of the open texts, the most uncertain ones, among which the largest unseen cluster decides."""
_CANDIDATES = 5000
"""Texts that are looked at for one question, at most, drawn anew for each: the best of so many is good enough."""


@dataclass(frozen=True)
class Choosing:
    """How texts are chosen."""

    strategy: Strategy = "mixed"
    """Mix of uncertainty, diversity and a random share; or one of them alone."""
    random_share: float = 0.1
    """Share of the questions that are drawn at random."""
    aside_share: float = 0.1
    """Share of the texts that is kept aside as a test set, and share of the questions about them."""

    def __post_init__(self) -> None:
        for name in ("random_share", "aside_share"):
            if not 0 <= getattr(self, name) <= 0.5:
                raise UserError(f"{setting(name)} is {getattr(self, name)}; choose a number from 0 to 0.5")

    @property
    def uses_a_probe(self) -> bool:
        """Whether the choice depends on what a model makes of the texts."""
        return self.strategy in ("mixed", "uncertainty")

    @property
    def kept_aside(self) -> str:
        """Say how many texts are kept aside, and what for.

        >>> print(Choosing().kept_aside)
        10 % of the texts are drawn at random and kept aside: nothing is trained on them, so they tell honestly how \
good the model is.
        """
        if not self.aside_share:
            return "No text is kept aside, so nothing can tell honestly how good the model is."
        return (
            f"{100 * self.aside_share:g} % of the texts are drawn at random and kept aside: nothing is trained on "
            "them, so they tell honestly how good the model is."
        )

    def cold_start(self, classes: int) -> int:
        """Return the number of labels from which on a probe's uncertainty is used."""
        return max(FIRST, 2 * classes)

    def source(self, seed: int, question: int) -> Source:
        """Return what the n-th question is drawn by; of each ten, as many are kept aside as the share says."""
        ten = question // _TEN
        drawn = generator(seed, "questions", ten).permutation(_TEN)[question % _TEN]
        aside = _of_ten(self.aside_share, ten)
        if drawn < aside:
            return "aside"
        if self.strategy == "random" or drawn < aside + _of_ten(self.random_share, ten):
            return "random"
        if self.strategy == "mixed":
            return "uncertain" if drawn >= UNCERTAIN_FROM else "diverse"
        return "uncertain" if self.strategy == "uncertainty" else "diverse"


def _of_ten(share: float, ten: int) -> int:
    """Return how many of the n-th ten questions a share has; over several tens, those of 0.05 are every other one.

    >>> [_of_ten(0.2, ten) for ten in range(3)], [_of_ten(0.05, ten) for ten in range(4)]
    ([2, 2, 2], [0, 1, 0, 1])
    """
    before, after = (int(_TEN * share * tens + _ROUNDING) for tens in (ten, ten + 1))
    return after - before


UNCERTAIN_FROM = 4
"""Of ten questions of the mix, those from here on are chosen for the probe's hesitation."""


def pick(heap: Heap, source: Source, free: np.ndarray, seen: np.ndarray, margins: np.ndarray | None, draw: int) -> int:
    """Return the index of the next text.

    `free` marks the texts that may be asked, (N,), and has at least one; `seen` are the texts that were asked before;
    `margins` are the probe's differences between its two most probable labels, (N,), once there is a probe.
    """
    if source == "random":
        return int(generator(heap.seed, "random", draw).choice(np.flatnonzero(free)))
    if source == "uncertain" and margins is not None:
        open_ = np.flatnonzero(free)
        most = max(1, min(len(open_), round(_AMONG * len(open_))))
        doubtful = np.zeros(len(heap), bool)
        doubtful[open_[np.argpartition(margins[open_], most - 1)[:most]]] = True
        inside = _least_seen(heap, doubtful, seen)
        level = _level(heap, seen)
        return int(inside[level.distances[inside].argmin()])
    if len(seen) < FIRST:
        return int(generator(heap.seed, "first", draw).choice(_least_seen(heap, free, seen)))
    return _telling(heap, free, seen, draw)


def _level(heap: Heap, seen: np.ndarray) -> Clusters:
    """Return the coarsest partition with more clusters than texts were seen."""
    return next((one for one in heap.clusters if one.count > len(seen)), heap.clusters[-1])


def _least_seen(heap: Heap, free: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Return the free texts of the largest cluster in which the fewest texts were seen."""
    level = _level(heap, seen)
    looked = np.bincount(level.members[seen], minlength=level.count)
    size = np.bincount(level.members[free], minlength=level.count)
    looked = np.where(size > 0, looked, np.iinfo(looked.dtype).max)
    least = looked == looked.min()
    cluster = int(np.where(least, size, -1).argmax())
    return np.flatnonzero(free & (level.members == cluster))


def _telling(heap: Heap, free: np.ndarray, seen: np.ndarray, draw: int) -> int:
    """Return the text whose label would lower the variance of the predictions for all texts the most.

    For ridge regression on vectors of length one, whose penalty is that of the probe, the variance does not depend on
    the labels: with S the covariance of the weights given what was seen, and M the second moment of all texts, a
    label of x takes x·SMS·x / (1 + x·S·x) off the mean (a V-optimal design, chosen greedily).
    """
    known = unit(heap.vectors[seen], heap.centre)
    precision = np.eye(known.shape[1], dtype=np.float32) / STRENGTH + known.T @ known
    covariance = np.linalg.inv(precision)
    open_ = np.flatnonzero(free)
    if len(open_) > _CANDIDATES:
        open_ = np.sort(generator(heap.seed, "candidates", draw).choice(open_, _CANDIDATES, replace=False))
    texts = unit(heap.vectors[open_], heap.centre)
    spread = texts @ covariance  # (n, W)
    gain = ((spread @ heap.moment) * spread).sum(axis=1) / (1 + (spread * texts).sum(axis=1))
    return int(open_[gain.argmax()])
