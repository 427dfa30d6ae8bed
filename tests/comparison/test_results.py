import json

import numpy as np
import pytest
from simulated import LABELS, simulated

from greffon.comparison.baselines import Baseline
from greffon.comparison.results import EpochScore, SeedOutcome, assemble
from greffon.inference.metrics import paired_difference

GOLD = ["negative", "positive", "negative", "positive"]
TEXTS = ["one", "two", "three", "four"]
N, P = LABELS


def run(predictions, probabilities=(0.9, 0.8, 0.7, 0.6), curve=None, chosen=1):
    curve = curve or [EpochScore(0, 0.5, 0.5, 0.0), EpochScore(1, 0.75, 0.5, 3.0)]
    return SeedOutcome(0, curve, chosen, list(predictions), list(probabilities), 42, 3.5)


def small(arms, overlap=frozenset(), tfidf=(N, P, N, N), scratch=None):
    yardstick = Baseline("TF-IDF + logistic regression", 1.0, 0.5, list(tfidf), [[0.6, 0.4]] * 4, [N, P], 0.2, [])
    return assemble(
        arms,
        {"tfidf": yardstick},
        GOLD,
        TEXTS,
        LABELS,
        set(overlap),
        data={"train": 8},
        settings={},
        versions={},
        scratch=scratch,
    )


def test_contract_keys_and_json():
    results = json.loads(json.dumps(simulated()))
    assert {"arms", "differences", "baseline", "verdict", "data"} <= set(results)
    assert set(results["arms"]) == {"scratch", "pretrained", "tfidf", "majority"}
    arm = results["arms"]["pretrained"]
    assert set(arm["test_accuracy"]) == {"mean", "interval", "by_seed"}
    assert {"epoch", "valid", "test"} <= set(arm["curve"][0])
    assert arm["curve"][0]["epoch"] == 0
    assert isinstance(arm["curve"][0]["test"], float)
    assert results["data"]["train_test_overlap"] == 0
    assert results["verdict"]


def test_accuracy_by_hand():
    arm = small({"scratch": [run([N, P, N, P]), run([N, N, N, N])]})["arms"]["scratch"]
    assert arm["test_accuracy"]["by_seed"] == [1.0, 0.5]
    assert arm["test_accuracy"]["mean"] == 0.75
    assert arm["macro_f1"] == pytest.approx((1 + (2 / 3 + 0) / 2) / 2)
    assert arm["confusion"] == [[4, 0], [2, 2]]  # both seeds together
    assert arm["per_class"][P] == {"precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3), "support": 2}
    assert (arm["chosen_epoch"], arm["parameters"], arm["seconds"]) == ([1, 1], 42, [3.5, 3.5])
    assert arm["valid_accuracy"] == {"mean": 0.75, "interval": None, "by_seed": [0.75, 0.75]}


def test_differences_are_the_pairs_the_verdict_needs():
    results = simulated({"scratch": 0.8, "a": 0.85, "b": 0.9})
    pairs = [(entry["a"], entry["b"]) for entry in results["differences"]]
    against_scratch, against_tfidf = [("a", "scratch"), ("b", "scratch")], [("a", "tfidf"), ("b", "tfidf")]
    assert pairs == [*against_scratch, ("a", "b"), *against_tfidf, ("scratch", "tfidf")]
    assert results["differences"][0]["mean"] == pytest.approx(0.05)


def test_differences_come_from_the_paired_test():
    results = small({"pretrained": [run([N, P, N, P])], "scratch": [run([N, N, N, N])]})
    expected = paired_difference(np.array([[True] * 4]), np.array([[True, False, True, False]]))
    entry = results["differences"][0]
    assert (entry["mean"], tuple(entry["interval"]), entry["p"]) == (0.5, expected.interval, expected.p)


def test_curves_average_the_seeds_and_keep_their_range():
    curves = [[EpochScore(0, 0.4, 0.5, 0), EpochScore(1, 0.6, 0.7, 1)], [EpochScore(0, 0.6, 0.6, 0)]]
    runs = [run(GOLD, curve=curves[0], chosen=1), run(GOLD, curve=curves[1], chosen=0)]
    first, second = small({"scratch": runs})["arms"]["scratch"]["curve"]
    assert first == {
        "epoch": 0,
        "valid": 0.5,
        "test": pytest.approx(0.55),
        "valid_range": [0.4, 0.6],
        "test_range": [0.5, 0.6],
        "seeds": 2,
    }
    assert (second["seeds"], second["test"]) == (1, pytest.approx(0.65))  # the one that stopped keeps its score
    assert second["test_range"] == [0.6, 0.7]


def test_mistakes_of_every_seed_come_before_those_of_one():
    runs = [run([P, N, N, P], (0.6, 0.95, 0.5, 0.5)), run([P, P, N, P], (0.6, 0.9, 0.5, 0.5))]
    mistakes = small({"scratch": runs})["arms"]["scratch"]["mistakes"]
    assert [(m["text"], m["gold"], m["predicted"], m["seeds"]) for m in mistakes] == [
        ("one", N, P, 2),
        ("two", P, N, 1),
    ]
    assert [m["probability"] for m in mistakes] == pytest.approx([0.6, 0.95])


def test_accuracy_without_the_overlapping_texts():
    results = small({"scratch": [run([N, P, P, N])]}, overlap={0, 1})
    assert results["arms"]["scratch"]["without_overlap"] == 0.0
    assert results["arms"]["tfidf"]["without_overlap"] == 0.5
    assert results["data"] == {"test": 4, "train": 8, "train_test_overlap": 2}
    assert small({"scratch": [run(GOLD)]})["arms"]["scratch"]["without_overlap"] is None
    assert small({"scratch": [run(GOLD)]}, overlap={0, 1, 2, 3})["arms"]["scratch"]["without_overlap"] is None


def scores(*valid):
    return [EpochScore(epoch, value, 0.5, 2.0 * epoch) for epoch, value in enumerate(valid)]


def test_reach_is_the_first_epoch_at_scratchs_best():
    results = small(
        {
            "pretrained": [run(GOLD, curve=scores(0.6, 0.7, 0.9)), run(GOLD, curve=scores(0.6, 0.8, 0.9))],
            "poor": [run(GOLD, curve=scores(0.5, 0.5, 0.5))],
            "scratch": [run(GOLD, curve=scores(0.5, 0.6, 0.75)), run(GOLD, curve=scores(0.5, 0.8, 0.7))],
        }
    )
    assert results["reach_target"] == {"scratch": pytest.approx(0.725)}
    assert results["reach"] == {
        "pretrained": {"epochs": 1, "seconds": 2.0},
        "poor": None,
        "scratch": {"epochs": 2, "seconds": 4.0},
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
    pairs = [(entry["a"], entry["b"]) for entry in results["differences"]]
    assert pairs[:3] == [("a", "scratch"), ("b", "scratch b"), ("a", "b")]
    assert [(entry["a"], entry["b"]) for entry in results["differences"] if entry["b"] == "tfidf"] == [
        (name, "tfidf") for name in ("a", "b", "scratch", "scratch b")
    ]
    assert results["reach_target"] == {"scratch": 0.6, "scratch b": 0.9}
    assert results["reach"]["a"] == {"epochs": 1, "seconds": 2.0}
    assert results["reach"]["b"] is None
    assert "b could not be told apart from scratch b: +50.0 points" in results["verdict"]
    assert "a could not be told apart from scratch: +0.0 points" in results["verdict"]


def test_an_arm_with_too_few_predictions_is_our_own_mistake():
    with pytest.raises(AssertionError, match="one prediction for each test text"):
        small({"scratch": [run([N])]})
