"""One simulated session: the same desk as that of the page, with answers from a list."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from greffon.core.json_results import JsonResult
from greffon.labelling.desk import Desk
from greffon.labelling.fit import probe_of
from greffon.labelling.heap import Heap
from greffon.labelling.log import Mark
from greffon.labelling.strategy import Choosing

REFIT_EVERY, REFIT_SHARE = 5, 0.05
"""Labels between two fits, at least, and as a share of the labels; in a session the background decides."""


@dataclass(frozen=True)
class Point(JsonResult):
    """One session with so many labels."""

    labels: int
    accuracy: float
    classes: int
    """Number of classes among the labels."""


def simulate(
    heap: Heap,
    answers: Sequence[str],
    judges: tuple[np.ndarray, Sequence[str]],
    sizes: Sequence[int],
    choosing: Choosing,
    names: Sequence[str],
) -> list[Point]:
    """Label up to the largest of the sizes as the page would ask for it, and score a probe at each size.

    Nothing is kept aside: `judges`, vectors and labels of other texts, take that part.
    """
    desk = Desk(heap, names, replace(choosing, aside_share=0.0))
    truth = np.array([names.index(label) for label in judges[1]])
    points, fitted = [], 0
    for n in range(1, max(sizes) + 1):
        asked = desk.next()
        if asked is None:
            break
        desk.add(Mark("label", asked.index, answers[asked.index], asked.source))
        if desk.choosing.uses_a_probe and n - fitted >= max(REFIT_EVERY, REFIT_SHARE * n):
            desk.fit, fitted = desk.refit(), n
        if n in sizes:
            labelled = desk.training()
            probe = probe_of(heap, labelled, names)
            seen = set(labelled.values())
            right = (
                truth == names.index(next(iter(seen)))
                if probe is None
                else probe.probabilities(judges[0]).argmax(axis=1) == truth
            )
            points.append(Point(n, float(np.mean(right)), len(seen)))
    return points
