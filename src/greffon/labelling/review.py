"""Labels to look at again: those that the model doubts, and equal texts with different labels."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from greffon.core.json_results import JsonResult
from greffon.labelling.answers import OneClass
from greffon.labelling.fit import held_out
from greffon.labelling.heap import Heap, Text

DOUBTFUL = 0.5
"""Factor: a label is doubted if it is less than so many times as probable as another one."""
MOST = 50


@dataclass(frozen=True)
class Doubt(JsonResult):
    """A label that a model trained on the other labels finds improbable."""

    index: int
    text: Text
    label: str
    probability: float
    """Probability of the label; of several, of the one that is doubted being there, or missing."""
    suggested: str
    """The most probable label; of several, with or without the one that is doubted."""


@dataclass(frozen=True)
class Conflict(JsonResult):
    """Two texts that differ in nothing but case, spacing and punctuation, with different labels."""

    first: int
    second: int
    text: Text
    first_label: str
    second_label: str


def doubts(heap: Heap, labelled: Mapping[int, str], answers: OneClass) -> tuple[Doubt, ...]:
    """Judge each label by a probe that has not seen it; return the most doubtful first."""
    texts, labels = list(labelled), list(labelled.values())
    ratio, own, suggested = answers.doubted(labels, held_out(heap, labelled, answers))
    order = [int(place) for place in np.argsort(ratio) if ratio[place] < DOUBTFUL]  # not for NaN
    return tuple(
        Doubt(texts[place], heap.texts[texts[place]], labels[place], float(own[place]), suggested[place])
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
