"""A probe fitted to the labels so far, and what it makes of every text of the heap."""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from greffon.inference.probe import Probe, ProbeForm, out_of_fold
from greffon.labelling.answers import Floats, OneClass
from greffon.labelling.heap import Heap

_TOGETHER = 8192


@dataclass(frozen=True, eq=False)
class Fit:
    """A probe, the number of labels it was fitted to, and its margins."""

    probe: Probe
    labels: int
    margins: np.ndarray
    """How sure the probe is of each text of the heap, (N,): the smaller, the more it hesitates."""


@dataclass(frozen=True, eq=False)
class Judge:
    """A probe, and from which probability on it gives each label."""

    answers: OneClass
    probe: Probe
    thresholds: Floats

    def given(self, vectors: np.ndarray) -> list[str]:
        """Return the label of each vector."""
        return self.answers.given(self.probe.probabilities(vectors), self.thresholds)


def fit(heap: Heap, labelled: Mapping[int, str], answers: OneClass) -> Fit | None:
    """Fit a probe to labelled texts, and score the heap; None where there is one label only."""
    probe = probe_of(heap, labelled, answers)
    return None if probe is None else Fit(probe, len(labelled), margins(probe, heap.vectors, answers))


def probe_of(heap: Heap, labelled: Mapping[int, str], answers: OneClass) -> Probe | None:
    """Fit a probe to labelled texts; None where there is one label only, or one vector."""
    texts = np.array(list(labelled), np.int64)
    if len(set(labelled.values())) < 2 or np.allclose(heap.vectors[texts], heap.vectors[texts[0]]):
        return None  # nothing tells them apart yet
    with few_labels():
        return answers.probe(heap.vectors[texts], list(labelled.values()), heap.centre)


def judge_of(heap: Heap, labelled: Mapping[int, str], answers: OneClass) -> Judge | None:
    """Fit a probe that says which labels a text has; None where there is nothing to learn from."""
    probe = probe_of(heap, labelled, answers)
    if probe is None:
        return None
    thresholds = answers.thresholds(list(labelled.values()), lambda: held_out(heap, labelled, answers))
    return Judge(answers, probe, thresholds)


def held_out(heap: Heap, labelled: Mapping[int, str], answers: OneClass) -> Floats:
    """Return the probabilities of each labelled text by a probe that has not seen it: (N, C)."""
    vectors = heap.vectors[np.array(list(labelled), np.int64)]
    with few_labels():
        found = [
            out_of_fold(vectors, numbers.tolist(), ProbeForm(count, heap.centre))
            for numbers, count in answers.questions(list(labelled.values()))
        ]
    return answers.joined(found)


@contextmanager
def few_labels() -> Iterator[None]:
    """Silence scikit-learn about few labels of many classes: that is how every session begins."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The number of unique classes")
        yield


def margins(probe: Probe, vectors: np.ndarray, answers: OneClass) -> np.ndarray:
    """Return how sure a probe is of each text, (N,)."""
    found = np.empty(len(vectors), np.float32)
    for first in range(0, len(vectors), _TOGETHER):
        found[first : first + _TOGETHER] = answers.margins(probe.probabilities(vectors[first : first + _TOGETHER]))
    return found
