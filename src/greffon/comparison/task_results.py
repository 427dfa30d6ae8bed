"""The typed content of `results.json` for other tasks than classes, its verdict and its report."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from greffon.comparison.html import page, section, table, tag
from greffon.comparison.names import TFIDF
from greffon.core.json_results import to_json


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
class TaskArm:
    """What one arm reached."""

    test_score: TaskScore
    """The first measure on the test texts, at the epoch chosen on validation."""
    scores: Mapping[str, Any]
    """All measures of the first seed, as `greffon evaluate --json` gives them."""
    curve: tuple[Mapping[str, float], ...]
    """For each evaluation of each seed: `seed`, `epoch`, `valid` and `test`; empty for the baseline."""


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
    baseline: Mapping[str, Any]
    """Name and strength of the classical baseline."""
    data: Mapping[str, Any]
    """Number of texts of each part, and of test texts that are also in train."""
    settings: Mapping[str, Any]
    """What was asked for."""

    def to_json(self) -> dict[str, Any]:
        """Return the content of `results.json`."""
        found: dict[str, Any] = to_json(asdict(self))
        return found


def verdict(results: TaskResults) -> str:
    """Say in plain words which arm is better, and whether the texts suffice to say so."""
    return " ".join(_sentences(results))


def _sentences(results: TaskResults) -> Iterator[str]:
    metric = results.metric.replace("_", " ").replace("f1", "F1")
    for one in results.differences:
        a, b = (results.arms[name].test_score.mean for name in (one.a, one.b))
        what = f"{one.a} {a:.3f} against {one.b} {b:.3f} ({metric}, p = {one.p:.3f})"
        if one.p >= 0.05:
            yield f"No clear difference: {what}."
        else:
            yield f"{'Better' if (one.mean > 0) == results.higher_is_better else 'Worse'}: {what}."


def report(results: TaskResults) -> str:
    """Return the report as a self-contained page."""
    metric = results.metric.replace("_", " ")
    arms = [
        [name, f"{arm.test_score.mean:.3f}", "{:.3f} to {:.3f}".format(*arm.test_score.interval)]
        for name, arm in results.arms.items()
    ]
    gaps = [
        [f"{one.a} − {one.b}", f"{one.mean:+.3f}", "{:+.3f} to {:+.3f}".format(*one.interval), f"{one.p:.3f}"]
        for one in results.differences
    ]
    return page(
        f"Comparison: {results.task}",
        section("Verdict", tag("p", results.verdict)),
        section("Arms", table(["arm", metric, "95 % interval"], arms)),
        section("Differences", table(["arms", "difference", "95 % interval", "p"], gaps)),
        section(
            "Data",
            tag("p", ", ".join(f"{name.replace('_', ' ')}: {count:,}" for name, count in results.data.items())),
            tag("p", f"{TFIDF}: {results.baseline['name']}"),
        ),
    )
