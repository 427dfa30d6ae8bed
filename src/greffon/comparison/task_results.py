"""The typed content of `results.json` for other tasks than classes, and its verdict."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from greffon.comparison.arm_result import CurvePoint
from greffon.comparison.phrases import p_value
from greffon.core.json_results import to_json
from greffon.inference.calibration import ReliabilityBin
from greffon.inference.tasks.classes import ClassScores
from greffon.inference.tasks.multilabel import LabelScores
from greffon.inference.tasks.regression import RegressionScores
from greffon.inference.tasks.tokens import SpanScores

AllScores = ClassScores | LabelScores | RegressionScores | SpanScores


@dataclass(frozen=True)
class TaskScore:
    """The first measure of an arm on the test texts."""

    mean: float
    """Mean over the seeds."""
    interval: tuple[float, float]
    """95 % bootstrap interval, over seeds and texts."""
    by_seed: tuple[float, ...]
    """Score of each seed; the baseline has one."""


@dataclass(frozen=True)
class TaskPoint:
    """The first measure of one training at one evaluation."""

    seed: int
    """Number of the training."""
    epoch: int
    """Number of epochs trained; 0 is before training."""
    valid: float
    """Measure on the validation texts."""
    test: float
    """Measure on the test texts."""


@dataclass(frozen=True)
class TaskArm:
    """What one arm reached."""

    test_score: TaskScore
    """The first measure on the test texts, at the epoch chosen on validation."""
    scores: AllScores
    """All measures of the first seed, as `greffon evaluate --json` gives them."""
    curve: tuple[TaskPoint, ...]
    """Each evaluation of each seed; empty for the baseline."""
    heads: tuple[str, ...] = ()
    """Head that each seed chose on validation, where several were tried: towers or cross for pairs."""

    @property
    def reliability(self) -> tuple[ReliabilityBin, ...]:
        """How far the probabilities of the first seed can be believed; empty for a task without probabilities."""
        return getattr(self.scores, "reliability", ())

    def mean_curve(self) -> tuple[CurvePoint, ...]:
        """Return the scores after each epoch over the seeds; a training that stopped early keeps its last one."""
        seeds: dict[int, dict[int, TaskPoint]] = {}
        for entry in self.curve:
            seeds.setdefault(entry.seed, {})[entry.epoch] = entry
        epochs = sorted({epoch for own in seeds.values() for epoch in own})
        points = []
        for epoch in epochs:
            last = [own[max(each for each in own if each <= epoch)] for own in seeds.values()]
            valid, test = [entry.valid for entry in last], [entry.test for entry in last]
            points.append(
                CurvePoint(
                    epoch=epoch,
                    valid=float(np.mean(valid)),
                    test=float(np.mean(test)),
                    valid_range=(min(valid), max(valid)),
                    test_range=(min(test), max(test)),
                    seeds=sum(epoch in own for own in seeds.values()),
                )
            )
        return tuple(points)


@dataclass(frozen=True)
class TaskDifference:
    """Difference of the first measure between two arms on the same texts."""

    a: str
    """Name of the first arm."""
    b: str
    """Name of the second arm, which is subtracted."""
    mean: float
    """Measure of the first arm minus that of the second, as a mean over the seeds."""
    interval: tuple[float, float]
    """95 % bootstrap interval of the difference, over texts."""
    p: float
    """Two-sided p of a paired permutation test over the texts."""


@dataclass(frozen=True)
class TaskBaseline:
    """The classical baseline of the task."""

    name: str
    """What it is."""
    strength: float | None
    """Its regularisation strength, chosen on validation; null where it has none."""


@dataclass(frozen=True)
class TaskData:
    """Number of texts of each part."""

    train: int
    """Number of training texts."""
    valid: int
    """Number of validation texts."""
    test: int
    """Number of test texts."""
    train_test_overlap: int
    """Number of test texts that are also in train."""


@dataclass(frozen=True)
class TaskResults:
    """Everything that `results.json` holds."""

    task: str
    """What the files ask for."""
    metric: str
    """Name of the first measure."""
    higher_is_better: bool
    """Whether more of it is better."""
    verdict: str
    """Conclusion in plain words."""
    arms: Mapping[str, TaskArm]
    """Result of each arm, by name."""
    differences: tuple[TaskDifference, ...]
    """Each pretrained arm against its scratch arm, and each neural arm against the baseline."""
    baseline: TaskBaseline | None
    """The classical baseline; null where a task has none."""
    data: TaskData
    settings: Mapping[str, Any]
    """What was asked for."""

    @property
    def metric_name(self) -> str:
        """The first measure as a person writes it."""
        return self.metric.replace("_", " ").replace("f1", "F1").replace("mae", "mean absolute error")

    def to_json(self) -> dict[str, Any]:
        """Return the content of `results.json`."""
        found: dict[str, Any] = to_json(self)
        return found


def verdict(results: TaskResults) -> str:
    """Say in plain words which arm is better, and whether the texts suffice to say so."""
    return " ".join(_sentences(results))


def _sentences(results: TaskResults) -> Iterator[str]:
    for one in results.differences:
        a, b = (results.arms[name].test_score.mean for name in (one.a, one.b))
        what = f"{one.a} {a:.3f} against {one.b} {b:.3f} ({results.metric_name}, p = {p_value(one.p)})"
        if one.p >= 0.05:
            yield f"No clear difference: {what}."
        else:
            yield f"{'Better' if (one.mean > 0) == results.higher_is_better else 'Worse'}: {what}."
