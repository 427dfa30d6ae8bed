"""What a training has logged, thinned out so that a chart can be drawn from it again and again."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from greffon.core.json_results import JsonResult
from greffon.runs.run import own_loss

MOST_POINTS = 400
"""More points than a screen can show."""

Point = tuple[float, float, float]


@dataclass(frozen=True)
class Curve(JsonResult):
    """Scores of one run by name, each a list of (step, seconds, value)."""

    steps: int
    training: dict[str, list[Point]]
    valid: dict[str, list[Point]]


def curve(metrics: Sequence[Mapping[str, Any]], steps: int) -> Curve:
    """Gather the scores of a run from its metrics."""
    training: dict[str, list[Point]] = {}
    valid: dict[str, list[Point]] = {}
    for entry in metrics:
        if not {"step", "seconds"} <= entry.keys() or "averaged" in entry:
            continue  # the mean of several weights is no point of their curve
        where = float(entry["step"]), float(entry["seconds"])
        if _finite(loss := own_loss(entry)):
            training.setdefault("loss", []).append((*where, float(loss)))
        for name, value in entry.get("valid", {}).items():
            if "/" not in name and _finite(value):  # with a slash: fitted on the texts, such as a threshold
                valid.setdefault(name, []).append((*where, float(value)))
    return Curve(
        steps,
        {name: thinned(points) for name, points in training.items()},
        {name: thinned(points) for name, points in valid.items()},
    )


def thinned(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """Average neighbouring points until at most `most` are left; the last one is kept as it is."""
    if len(points) <= most:
        return list(points)
    *rest, last = points
    return [tuple(part.mean(axis=0).tolist()) for part in np.array_split(np.array(rest), most - 1)] + [last]


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
