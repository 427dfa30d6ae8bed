"""Figures and report of comparisons of other tasks than classes, and the reliability diagram of both kinds."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text
from simulated import simulated
from test_html import parse

from greffon.comparison.figures import score_figure
from greffon.comparison.reliability_figure import reliability_figure
from greffon.comparison.task_report import report
from greffon.comparison.task_results import (
    AllScores,
    TaskArm,
    TaskBaseline,
    TaskData,
    TaskPoint,
    TaskResults,
    TaskScore,
)
from greffon.core.config import from_dict
from greffon.core.schema import describe
from greffon.inference.calibration import ReliabilityBin
from greffon.inference.metrics import ClassScore
from greffon.inference.tasks.classes import ClassScores
from greffon.inference.tasks.multilabel import LabelScore, LabelScores
from greffon.inference.tasks.regression import RegressionScores
from greffon.inference.tasks.tokens import SpanScores

BINS = (ReliabilityBin(0.55, 0.5, 0.25), ReliabilityBin(0.95, 0.7, 0.75))
SCORES = RegressionScores(mae=1.0, interval=(0.9, 1.1), rmse=1.75, pearson=0.5, spearman=0.5, n=40)


def arm(mean: float, curve: bool = True, scores: AllScores = SCORES) -> TaskArm:
    """An arm of two seeds, the second of which stopped after epoch 1."""
    ends = {0: (0, 1, 2), 1: (0, 1)} if curve else {}
    points = [
        TaskPoint(seed, epoch, valid=9.0, test=10.0 * epoch + seed) for seed, epochs in ends.items() for epoch in epochs
    ]
    by_seed = (mean, mean) if curve else (mean,)
    return TaskArm(TaskScore(mean, (mean - 0.1, mean + 0.1), by_seed), scores, tuple(points))


def results(arms: dict[str, TaskArm] | None = None, **changes: Any) -> TaskResults:
    rows = arms or {
        "scratch": arm(1.5, scores=replace(SCORES, mae=1.5, rmse=2.25)),
        "pretrained": arm(1.0),
        "tfidf": arm(1.25, curve=False, scores=replace(SCORES, mae=1.25, rmse=2.0)),
    }
    made = TaskResults(
        task="regression",
        metric="mae",
        higher_is_better=False,
        verdict="Better: <b>.",
        arms=rows,
        differences=(),
        baseline=TaskBaseline("ridge", 1.0),
        data=TaskData(train=1000, valid=0, test=40, train_test_overlap=0),
        settings={"seeds": 2, "adapt": False, "settings": {"learning_rate": 0.01}},
    )
    return replace(made, **changes)


def words_of(figure: Any) -> set[str]:
    figure.canvas.draw()
    return {text.get_text() for text in figure.findobj(Text) if text.get_visible()}


def test_a_mean_curve_keeps_the_last_score_of_a_seed_that_stopped() -> None:
    curve = arm(1.0).mean_curve()
    assert [point.test for point in curve] == [0.5, 10.5, 15.5]
    assert [point.test_range for point in curve] == [(0, 1), (10, 11), (11, 20)]
    assert [point.seeds for point in curve] == [2, 2, 1]


@pytest.mark.parametrize("width", [8.0, 4.1])
def test_scores_are_drawn_in_their_own_unit_and_nothing_is_clipped(width: float) -> None:
    figure = score_figure(results(), width=width)
    (axes,) = figure.axes
    assert axes.get_ylabel() == "mean absolute error on test (lower is better)"
    assert "ended early" in axes.get_xlabel()
    words = words_of(figure)
    assert {"pretrained  1.000", "scratch  1.500", "TF-IDF  1.250"} <= words
    assert not any("%" in word for word in words)
    pixels = np.asarray(figure.canvas.buffer_rgba())
    assert all((edge == 255).all() for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]))
    named = score_figure(results(metric="span_f1", higher_is_better=True))
    assert named.axes[0].get_ylabel() == "span F1 on test"


def test_the_report_has_the_figure_all_measures_and_the_settings() -> None:
    markup = report(results())
    words = " ".join(" ".join(parse(markup).words).split())
    assert markup.count("data:image/png;base64,") == 4
    assert "Lower is better" in words
    assert "pretrained 1.000 0.900 to 1.100 1.750" in words
    assert "adapt no" in words
    assert "learning rate 0.01" in words
    assert "Better: <b>." in words
    assert "Label by label" not in words
    assert "Probabilities" not in words


def test_labels_and_probabilities_are_in_the_report_where_a_task_has_them() -> None:
    by_label = {"cost": LabelScore(f1=0.5, average_precision=0.625, support=1234, threshold=0.25)}
    scores = LabelScores(0.5, (0.4, 0.6), 0.5, 0.625, 40, by_label, 0.1, BINS)
    rows = {name: arm(0.5, scores=scores) for name in ("scratch", "pretrained")}
    made = results(rows, task="multilabel", metric="micro_f1", higher_is_better=True)
    markup = report(made)
    words = " ".join(" ".join(parse(markup).words).split())
    assert "label F1 average precision in the test texts threshold cost 0.500 0.625 1,234 0.250" in words
    assert markup.count("data:image/png;base64,") == 8
    figure = reliability_figure(made)
    assert figure.axes[0].get_xlabel() == "probability of a label (%)"
    assert "pretrained  0.200" in words_of(figure)  # 0.25 · 0.05 + 0.75 · 0.25


@pytest.mark.parametrize("width", [8.0, 4.1])
def test_the_reliability_diagram_of_classes(width: float) -> None:
    made = simulated(ensembles={"pretrained": 0.93})
    figure = reliability_figure(made, width=width)
    (axes,) = figure.axes
    bins = made.arms["pretrained"].reliability
    assert sum(each.share for each in bins) == pytest.approx(1)
    assert sum(each.share * each.right for each in bins) == pytest.approx(made.arms["pretrained"].test_accuracy.mean)
    expected = [(100 * each.probability, 100 * each.right) for each in bins]
    lines = [line.get_xydata() for line in axes.lines]
    assert any(line.shape == (len(expected), 2) and np.allclose(line, expected) for line in lines)
    words = words_of(figure)
    assert {word.split("  ")[0] for word in words if "  0." in word} == {"pretrained", "scratch", "TF-IDF", "ensemble"}
    pixels = np.asarray(figure.canvas.buffer_rgba())
    assert all((edge == 255).all() for edge in (pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]))


SPANS = SpanScores(0.5, (0.4, 0.6), 0.5, 0.5, 40, {"PET": ClassScore(0.5, 0.5, 0.5, 9)}, 0.0, ())
LABELS = LabelScores(0.5, (0.4, 0.6), 0.5, 0.625, 40, {"cost": LabelScore(0.5, 0.625, 34, 0.25)}, 0.1, BINS)
CLASSES = ClassScores(0.5, (0.4, 0.6), 0.5, 40, ("a", "b"), [[10, 10], [10, 10]], 0.1, BINS)


@pytest.mark.parametrize("scores", [SCORES, SPANS, LABELS, CLASSES], ids=lambda scores: scores.metric)
def test_what_is_written_is_read_back_equal(scores: AllScores) -> None:
    made = results({"pretrained": arm(0.5, scores=scores)})
    assert from_dict(TaskResults, json.loads(json.dumps(made.to_json())), "results.json") == made


def test_the_schema_tells_the_scores_of_every_task() -> None:
    told = {field.name: field.type for field in describe(TaskResults)}
    assert {f"arms.*.scores.{name}" for name in ("mae", "span_f1", "micro_f1", "accuracy", "n")} <= set(told)
    assert told["arms.*.scores"] == "object"
    assert told["arms.*.curve[].epoch"] == "integer"
    assert told["baseline"] == "object or null"
