"""Where the labelling stands: accuracy on the texts kept aside, the curve so far, and what more labels would bring."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from greffon.core.json_results import JsonResult
from greffon.inference.metrics import Interval
from greffon.inference.tasks.base import ratio
from greffon.labelling.answers import Floats, OneClass
from greffon.labelling.baseline import Baseline
from greffon.labelling.fit import Judge, judge_of
from greffon.labelling.forecast import Forecast, forecast
from greffon.labelling.heap import Heap
from greffon.labelling.marks import Agreement
from greffon.labelling.review import Conflict, Doubt, conflicts, doubts

SMALLEST = 10
"""Labels of the first point of the curve."""


@dataclass(frozen=True)
class Score(JsonResult):
    """The measure on the texts kept aside, with its 95 % interval: Wilson's of an accuracy, bootstrap of an F1."""

    labels: int
    """Number of labels that were trained on."""
    value: float
    """The accuracy, or the micro F1 of several labels."""
    interval: Interval
    n: int
    """Number of texts kept aside that judged."""


@dataclass(frozen=True)
class Progress(JsonResult):
    """Where a session stands."""

    labels: int = 0
    """Number of labels to train on."""
    aside: int = 0
    """Number of labels that are kept aside to judge."""
    skipped: int = 0
    flagged: int = 0
    by_label: Mapping[str, int] = field(default_factory=dict)
    """Number of texts with each label, those kept aside included."""
    metric: str = "accuracy"
    """What is measured: `accuracy`, or `micro_f1` of several labels."""
    score: Score | None = None
    """Score of the probe; None before there are two different labels, and some kept aside."""
    tfidf: Score | None = None
    """Score of TF-IDF with logistic regression on the same labels."""
    curve: tuple[Score, ...] = ()
    """Score with the first 10, 14, 20, 28, … labels, on all texts kept aside so far."""
    forecast: Forecast | None = None
    """What more labels would bring; None before 10 labels are kept aside and the curve has three points."""
    agreement: Agreement = field(default_factory=lambda: Agreement(0, 0, None))
    doubts: tuple[Doubt, ...] = ()
    """Labels that the model doubts, the most doubtful first."""
    conflicts: tuple[Conflict, ...] = ()
    """Texts that say the same and have different labels."""
    problem: str = ""
    """Why the estimates are not up to date; empty as long as the background works."""


def with_estimates(counts: Progress, estimates: Progress) -> Progress:
    """Put the numbers of one moment beside the estimates of another."""
    names = ("score", "tfidf", "curve", "forecast", "doubts", "problem")
    return replace(counts, **{name: getattr(estimates, name) for name in names})


@dataclass(frozen=True)
class Snapshot:
    """What was marked at one moment."""

    training: Mapping[int, str]
    aside: Mapping[int, str]
    everything: Mapping[int, str]
    """All labels, those of neither kind included."""
    skipped: int
    flagged: int
    agreement: Agreement


class Assessor:
    """Makes a `Progress` of a snapshot, and keeps the probes of the curve's earlier points."""

    def __init__(self, heap: Heap, answers: OneClass, aim: float | None) -> None:
        self.heap, self.answers, self.aim = heap, answers, aim
        self._baseline = Baseline(heap, answers)
        self._judges: dict[tuple[tuple[int, str], ...], Judge | None] = {}

    def counts(self, now: Snapshot) -> Progress:
        """Return what needs no model."""
        by_label = Counter(name for label in now.everything.values() for name in self.answers.names(label))
        return Progress(
            labels=len(now.training),
            aside=len(now.aside),
            skipped=now.skipped,
            flagged=now.flagged,
            by_label={label: by_label[label] for label in self.answers.labels},
            metric=self.answers.metric,
            agreement=now.agreement,
            conflicts=conflicts(self.heap, now.everything),
        )

    def assess(self, now: Snapshot) -> Progress:
        """Score probes of several sizes on the texts kept aside, and look for labels to doubt."""
        counted = self.counts(now)
        if len(set(now.training.values())) < 2:
            return counted
        counted = replace(counted, doubts=doubts(self.heap, now.training, self.answers))
        gold = list(now.aside.values())
        if not any(self.answers.names(label) for label in gold):
            return counted  # an F1 needs a label that could be found
        sizes, given = self._given(now)
        if not sizes:
            return counted  # equal vectors with different labels: nothing tells them apart yet
        over, under = (np.array(part) for part in zip(*(self.answers.parts(gold, one) for one in given), strict=True))
        words = self.answers.parts(gold, self._baseline.predictions(now.training, list(now.aside)))
        curve = tuple(self._score(*point) for point in zip(sizes, over, under, strict=True))
        return replace(
            counted,
            score=curve[-1],
            tfidf=self._score(len(now.training), *words),
            curve=curve,
            forecast=forecast(sizes, under - over, under, self.aim),
        )

    def _given(self, now: Snapshot) -> tuple[list[int], list[list[str]]]:
        """Return the sizes of the curve, and what a probe of each size says of the texts kept aside."""
        labelled = list(now.training.items())
        judged = self.heap.vectors[np.array(list(now.aside), np.int64)]
        sizes, rows, kept = [], [], {}
        for size in curve_sizes(len(labelled)):
            first = tuple(labelled[:size])
            judge = self._judges[first] if first in self._judges else judge_of(self.heap, dict(first), self.answers)
            kept[first] = judge
            if judge is not None:
                sizes.append(size)
                rows.append(judge.given(judged))
        self._judges = kept
        return sizes, rows

    def _score(self, labels: int, over: Floats, under: Floats) -> Score:
        return Score(labels, ratio(over.sum(), under.sum()), self.answers.interval(over, under), len(over))


def curve_sizes(labels: int) -> list[int]:
    """Return the sizes of a curve that ends at a number of labels.

    >>> curve_sizes(50)
    [10, 14, 20, 28, 40, 50]
    """
    sizes = [round(SMALLEST * 2 ** (step / 2)) for step in range(40)]
    return [*(size for size in sizes if size < labels), labels]
