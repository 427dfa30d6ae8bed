"""A probe fitted to the labels so far, and what it makes of every text of the heap."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from greffon.inference.probe import STRENGTH, Probe, ProbeForm, fit_probe
from greffon.labelling.heap import Heap

_TOGETHER = 8192


@dataclass(frozen=True, eq=False)
class Fit:
    """A probe, the number of labels it was fitted to, and its margins."""

    probe: Probe
    labels: int
    margins: np.ndarray
    """Difference between the probabilities of the two most probable labels, for each text of the heap, (N,)."""


def fit(heap: Heap, labelled: Mapping[int, str], labels: Sequence[str]) -> Fit | None:
    """Fit a probe to labelled texts, and score the heap; None where there is one class only."""
    probe = probe_of(heap, labelled, labels)
    return None if probe is None else Fit(probe, len(labelled), margins(probe, heap.vectors))


def probe_of(heap: Heap, labelled: Mapping[int, str], labels: Sequence[str]) -> Probe | None:
    """Fit a probe to labelled texts; None where there is one class only, or one vector.

    The strength is not chosen by cross-validation: texts that were chosen for being hard would mislead it.
    """
    texts = np.array(list(labelled), np.int64)
    if len(set(labelled.values())) < 2 or np.allclose(heap.vectors[texts], heap.vectors[texts[0]]):
        return None  # nothing tells them apart yet
    classes = [labels.index(label) for label in labelled.values()]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The number of unique classes")  # few labels of many classes
        return fit_probe(heap.vectors[texts], classes, ProbeForm(len(labels), heap.centre), strengths=(STRENGTH,))


def margins(probe: Probe, vectors: np.ndarray) -> np.ndarray:
    """Return how far apart the two highest probabilities of each text are, (N,)."""
    found = np.empty(len(vectors), np.float32)
    for first in range(0, len(vectors), _TOGETHER):
        highest = np.partition(probe.probabilities(vectors[first : first + _TOGETHER]), -2, axis=1)
        found[first : first + len(highest)] = highest[:, -1] - highest[:, -2]
    return found
