"""One simulated session: the same desk as that of the page, with answers from a list."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from greffon.core.json_results import JsonResult
from greffon.inference.tasks.base import ratio
from greffon.labelling.answers import OneClass
from greffon.labelling.desk import Desk
from greffon.labelling.fit import judge_of
from greffon.labelling.heap import Heap
from greffon.labelling.log import Mark
from greffon.labelling.strategy import Choosing

REFIT_EVERY, REFIT_SHARE = 5, 0.05
"""Labels between two fits, at least, and as a share of the labels; in a session the background decides."""


@dataclass(frozen=True)
class Point(JsonResult):
    """One session with so many labels."""

    labels: int
    score: float
    """The accuracy, or the micro F1 of several labels."""
    classes: int
    """Number of classes among the labels."""


def simulate(
    heap: Heap,
    truth: Sequence[str],
    judges: tuple[np.ndarray, Sequence[str]],
    sizes: Sequence[int],
    choosing: Choosing,
    answers: OneClass,
) -> list[Point]:
    """Label up to the largest of the sizes as the page would ask for it, and score a probe at each size.

    Nothing is kept aside: `judges`, vectors and labels of other texts, take that part.
    """
    desk = Desk(heap, answers, replace(choosing, aside_share=0.0))
    points, fitted = [], 0
    for n in range(1, max(sizes) + 1):
        asked = desk.next()
        if asked is None:
            break
        desk.add(Mark("label", asked.index, truth[asked.index], asked.source))
        if desk.choosing.uses_a_probe and n - fitted >= max(REFIT_EVERY, REFIT_SHARE * n):
            desk.fit, fitted = desk.refit(), n
        if n in sizes:
            labelled = desk.training()
            judge = judge_of(heap, labelled, answers)
            only = next(iter(labelled.values()))
            given = [only] * len(judges[1]) if judge is None else judge.given(judges[0])
            over, under = answers.parts(judges[1], given)
            seen = {name for label in labelled.values() for name in answers.names(label)}
            points.append(Point(n, ratio(over.sum(), under.sum()), len(seen)))
    return points
