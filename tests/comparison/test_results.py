import json
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from simulated import LABELS, baseline, simulated

from greffon.comparison.arm_result import CurvePoint, ValidAccuracy
from greffon.comparison.assemble import Context, EpochScore, GoldTexts, Outcomes, SeedOutcome, assemble
from greffon.comparison.results import DataSummary, Results, Settings, TimeToScratch
from greffon.core.errors import UserError
from greffon.core.schema import describe
from greffon.inference.metrics import ClassScore, paired_difference

GOLD = ["negative", "positive", "negative", "positive"]
TEXTS = ["one", "two", "three", "four"]
N, P = LABELS


def run(predictions, probabilities=(0.9, 0.8, 0.7, 0.6), curve=None, chosen=1):
    curve = curve or [EpochScore(0, 0.5, 0.5, 0.0), EpochScore(1, 0.75, 0.5, 3.0)]
    return SeedOutcome(0, curve, chosen, list(predictions), list(probabilities), 42, 3.5)


def small(arms, overlap=frozenset(), tfidf=(N, P, N, N), scratch=None):
    return assemble(
        Outcomes(arms, {"tfidf": baseline("TF-IDF + logistic regression", 1.0, list(tfidf))}),
        GoldTexts(TEXTS, GOLD, LABELS, frozenset(overlap)),
        Context(
            data=DataSummary(train=8, valid=4, test=4, train_test_overlap=len(overlap)),
            settings=Settings(seeds=1, epochs=1),
            versions={},
            scratch=scratch or {},
        ),
    )


def written(results):
    return json.loads(json.dumps(results.to_json()))


def test_the_json_surface_of_the_contract():
    results = written(simulated(ensembles={"pretrained": 0.92}, frozen={"pretrained": 0.7}))
    assert {"arms", "differences", "baseline", "train_sizes", "verdict", "data"} <= set(results)
    assert set(results["arms"]) == {"scratch", "pretrained", "frozen", "tfidf", "ensemble", "majority"}
    arm = results["arms"]["pretrained"]
    assert list(arm["test_accuracy"]) == ["mean", "interval", "by_seed"]
    assert {"epoch", "valid", "test"} <= set(arm["curve"][0])
    assert arm["curve"][0]["epoch"] == 0
    assert isinstance(arm["curve"][0]["test"], float)
    assert set(results["differences"][0]) == {"a", "b", "mean", "interval", "p"}
    assert results["data"]["train_test_overlap"] == 0
    assert results["verdict"]


def test_train_sizes_are_there_only_when_asked_for():
    sizes = written(simulated(seeds=2, ensembles={"pretrained": 0.92}))["train_sizes"]
    assert [entry["size"] for entry in sizes] == [100, 400, 1600]
    assert set(sizes[0]["arms"]) == {"scratch", "pretrained", "tfidf", "ensemble", "majority"}
    assert {"mean", "interval", "by_draw"} <= set(sizes[0]["arms"]["pretrained"])
    assert sizes[-1]["arms"]["pretrained"]["by_draw"] == [0.9, 0.9]
    assert sizes[-1]["arms"]["tfidf"]["by_draw"] == [0.7, 0.7]
    assert {"train_sizes", "label_savings"}.isdisjoint(written(simulated(train_sizes=False)))


@pytest.mark.parametrize("train_sizes", [True, False])
def test_what_is_written_is_read_back_equal(tmp_path, train_sizes):
    results = simulated(
        overlap=frozenset({0}), ensembles={"pretrained": 0.92}, frozen={"pretrained": 0.7}, train_sizes=train_sizes
    )
    file = tmp_path / "results.json"
    file.write_text(json.dumps(results.to_json()), encoding="utf-8")
    assert Results.read(file) == results


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda content: content.update(label_curve=None), "unknown setting 'label_curve'"),
        (lambda content: content.pop("verdict"), "the setting 'verdict' is missing"),
        (lambda content: content["arms"]["tfidf"].update(kind="together"), "unknown choice 'together'"),
        (lambda content: content["arms"]["tfidf"].update(macro_f1="high"), "expected float, found 'high'"),
    ],
)
def test_a_file_of_another_version_is_refused_with_what_to_do(tmp_path: Path, change, problem):
    content = written(simulated())
    change(content)
    file = tmp_path / "results.json"
    file.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(UserError) as error:
        Results.read(file)
    assert str(error.value).startswith(str(file))
    assert problem in str(error.value)
    assert "repeat `greffon compare` with the same out" in str(error.value)


def test_every_field_of_the_schema_has_a_docstring():
    rows = {field.name: field for field in describe(Results)}
    undocumented = {name for name, field in rows.items() if not field.doc}
    assert undocumented <= {f"arms.*.per_class.*.{field.name}" for field in fields(ClassScore)} | {
        f"data.findings[].{name}" for name in ("severity", "code", "message")
    }
    assert rows["arms.*.test_accuracy.interval"].type == "[number, number]"
    assert rows["train_sizes[].arms.*.by_draw"].type == "list of number"


def test_accuracy_by_hand():
    arm = small({"scratch": [run([N, P, N, P]), run([N, N, N, N])]}).arms["scratch"]
    assert arm.test_accuracy.by_seed == (1.0, 0.5)
    assert arm.test_accuracy.mean == 0.75
    assert arm.macro_f1 == pytest.approx((1 + (2 / 3 + 0) / 2) / 2)
    assert arm.confusion == ((4, 0), (2, 2))  # both seeds together
    assert arm.per_class[P] == ClassScore(precision=1.0, recall=0.5, f1=pytest.approx(2 / 3), support=2)
    assert (arm.chosen_epoch, arm.parameters, arm.seconds) == ((1, 1), 42, (3.5, 3.5))
    assert arm.valid_accuracy == ValidAccuracy(mean=0.75, by_seed=(0.75, 0.75))


def test_differences_are_the_pairs_the_verdict_needs():
    results = simulated({"scratch": 0.8, "a": 0.85, "b": 0.9})
    pairs = [(entry.a, entry.b) for entry in results.differences]
    against_scratch, against_tfidf = [("a", "scratch"), ("b", "scratch")], [("a", "tfidf"), ("b", "tfidf")]
    assert pairs == [*against_scratch, ("a", "b"), *against_tfidf, ("scratch", "tfidf")]
    assert results.differences[0].mean == pytest.approx(0.05)


def test_differences_come_from_the_paired_test():
    results = small({"pretrained": [run([N, P, N, P])], "scratch": [run([N, N, N, N])]})
    expected = paired_difference(np.array([[True] * 4]), np.array([[True, False, True, False]]))
    entry = results.differences[0]
    assert (entry.mean, entry.interval, entry.p) == (0.5, expected.interval, expected.p)


def test_curves_average_the_seeds_and_keep_their_range():
    curves = [[EpochScore(0, 0.4, 0.5, 0), EpochScore(1, 0.6, 0.7, 1)], [EpochScore(0, 0.6, 0.6, 0)]]
    runs = [run(GOLD, curve=curves[0], chosen=1), run(GOLD, curve=curves[1], chosen=0)]
    first, second = small({"scratch": runs}).arms["scratch"].curve
    assert first == CurvePoint(
        epoch=0, valid=0.5, test=pytest.approx(0.55), valid_range=(0.4, 0.6), test_range=(0.5, 0.6), seeds=2
    )
    assert (second.seeds, second.test) == (1, pytest.approx(0.65))  # the one that stopped keeps its score
    assert second.test_range == (0.6, 0.7)


def test_mistakes_of_every_seed_come_before_those_of_one():
    runs = [run([P, N, N, P], (0.6, 0.95, 0.5, 0.5)), run([P, P, N, P], (0.6, 0.9, 0.5, 0.5))]
    mistakes = small({"scratch": runs}).arms["scratch"].mistakes
    assert [(m.text, m.gold, m.predicted, m.seeds) for m in mistakes] == [
        ("one", N, P, 2),
        ("two", P, N, 1),
    ]
    assert [m.probability for m in mistakes] == pytest.approx([0.6, 0.95])


def test_accuracy_without_the_overlapping_texts():
    results = small({"scratch": [run([N, P, P, N])]}, overlap={0, 1})
    assert results.arms["scratch"].without_overlap == 0.0
    assert results.arms["tfidf"].without_overlap == 0.5
    assert (results.data.test, results.data.train, results.data.train_test_overlap) == (4, 8, 2)
    assert small({"scratch": [run(GOLD)]}).arms["scratch"].without_overlap is None
    assert small({"scratch": [run(GOLD)]}, overlap={0, 1, 2, 3}).arms["scratch"].without_overlap is None


def scores(*valid):
    return [EpochScore(epoch, value, 0.5, 2.0 * epoch) for epoch, value in enumerate(valid)]


def test_time_to_scratch_is_the_first_epoch_at_scratchs_best():
    results = small(
        {
            "pretrained": [run(GOLD, curve=scores(0.6, 0.7, 0.9)), run(GOLD, curve=scores(0.6, 0.8, 0.9))],
            "poor": [run(GOLD, curve=scores(0.5, 0.5, 0.5))],
            "scratch": [run(GOLD, curve=scores(0.5, 0.6, 0.75)), run(GOLD, curve=scores(0.5, 0.8, 0.7))],
        }
    )
    assert results.scratch_target == {"scratch": pytest.approx(0.725)}
    assert results.time_to_scratch == {
        "pretrained": TimeToScratch(epochs=1, seconds=2.0),
        "poor": None,
        "scratch": TimeToScratch(epochs=2, seconds=4.0),
    }


def test_every_arm_is_measured_against_scratch_of_its_own_form():
    results = small(
        {
            "scratch": [run(GOLD, curve=scores(0.5, 0.6))],
            "scratch b": [run([N, N, N, N], curve=scores(0.5, 0.9))],
            "a": [run(GOLD, curve=scores(0.5, 0.7))],
            "b": [run(GOLD, curve=scores(0.5, 0.7))],
        },
        scratch={"a": "scratch", "b": "scratch b"},
    )
    pairs = [(entry.a, entry.b) for entry in results.differences]
    assert pairs[:3] == [("a", "scratch"), ("b", "scratch b"), ("a", "b")]
    assert [(entry.a, entry.b) for entry in results.differences if entry.b == "tfidf"] == [
        (name, "tfidf") for name in ("a", "b", "scratch", "scratch b")
    ]
    assert results.scratch_target == {"scratch": 0.6, "scratch b": 0.9}
    assert results.time_to_scratch["a"] == TimeToScratch(epochs=1, seconds=2.0)
    assert results.time_to_scratch["b"] is None
    assert "b could not be told apart from scratch b: +50.0 points" in results.verdict
    assert "a could not be told apart from scratch: +0.0 points" in results.verdict


def test_an_arm_with_too_few_predictions_is_our_own_mistake():
    with pytest.raises(AssertionError, match="one prediction for each test text"):
        small({"scratch": [run([N])]})
