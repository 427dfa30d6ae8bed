"""The report of a comparison of another task than classes: one self-contained HTML page from its `TaskResults`."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from greffon.comparison.curve_report import shown_figure
from greffon.comparison.figures import score_figure
from greffon.comparison.html import Html, page, section, table, tag
from greffon.comparison.names import TFIDF, shown
from greffon.comparison.phrases import p_value, readable
from greffon.comparison.reliability_figure import reliability_figure
from greffon.comparison.task_results import TaskResults


def report(results: TaskResults) -> str:
    """Return the page as a string; its figures need matplotlib."""
    title = f"Did pretraining pay off for {results.task}?"
    return page(
        title,
        tag("h1", title),
        tag("section", tag("p", results.verdict), kind="verdict"),
        tag("section", shown_figure(score_figure, results, f"Test {results.metric_name} against epoch")),
        _arms(results),
        _differences(results),
        _labels(results),
        _reliability(results),
        _data(results),
        _settings(results),
    )


def _arms(results: TaskResults) -> Html:
    found = {name: vars(arm.scores) for name, arm in results.arms.items()}
    measures = [name for name in next(iter(found.values())) if _is_measure(results, name)]
    headers = ["arm", results.metric_name, "95 % interval", *(name.replace("_", " ") for name in measures)]
    rows = [
        [
            shown(name),
            f"{arm.test_score.mean:.3f}",
            "{:.3f} to {:.3f}".format(*arm.test_score.interval),
            *(f"{found[name][measure]:.3f}" for measure in measures),
        ]
        for name, arm in results.arms.items()
    ]
    better = "Higher" if results.higher_is_better else "Lower"
    heads = [
        tag("p", f"{shown(name)}: head of each seed, chosen on validation: {', '.join(arm.heads)}.")
        for name, arm in results.arms.items()
        if arm.heads
    ]
    note = (
        f"The {results.metric_name} is the mean over the seeds on the test texts, at the epoch chosen on validation. "
        f"{better} is better. Other measures: those of the first seed."
    )
    return section("The arms", table(headers, rows), *heads, tag("p", note, kind="note"))


def _is_measure(results: TaskResults, name: str) -> bool:
    """Whether a score is one number beside the first measure."""
    return name not in (results.metric, "n") and all(
        isinstance(getattr(arm.scores, name, None), int | float) for arm in results.arms.values()
    )


def _differences(results: TaskResults) -> Html:
    rows = [
        [
            f"{shown(one.a)} − {shown(one.b)}",
            f"{one.mean:+.3f}",
            "{:+.3f} to {:+.3f}".format(*one.interval),
            p_value(one.p),
        ]
        for one in results.differences
    ]
    note = "Both arms answer the same texts; p comes from a paired permutation test over them, two-sided."
    headers = ["pair", "difference", "95 % interval", "p"]
    return section("Paired differences", table(headers, rows), tag("p", note, kind="note"))


def _labels(results: TaskResults) -> Html:
    """Show the scores of each label, for tasks that have some."""
    parts = []
    for name, arm in results.arms.items():
        by_label: Mapping[str, Any] = getattr(arm.scores, "by_label", {})
        if by_label:
            measures = [f.name for f in fields(next(iter(by_label.values())))]
            rows = [[label, *(_number(getattr(own, each)) for each in measures)] for label, own in by_label.items()]
            headers = ["label", *(_column(each) for each in measures)]
            parts += [tag("h3", shown(name)), table(headers, rows)]
    note = "Of the first seed."
    return section("Label by label", *parts, tag("p", note, kind="note")) if parts else Html("")


def _column(measure: str) -> str:
    return {"f1": "F1", "support": "in the test texts"}.get(measure, measure.replace("_", " "))


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def _reliability(results: TaskResults) -> Html:
    if not any(arm.reliability for arm in results.arms.values()):
        return Html("")
    alt = "Share of right answers against their probability"
    note = tag("p", "Of the first seed.", kind="note")
    return section("Probabilities", shown_figure(reliability_figure, results, alt), note)


def _data(results: TaskResults) -> Html:
    counts = ", ".join(f"{name.replace('_', ' ')}: {count:,}" for name, count in vars(results.data).items())
    baseline = [tag("p", f"{shown(TFIDF)}: {results.baseline.name}")] if results.baseline else []
    return section("The data", tag("p", counts), *baseline)


def _settings(results: TaskResults) -> Html:
    settings = {**results.settings, **results.settings.get("settings", {})}
    rows = [[name.replace("_", " "), readable(value)] for name, value in settings.items() if name != "settings"]
    return section("Settings", table(["name", "value"], rows))
