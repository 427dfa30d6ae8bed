"""Comparisons of other tasks than classes: intervals and tests of ratios, and one whole comparison."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from tiny import TinyRuns

import greffon
from greffon.cli import run as command
from greffon.comparison.other_tasks import TaskComparison
from greffon.comparison.ratios import Parts, score_difference, score_interval
from greffon.core.errors import UserError
from greffon.inference.metrics import accuracy_interval, paired_difference

RANDOM = np.random.default_rng(0)


def test_of_shares_the_intervals_and_tests_are_those_of_accuracies() -> None:
    a, b = RANDOM.random((2, 200)) < 0.8, RANDOM.random((2, 200)) < 0.65
    ours, theirs = (Parts(right.astype(float), np.ones(right.shape)) for right in (a, b))
    assert score_interval(ours) == pytest.approx(accuracy_interval(a), abs=0.012)
    found, known = score_difference(ours, theirs), paired_difference(a, b)
    assert found.mean == pytest.approx(known.mean)
    assert found.interval == pytest.approx(known.interval, abs=0.015)
    assert (found.p < 0.05) == (known.p < 0.05)


def test_the_permutation_test_agrees_with_scipy_on_mean_errors() -> None:
    one = RANDOM.exponential(1, 60)
    other = one + RANDOM.normal(0.15, 0.6, 60)
    found = score_difference(*(Parts(errors[None], np.ones((1, 60))) for errors in (one, other)))
    known = stats.permutation_test(
        (one, other), lambda x, y: np.mean(x) - np.mean(y), permutation_type="samples", n_resamples=2000, rng=0
    )
    assert found.p == pytest.approx(known.pvalue, abs=0.04)


def test_an_arm_is_no_better_than_itself() -> None:
    arm = Parts(RANDOM.integers(0, 3, (3, 50)).astype(float), np.full((3, 50), 4.0))
    found = score_difference(arm, arm)
    assert (found.mean, found.p) == (0.0, 1.0)


def test_a_comparison_of_spans_from_the_command_line(
    tiny: TinyRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pycrfsuite")
    animals = ["chat", "chien", "vache", "oiseau"]
    lines = [f"le O\n{animals[i % 4]} B-PET\ndort O\n" for i in range(40)]
    lines += [f"un O\n{animals[i % 4]} B-PET\nmange O\nvite O\n" for i in range(40)]
    (tmp_path / "a.conll").write_text("\n".join(line + f"{i} O\n" for i, line in enumerate(lines)))
    words = ["compare", str(tiny.causal.path), "--train", str(tmp_path / "a.conll"), "--out", str(tmp_path / "out")]
    words += ["--seeds", "2", "--epochs", "2", "--learning-rate", "0.01"]
    assert command([*words, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "out" / "results.json").read_text())
    assert (printed["metric"], printed["task"]) == ("span_f1", "tokens")
    assert set(printed["arms"]) == {"scratch", "pretrained", "tfidf"}
    for name, arm in printed["arms"].items():
        assert len(arm["test_score"]["by_seed"]) == (1 if name == "tfidf" else 2)
        low, high = arm["test_score"]["interval"]
        assert low <= arm["test_score"]["mean"] <= high
        assert arm["scores"]["n"] == printed["data"]["test"]
        assert bool(arm["curve"]) == (name != "tfidf")
    assert printed["baseline"]["name"] == "linear-chain CRF over word shapes"
    assert {(one["a"], one["b"]) for one in printed["differences"]} >= {("pretrained", "scratch")}
    run = greffon.Run.open(tmp_path / "out" / "arms" / "pretrained" / "seed-0")
    assert printed["arms"]["pretrained"]["test_score"]["by_seed"][0] == pytest.approx(run.scores["test_span_f1"])
    before = (run.path / "model.safetensors").stat().st_mtime_ns
    assert command(words) == 0  # nothing is trained again
    assert (run.path / "model.safetensors").stat().st_mtime_ns == before
    assert command(["show", str(tmp_path / "out")]) == 0
    assert TaskComparison.open(tmp_path / "out").results.verdict in capsys.readouterr().out
    with pytest.raises(UserError, match="train_sizes and jobs are for comparisons of classes"):
        greffon.compare_task([tiny.causal], train=tmp_path / "a.conll", task="tokens", out=tmp_path / "b", jobs=2)
