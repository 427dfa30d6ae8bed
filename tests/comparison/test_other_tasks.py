"""Comparisons of other tasks than classes: intervals and tests of ratios, and one whole comparison."""

import json
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from in_process import in_process
from scipy import stats
from tiny import TinyRuns

import greffon
from greffon.cli import run as command
from greffon.comparison.other_tasks import TaskComparison, _study
from greffon.comparison.ratios import Parts, score_difference, score_interval
from greffon.comparison.task_report import report
from greffon.comparison.task_results import (
    TaskArm,
    TaskData,
    TaskDifference,
    TaskResults,
    TaskScore,
    verdict,
)
from greffon.core.errors import UserError
from greffon.inference.metrics import accuracy_interval, paired_difference
from greffon.inference.tasks.tokens import SpanScores

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


@pytest.fixture
def conll(tmp_path: Path) -> Path:
    animals = ["chat", "chien", "vache", "oiseau"]
    lines = [f"le O\n{animals[i % 4]} B-PET\ndort O\n" for i in range(40)]
    lines += [f"un O\n{animals[i % 4]} B-PET\nmange O\nvite O\n" for i in range(40)]
    (tmp_path / "a.conll").write_text("\n".join(line + f"{i} O\n" for i, line in enumerate(lines)))
    return tmp_path / "a.conll"


def test_a_comparison_of_spans_from_the_command_line(
    tiny: TinyRuns, conll: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pycrfsuite")
    words = ["compare", str(tiny.causal.path), "--train", str(conll), "--out", str(tmp_path / "out")]
    words += ["--seeds", "2", "--epochs", "2", "--learning-rate", "0.01", "--jobs", "2"]
    assert command([*words, "--json"]) == 0
    told = capsys.readouterr()
    assert "task: tokens, as a.conll reads (--task names another)" in told.err
    printed = json.loads(told.out)
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
    opened = TaskComparison.open(tmp_path / "out").results
    assert opened.to_json() == printed
    assert isinstance(opened.arms["pretrained"].scores, SpanScores)
    assert opened.verdict in capsys.readouterr().out
    conll.write_text(conll.read_text().replace("B-PET", "B-BEAST"))  # the same name, another question
    assert command(words) == 1
    assert "holds another comparison" in capsys.readouterr().err


def test_all_by_which_the_answer_differs_is_part_of_the_question(tiny: TinyRuns, tmp_path: Path) -> None:
    rows = [f"le chat {i},bleu;vert{i % 2},{'|'.join(['un', 'deux'][: 1 + i % 2])}" for i in range(40)]
    (tmp_path / "a.csv").write_text("text,labels,other\n" + "\n".join(rows) + "\n")
    plain = {"valid": tmp_path / "a.csv", "test": tmp_path / "a.csv", "task": "multilabel"}
    changes = [{}, {"label_column": "other"}, {"gradual_unfreezing": True}, {"label_separator": ";"}, {"adapt": True}]
    asked = [_study([tiny.causal], tmp_path / "a.csv", {**plain, **change}).question for change in changes]
    assert all(one != other for one, other in combinations(asked, 2))


def test_the_columns_of_pairs_with_scores_are_theirs(tiny: TinyRuns, tmp_path: Path) -> None:
    rows = "".join(f"le chat {i},un chien {i % 5},{i % 4}\n" for i in range(40))
    (tmp_path / "a.csv").write_text("q,a,label\n" + rows)
    settings = {"task": "regression", "pair_columns": ("q", "a")}
    assert _study([tiny.causal], tmp_path / "a.csv", settings).data.scored
    with pytest.raises(UserError, match=r"label_separator=; has no effect here: .* and this is for pairs"):
        _study([tiny.causal], tmp_path / "a.csv", {**settings, "label_separator": ";"})


def test_python_s_compare_takes_every_task_and_what_has_no_effect_is_refused(
    tiny: TinyRuns, conll: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.csv").write_text("text,score\n" + "".join(f"le chat {i},{i}\n" for i in range(30)))
    settings = {"seeds": 1, "epochs": 1, "jobs": 1, "quiet": True}
    with in_process():
        made = greffon.compare([tiny.causal], train=tmp_path / "a.csv", out=tmp_path / "out", **settings)
    assert isinstance(made, TaskComparison)
    assert made.results.task == "regression"
    assert json.loads((tmp_path / "out/arms/scratch/seed-0/probabilities.json").read_text())["test"]
    for wrong, value in (("tune", True), ("train_sizes", (20,))):
        with pytest.raises(UserError, match=f"{wrong} is for comparisons of classes; leave it out"):
            greffon.compare([tiny.causal], train=conll, out=tmp_path / "no", **{wrong: value})
    with pytest.raises(UserError, match="no column 'labels'"):
        greffon.compare([tiny.causal], train=tmp_path / "a.csv", out=tmp_path / "no", task="multilabel")
    with pytest.raises(UserError, match="unknown executor 'dusk'"):
        greffon.compare_task([tiny.causal], train=conll, out=tmp_path / "no", executor="dusk")
    assert not (tmp_path / "no").exists()


def test_a_missing_package_is_missed_before_anything_is_trained(
    tiny: TinyRuns, conll: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pycrfsuite", None)
    with pytest.raises(UserError, match=r"pip install 'greffon\[tagging\]'"):
        greffon.compare([tiny.causal], train=conll, out=tmp_path / "no", quiet=True)
    assert not (tmp_path / "no").exists()


def test_a_small_p_is_not_told_as_zero() -> None:
    scores = SpanScores(0.9, (0.8, 1.0), 0.9, 0.9, 40, {}, 0.0, ())
    arms = {name: TaskArm(TaskScore(score, (0, 1), (score,)), scores, ()) for name, score in (("a", 0.9), ("b", 0.1))}
    differences = (TaskDifference("a", "b", 0.8, (0.7, 0.9), 1 / 2001),)
    results = TaskResults("tokens", "span_f1", True, "", arms, differences, None, TaskData(80, 20, 20, 0), {})
    assert verdict(results) == "Better: a 0.900 against b 0.100 (span F1, p = 0.0005)."
    assert "0.0005" in report(results)
