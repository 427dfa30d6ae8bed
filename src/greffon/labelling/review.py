"""Labels to look at again: those that the model doubts, and equal texts with different labels."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from greffon.core.json_results import JsonResult
from greffon.inference.probe import ProbeForm, out_of_fold
from greffon.labelling.heap import Heap

DOUBTFUL = 0.5
"""Factor: a label is doubted if it is less than so many times as probable as the most probable one."""
MOST = 50


@dataclass(frozen=True)
class Doubt(JsonResult):
    """A label that a model trained on the other labels finds improbable."""

    index: int
    text: str
    label: str
    probability: float
    """Probability of the label."""
    suggested: str
    """The most probable label."""


@dataclass(frozen=True)
class Conflict(JsonResult):
    """Two texts that differ in nothing but case, spacing and punctuation, with different labels."""

    first: int
    second: int
    text: str
    first_label: str
    second_label: str


def doubts(heap: Heap, labelled: Mapping[int, str], labels: Sequence[str]) -> tuple[Doubt, ...]:
    """Judge each label by a probe that has not seen it; return the most doubtful first."""
    texts = np.array(list(labelled), np.int64)
    given = np.array([labels.index(label) for label in labelled.values()])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The number of unique classes")  # few labels of many classes
        found = out_of_fold(heap.vectors[texts], given.tolist(), ProbeForm(len(labels), heap.centre))
    own, best = found[np.arange(len(given)), given], found.max(axis=1)
    order = [int(place) for place in np.argsort(own / best) if own[place] < DOUBTFUL * best[place]]  # not for NaN
    return tuple(
        Doubt(
            int(texts[place]),
            heap.texts[texts[place]],
            labels[given[place]],
            float(own[place]),
            labels[int(found[place].argmax())],
        )
        for place in order[:MOST]
    )


def conflicts(heap: Heap, labelled: Mapping[int, str]) -> tuple[Conflict, ...]:
    """Return pairs of equal texts with different labels."""
    first: dict[int, int] = {}
    found = []
    for text, label in labelled.items():
        earlier = first.setdefault(int(heap.groups[text]), text)
        if labelled[earlier] != label and heap.groups[text] >= 0:
            found.append(Conflict(earlier, text, heap.texts[text], labelled[earlier], label))
    return tuple(found[:MOST])
