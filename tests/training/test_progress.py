"""The numbers that a training shows while it runs."""

import math

import numpy as np
import pytest

from greffon.runs.run import own_loss
from greffon.training.loop import Step
from greffon.training.progress import SMOOTHING, RunningMean, TrainingProgress


def test_a_running_mean_is_that_of_what_was_seen_so_far() -> None:
    mean = RunningMean()
    for seen, value in enumerate([9.0, 5.0, 4.0], start=1):
        mean.add(value)
        weights = SMOOTHING ** np.arange(seen)[::-1]
        assert mean.value == pytest.approx(np.average([9.0, 5.0, 4.0][:seen], weights=weights))
    assert mean.value == pytest.approx(6, abs=0.15)  # not 8.8, as if the first loss had been there for long


def test_a_running_mean_forgets() -> None:
    mean = RunningMean()
    for value in [100.0] * 50 + [1.0] * 200:
        mean.add(value)
    assert mean.value == pytest.approx(1, abs=0.01)


def test_the_loss_that_is_compared_is_the_main_one() -> None:
    assert own_loss({"loss": 3.0, "token_loss": 2.0, "pair_loss": 1.0}) == 2.0
    assert own_loss({"loss": 3.0}) == 3.0


def test_the_progress_line_keeps_what_was_learnt_beside(capsys: pytest.CaptureFixture[str]) -> None:
    progress = TrainingProgress(3, 0)
    progress.last_line = -math.inf
    common = {
        "learning_rate": 1.0,
        "grad_norm": 1.0,
        "targets": 1,
        "tokens": 1,
        "bytes": 1,
        "padding": 0.0,
        "seconds": 1.0,
    }
    progress.step(Step(1, 2.7, parts={"token_loss": 2.0, "pair_loss": 0.7}, **common))
    progress.last_line = -math.inf
    progress.step(Step(2, 2.0, **common))  # without a pair
    assert capsys.readouterr().err.count("loss 2.000 + 0.700 for pairs") == 2
