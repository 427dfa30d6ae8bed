"""A run of so many minutes beside a neighbour that comes and goes, and again from the record of its plans."""

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import greffon
from greffon.runs.run import Run
from greffon.training.loop import Step, fit

TINY = {"layers": 2, "hidden_size": 32, "heads": 2, "intermediate_size": 64, "context": 32, "batch_size": 4}
SECONDS = 6.0


@contextmanager
def neighbour(seconds: float) -> Iterator[None]:
    """A program on our core that is busy for some time, sleeps as long, and so on."""
    busy = f"end = time.time() + {seconds}\n while time.time() < end: pass\n time.sleep({seconds})"
    code = f"import time\nwhile True:\n {busy}"
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def record(run: Run) -> dict[str, object]:
    """Everything of a run that its plans decide."""
    return {
        "losses": {e["step"]: (e["loss"], e["learning_rate"]) for e in run.metrics() if "loss" in e},
        "evaluations": {e["step"]: e["valid"] for e in run.metrics() if "valid" in e},
        "schedule": run.schedule(),
        "weights": (run.path / "model.safetensors").read_bytes(),
        "steps": run.recipe.training.steps,
    }


def repeat(run: Run, out: Path) -> Run:
    """Train again from the recipe, the tokenizer and the plans alone."""
    out.mkdir()
    for name in ("recipe.json", "tokenizer.json", "schedule.jsonl"):
        shutil.copy(run.path / name, out / name)
    return greffon.resume(out, quiet=True)


def equal(one: Run, other: Run) -> None:
    """Two runs are the same, but for which steps were logged: that is decided by the clock."""
    first, second = record(one), record(other)
    common = first["losses"].keys() & second["losses"].keys()
    assert len(common) > 10
    assert all(first["losses"][step] == second["losses"][step] for step in common)
    assert {**first, "losses": 0} == {**second, "losses": 0}


def test_a_neighbour_that_comes_and_goes(corpus: Path, tmp_path: Path) -> None:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})  # for the neighbour, too
    try:
        with neighbour(1.5):
            run = greffon.pretrain(
                [corpus], out=tmp_path / "run", vocab_size=400, minutes=SECONDS / 60, quiet=True, **TINY
            )
    finally:
        os.sched_setaffinity(0, cores)
    plans = run.schedule()
    gaps = {second["seconds"]: second["seconds"] - first["seconds"] for first, second in itertools.pairwise(plans)}
    longest = max(gap for seconds, gap in gaps.items() if seconds > 0.9 * SECONDS)
    # The last plan is at the end. On a machine that does much else, a single step at the end can take long.
    assert plans[-1]["step"] == plans[-1]["steps"] == run.recipe.training.steps
    assert plans[-1]["seconds"] == pytest.approx(SECONDS, abs=max(0.05 * SECONDS, longest))
    assert len({plan["steps"] for plan in plans}) > 5
    rates = [entry["learning_rate"] for entry in run.metrics() if "learning_rate" in entry]
    assert rates[-1] < 0.2 * max(rates) or longest > 0.05 * SECONDS
    assert run.finished
    assert sum(plan["evaluate"] for plan in plans) >= 5

    equal(run, repeat(run, tmp_path / "again"))
    longer = greffon.resume(run, extra_steps=4, quiet=True)
    assert longer.recipe.training.steps == plans[-1]["steps"] + 4
    assert longer.checkpoint_step == plans[-1]["steps"] + 4
    assert not longer.schedule()[-1]["timed"]


class Killed(BaseException):
    """Nothing is saved on the way out."""


def test_a_run_that_was_killed_goes_on_from_its_plans(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"

    def kill(*arguments: Any, **more: Any) -> Iterator[Step]:
        for step in fit(*arguments, **more):
            if (out / "checkpoints").exists() and step.number >= Run.open(out).checkpoint_step + 2:
                raise Killed
            yield step

    with monkeypatch.context() as patch:
        patch.setattr("greffon.training.trainer.fit", kill)
        with pytest.raises(Killed):
            greffon.pretrain([corpus], out=out, vocab_size=400, minutes=0.06, quiet=True, **TINY)
    before = Run.open(out).schedule()
    assert Run.open(out).checkpoint_step > 0
    with (out / "schedule.jsonl").open("a") as torn:
        torn.write('{"step": 9')
    run = greffon.resume(out, quiet=True)
    assert run.schedule()[: len(before)] == before
    assert run.schedule()[-1]["step"] == run.recipe.training.steps
    equal(run, repeat(run, tmp_path / "again"))
