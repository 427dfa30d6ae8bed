"""Two processes train as one would: the same losses, the same files, and an end that is clean."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import greffon
from greffon.core.errors import UserError
from greffon.runs.run import Run

HELPERS = Path(__file__).parents[1] / "helpers"
TINY = {
    "layers": 1,
    "hidden_size": 16,
    "heads": 2,
    "intermediate_size": 32,
    "context": 32,
    "batch_size": 3,
    "warmup_steps": 2,
}
FLAGS = [word for name, value in TINY.items() for word in (f"--{name.replace('_', '-')}", str(value))]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def losses(run: Run) -> dict[int, float]:
    return {entry["step"]: entry["loss"] for entry in run.metrics() if "loss" in entry}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def wait_for(metrics: Path, lines: int, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and process.poll() is None:
        if metrics.exists() and metrics.read_text().count("\n") >= lines:
            return
        time.sleep(0.02)
    raise AssertionError("the training did not come that far")


def test_every_objective_is_trained_by_two_as_by_one() -> None:
    place = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    words = [sys.executable, HELPERS / "two_ranks.py"]
    ranks = [
        subprocess.Popen(words, env={**ENVIRONMENT, **place, "RANK": str(i)}, stdout=subprocess.PIPE) for i in (0, 1)
    ]
    said = ranks[0].communicate(timeout=300)[0].splitlines()
    assert [rank.wait(timeout=300) for rank in ranks] == [0, 0]
    found = json.loads(said[0])
    assert found.pop("agree") == {"Größe": [1.5, None, 0]}
    assert found.pop("total") == [3.0, 0.2]
    assert found.pop("any") == [True, False]
    assert found.pop("noted") == ["kept", None]
    assert "another process of this training has gone; go on with `resume`" in json.loads(said[1])
    assert len(found) == 10
    for name, job in found.items():
        assert len(job["alone"]) == 4, name
        for alone, together in zip(job["alone"], job["together"], strict=True):
            assert together == pytest.approx(alone, abs=1e-4), name
        assert job["apart"] < 1e-3, name


def test_a_run_goes_from_one_process_to_two_and_back(corpus: Path, tmp_path: Path) -> None:
    def pretrain(name: str, **more: object) -> Run:
        return greffon.pretrain([corpus], out=tmp_path / name, vocab_size=300, steps=5, quiet=True, **TINY, **more)

    alone = pretrain("alone")
    shutil.copytree(alone.path, tmp_path / "widened")
    together = pretrain("together", processes=2)
    assert losses(together) == pytest.approx(losses(alone), abs=1e-4)
    assert together.finished
    assert together.scores == pytest.approx(alone.scores, abs=1e-4)
    recipes = [json.loads((run.path / "recipe.json").read_text()) for run in (alone, together)]
    assert recipes[0] == recipes[1]

    alone = greffon.resume(alone, extra_steps=5, quiet=True)
    narrowed = greffon.resume(together, extra_steps=5, quiet=True)
    widened = greffon.resume(tmp_path / "widened", extra_steps=5, quiet=True, processes=2, fsdp=True)
    for run in (narrowed, widened):
        assert run.checkpoint_step == 10
        assert losses(run) == pytest.approx(losses(alone), abs=1e-4)
        assert run.load_checkpoint()[1].keys() == alone.load_checkpoint()[1].keys()
        assert [e["step"] for e in run.metrics()] == [e["step"] for e in alone.metrics()]


def test_two_graft_and_classify_as_one(corpus: Path, tmp_path: Path) -> None:
    body = greffon.pretrain([corpus], out=tmp_path / "body", vocab_size=300, steps=5, quiet=True, **TINY)
    labelled = tmp_path / "labelled.csv"
    labelled.write_text(
        "text,label\n" + "".join(f"Un livre {'bon' if i % 3 else 'nul'} {i},{i % 2}\n" for i in range(40))
    )

    def finetune(name: str, **more: object) -> Run:
        out = tmp_path / name
        return greffon.finetune(body, train=labelled, out=out, epochs=2, dropout=0.0, quiet=True, **more)

    pairs = [("shard", {"fsdp": True}, {"valid": labelled}), ("pushed", {}, {"adversarial_epsilon": 1.0})]
    for name, how, settings in pairs:
        alone, together = finetune(f"{name}-1", **settings), finetune(f"{name}-2", processes=2, **how, **settings)
        assert losses(together) == pytest.approx(losses(alone), abs=1e-4)
        assert together.scores == pytest.approx(alone.scores, abs=1e-4)
    with pytest.raises(UserError, match=r"^adversarial_epsilon does not go with fsdp"):
        finetune("both", processes=2, fsdp=True, adversarial_epsilon=1.0)
    assert not (tmp_path / "both").exists()


def test_a_mistake_is_told_once_and_leaves_nothing(tmp_path: Path) -> None:
    text = tmp_path / "one.txt"
    text.write_text("Un seul document.\n")
    with pytest.raises(UserError, match="holds a single document"):
        greffon.pretrain([text], out=tmp_path / "run", vocab_size=300, steps=3, processes=2, quiet=True, **TINY)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"processes": 0}, "choose 1 or more"), ({"fsdp": True}, "add processes")],
)
def test_settings_that_cannot_be_are_refused(
    corpus: Path, tmp_path: Path, settings: dict[str, object], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        greffon.pretrain([corpus], out=tmp_path / "run", steps=3, **settings)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_both_and_saves(number: int, code: int, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "cut"
    words = [sys.executable, "-m", "greffon", "pretrain", corpus, "--vocab-size", "300", "--steps", "20000", *FLAGS]
    process = subprocess.Popen(
        [*words, "--out", out, "--processes", "2"], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    )
    wait_for(out / "metrics.jsonl", 6, process)
    process.send_signal(number)
    said = process.communicate(timeout=300)[1]
    assert process.returncode == code, said
    assert said.splitlines()[-1] == f"stopped; go on with: greffon resume {out}"
    assert said.count("stopped") == 1
    assert Run.open(out).checkpoint_step == max(losses(Run.open(out)))


def worker_of(launcher: int, rank: int) -> int:
    """Find a process that torchrun has started."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    return next(int(pid) for pid in children if f"\0RANK={rank}\0" in Path(f"/proc/{pid}/environ").read_text())


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
def test_after_a_killed_process_torchrun_goes_on_from_the_last_checkpoint(corpus: Path, tmp_path: Path) -> None:
    steps, out = 60, tmp_path / "run"
    command = ["pretrain", corpus, "--vocab-size", "300", "--steps", str(steps), "--evaluate-every", "4", *FLAGS]
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    process = subprocess.Popen(
        [*launcher, "--max-restarts", "1", "-m", "greffon", *command, "--out", out],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    wait_for(out / "metrics.jsonl", 9, process)
    killed_at = Run.open(out).checkpoint_step
    os.kill(worker_of(process.pid, 1), signal.SIGKILL)
    told, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    assert 4 <= killed_at < steps
    assert said.count("going on from step") == 1, said
    assert f"{out}: held-out loss" in told
    run = Run.open(out)
    assert run.finished
    whole = greffon.pretrain(
        [corpus], out=tmp_path / "whole", vocab_size=300, steps=steps, evaluate_every=4, quiet=True, **TINY
    )
    mine, theirs = losses(run), losses(whole)
    common = mine.keys() & theirs.keys()
    assert {step for step in common if step > killed_at}
    assert [mine[step] for step in common] == pytest.approx([theirs[step] for step in common], abs=1e-4)
