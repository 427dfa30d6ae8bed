"""Where the labelling stands: accuracy on the texts kept aside, the curve so far, and what more labels would bring."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from greffon.core.json_results import JsonResult
from greffon.inference.metrics import Interval, wilson_interval
from greffon.inference.probe import Probe
from greffon.labelling.baseline import Baseline
from greffon.labelling.fit import probe_of
from greffon.labelling.forecast import Forecast, forecast
from greffon.labelling.heap import Heap
from greffon.labelling.marks import Agreement
from greffon.labelling.review import Conflict, Doubt, conflicts, doubts

SMALLEST = 10
"""Labels of the first point of the curve."""


@dataclass(frozen=True)
class Score(JsonResult):
    """Accuracy on the texts kept aside, with its 95 % Wilson interval."""

    labels: int
    """Number of labels that were trained on."""
    accuracy: float
    interval: Interval


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
    score: Score | None = None
    """Accuracy of the probe; None before there are labels of two classes, and some kept aside."""
    tfidf: Score | None = None
    """Accuracy of TF-IDF with logistic regression on the same labels."""
    curve: tuple[Score, ...] = ()
    """Accuracy with the first 10, 14, 20, 28, … labels, on all texts kept aside so far."""
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

    def __init__(self, heap: Heap, labels: Sequence[str], aim: float | None) -> None:
        self.heap, self.labels, self.aim = heap, labels, aim
        self._baseline = Baseline(heap)
        self._probes: dict[tuple[tuple[int, str], ...], Probe | None] = {}

    def counts(self, now: Snapshot) -> Progress:
        """Return what needs no model."""
        by_label = Counter(now.everything.values())
        return Progress(
            labels=len(now.training),
            aside=len(now.aside),
            skipped=now.skipped,
            flagged=now.flagged,
            by_label={label: by_label[label] for label in self.labels},
            agreement=now.agreement,
            conflicts=conflicts(self.heap, now.everything),
        )

    def assess(self, now: Snapshot) -> Progress:
        """Score probes of several sizes on the texts kept aside, and look for labels to doubt."""
        counted = self.counts(now)
        if len(set(now.training.values())) < 2:
            return counted
        counted = replace(counted, doubts=doubts(self.heap, now.training, self.labels))
        if not now.aside:
            return counted
        sizes, wrong = self._wrong(now)
        if not sizes:
            return counted  # equal vectors with different labels: nothing tells them apart yet
        scores = [_score(size, row) for size, row in zip(sizes, wrong, strict=True)]
        guesses = self._baseline.predictions(list(now.training), list(now.training.values()), list(now.aside))
        missed = np.array([guess != label for guess, label in zip(guesses, now.aside.values(), strict=True)])
        return replace(
            counted,
            score=scores[-1],
            tfidf=_score(len(now.training), missed),
            curve=tuple(scores),
            forecast=forecast(sizes, wrong, self.aim),
        )

    def _wrong(self, now: Snapshot) -> tuple[list[int], np.ndarray]:
        """Return the sizes of the curve, and which texts kept aside a probe of each size gets wrong, (S, M)."""
        labelled = list(now.training.items())
        judges = self.heap.vectors[np.array(list(now.aside), np.int64)]
        truth = np.array([self.labels.index(label) for label in now.aside.values()])
        sizes, rows, kept = [], [], {}
        for size in curve_sizes(len(labelled)):
            first = tuple(labelled[:size])
            probe = self._probes[first] if first in self._probes else probe_of(self.heap, dict(first), self.labels)
            kept[first] = probe
            if probe is not None:
                sizes.append(size)
                rows.append(probe.probabilities(judges).argmax(axis=1) != truth)
        self._probes = kept
        return sizes, np.array(rows)


def curve_sizes(labels: int) -> list[int]:
    """Return the sizes of a curve that ends at a number of labels.

    >>> curve_sizes(50)
    [10, 14, 20, 28, 40, 50]
    """
    sizes = [round(SMALLEST * 2 ** (step / 2)) for step in range(40)]
    return [*(size for size in sizes if size < labels), labels]


def _score(labels: int, wrong: np.ndarray) -> Score:
    right = int((~wrong).sum())
    return Score(labels, right / len(wrong), wilson_interval(right, len(wrong)))
