"""Steps whose numbers go wrong."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from survival import Crash, pretrain, weights

import greffon
from greffon.core.errors import UserError
from greffon.runs.run import Run
from greffon.training.loop import fit
from greffon.training.spikes import MAX_SKIPPED_IN_A_ROW, MIN_HISTORY, SpikeDetector


@contextmanager
def poisoned(bad: dict[int, float]) -> Iterator[None]:
    """Multiply the loss of some steps (0: the first) by what they say, and with it the gradient."""

    def wrapped(model: Any, objective: Any, batches: Any, *rest: Any) -> Any:
        now = {"step": 0}

        class Poison:
            def score(self, model: Any, batch: Any) -> Any:
                score = objective.score(model, batch)
                factor = bad.get(now["step"], 1.0) if model.training else 1.0
                return replace(score, loss=score.loss * factor)

        def looked_up(step: int) -> Any:
            now["step"] = step
            return batches(step)

        return fit(model, Poison(), looked_up, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("greffon.training.trainer.fit", wrapped)
        yield


def test_steps_that_go_wrong_are_skipped_logged_and_counted(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = {3: float("nan"), 24: 1000.0, 25: float("inf")}
    with poisoned(bad):
        run = pretrain(corpus, tmp_path / "run", steps=30, evaluate_every=10)
    skipped = {e["step"]: e["skipped"] for e in run.metrics() if "skipped" in e}
    assert list(skipped) == [4, 25, 26]
    assert "nan" in skipped[4]
    assert re.search(r"its loss is \d.*, usual is ", skipped[25])
    assert "inf" in skipped[26]
    assert run.finished
    assert run.checkpoint_state["spikes"]["skipped"] == 3
    assert all(torch.isfinite(p).all() for p in run.load_model().parameters())
    assert all(line == json.dumps(json.loads(line)) and "NaN" not in line for line in lines_of(run))
    with poisoned(bad), crash_inside(28):
        pretrain(corpus, tmp_path / "cut", steps=30, evaluate_every=10)
    with poisoned(bad):
        again = greffon.resume(tmp_path / "cut", quiet=True)
    assert weights(again) == weights(run)
    assert again.checkpoint_state["spikes"] == run.checkpoint_state["spikes"]


def lines_of(run: Run) -> list[str]:
    return (run.path / "metrics.jsonl").read_text().splitlines()


@contextmanager
def crash_inside(step: int) -> Iterator[None]:
    """Crash at a step of a training whose loop is replaced already."""
    import greffon.training.trainer

    inner = greffon.training.trainer.fit

    def dying(*arguments: Any) -> Any:
        for made in inner(*arguments):
            if made.number == step:
                raise Crash
            yield made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("greffon.training.trainer.fit", dying)
        with pytest.raises(Crash):
            yield


def test_many_in_a_row_stop_at_the_last_good_checkpoint(corpus: Path, tmp_path: Path) -> None:
    bad = dict.fromkeys(range(9, 40), float("nan"))
    with poisoned(bad), pytest.raises(UserError, match="diverged") as caught:
        pretrain(corpus, tmp_path / "run", steps=40, evaluate_every=4)
    said = str(caught.value)
    assert f"{MAX_SKIPPED_IN_A_ROW} steps in a row" in said
    assert "its last good checkpoint, step 8" in said
    assert "lower learning_rate" in said
    run = Run.open(tmp_path / "run")
    assert run.checkpoint_step == 8
    assert not run.finished
    healthy = greffon.resume(run.path, quiet=True)
    assert weights(healthy) == weights(pretrain(corpus, tmp_path / "whole", steps=40, evaluate_every=4))


def test_hard_texts_are_no_spikes_and_spikes_can_be_allowed() -> None:
    training = greffon.Training()
    for factor, skipped in ((4.0, False), (6.0, True)):
        spikes = SpikeDetector()
        for _ in range(MIN_HISTORY):
            assert spikes.judge(2.0, 0.5, training) == ""
        assert bool(spikes.judge(factor * 2.0, 0.5, training)) is skipped
        assert bool(spikes.judge(2.0, factor * 100 * training.max_grad_norm, training)) is skipped
        assert spikes.judge(factor * 2.0, 1e9, replace(training, skip_loss_spikes=0.0)) == ""
    easy = SpikeDetector()
    for _ in range(50):
        easy.judge(1e-4, 1e-4, training)
    assert easy.judge(3.0, 50.0, training) == ""  # one hard text among easy ones
    with pytest.raises(UserError, match=r"skip_loss_spikes is 0\.5"):
        greffon.Training(skip_loss_spikes=0.5)
