"""Bodies that learn the gist of a text beside its hidden tokens, from pretraining to the graft."""

import math
from pathlib import Path

import pytest
import torch
from tiny import TinyRuns

import greffon
from greffon.cli import run as command
from greffon.core.errors import UserError
from greffon.runs.params import params_of_run
from greffon.runs.run import Run, own_loss
from greffon.training.loop import Step
from greffon.training.progress import TrainingProgress
from greffon.web.curves import curve


@pytest.fixture(scope="module")
def gist(tiny: TinyRuns) -> Run:
    return tiny.body("gist", objective="masked", gist=True, steps=40)


def test_both_losses_are_told_and_the_gist_is_learnt(gist: Run, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [entry for entry in gist.metrics() if "loss" in entry]
    assert all(entry["loss"] == pytest.approx(entry["token_loss"] + entry["gist_loss"]) for entry in steps)
    held = [entry["valid"] for entry in gist.metrics() if "valid" in entry]
    assert held[-1]["gist_loss"] < held[0]["gist_loss"] - 0.5
    assert params_of_run(gist).total == sum(p.numel() for p in gist.load_model().parameters())
    assert greffon.fill(gist, "le [MASK] dort")
    assert command(["show", str(gist.path)]) == 0
    assert "15% of tokens, and its gist" in capsys.readouterr().out


def test_it_is_taken_up_where_it_was_left(tiny: TinyRuns, tmp_path: Path) -> None:
    steady = {"objective": "masked", "gist": True, "dropout": 0.1, "lr_schedule": "constant", "warmup_steps": 0}
    halves = tiny.body("gist-halves", steps=3, **steady)
    whole = tiny.body("gist-whole", steps=6, **steady)
    again = greffon.resume(halves, extra_steps=3, quiet=True)
    assert (again.path / "model.safetensors").read_bytes() == (whole.path / "model.safetensors").read_bytes()


def test_a_graft_reads_the_mean_that_was_taught(gist: Run, tiny: TinyRuns, tmp_path: Path) -> None:
    run = greffon.finetune(gist, train=tiny.table, out=tmp_path / "run", epochs=1, quiet=True)
    assert run.recipe.graft.pooling == "mean"
    for name, p in run.load_model().body.named_parameters():
        assert p.shape == gist.load_model().body.get_parameter(name).shape
    other = greffon.finetune(gist, train=tiny.table, out=tmp_path / "cls", epochs=1, pooling="cls", quiet=True)
    assert other.recipe.graft.pooling == "cls"
    vectors = torch.from_numpy(greffon.embed(gist, ["le chat dort", "la vache mange"]))
    assert vectors.shape == (2, 32)


def test_what_cannot_be_is_refused(gist: Run, tiny: TinyRuns, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="gist belongs to --objective masked"):
        tiny.body("forward", gist=True)
    common = {"objective": "masked", "steps": 1, "quiet": True, "out": tmp_path / "run"}
    with pytest.raises(UserError, match="gist is a fixed part of"):
        greffon.pretrain([tiny.text], gist=True, init_from=tiny.masked.path, **common)
    with pytest.raises(UserError, match="next_sentence is a fixed part of"):
        greffon.pretrain([tiny.text], next_sentence=True, init_from=gist.path, **common)
    with pytest.raises(UserError, match="a gist head"):
        greffon.export(gist, to="huggingface", out=tmp_path / "hf")


def test_curves_hold_like_against_like(gist: Run) -> None:
    entries = gist.metrics()
    drawn = [value for _, _, value in curve(entries, 1).training["loss"]]
    assert drawn == [entry["token_loss"] for entry in entries if "loss" in entry]
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
