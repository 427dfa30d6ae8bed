"""A comparison on a Dask cluster of three processes, of which one is killed, and by submitit: as in one process."""

import json
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from threadpoolctl import threadpool_info

import greffon
from greffon.comparison import executors, task, workers
from greffon.comparison.fit import FIT
from greffon.comparison.task import Task
from greffon.core.device import DEVICE, inherited, using
from greffon.core.errors import UserError, on_command_line
from greffon.core.settings import Machine

TINY = {"layers": 1, "hidden_size": 16, "heads": 2, "intermediate_size": 16, "context": 16, "batch_size": 4}
SETTINGS = {"seeds": 2, "epochs": 3, "jobs": 2, "batch_size": 4, "quiet": True}


@pytest.fixture(scope="module")
def body(tmp_path_factory: pytest.TempPathFactory) -> greffon.Run:
    out, text = tmp_path_factory.mktemp("body") / "run", tmp_path_factory.mktemp("text") / "text.txt"
    text.write_text("le chat dort et le chien mange\nle loup court\nle veau boit\n" * 40)
    return greffon.pretrain([text], out=out, vocab_size=300, steps=4, quiet=True, **TINY)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("table") / "train.csv"
    rows = [f"le {animal} {number} {verb},{label}" for number in range(12) for animal, verb, label in ANIMALS]
    file.write_text("text,label\n" + "\n".join(rows) + "\n")
    return file


ANIMALS = [("chat", "dort", "a"), ("chien", "mange", "b"), ("loup", "court", "a"), ("veau", "boit", "b")]


@pytest.fixture(scope="module")
def alone(body: greffon.Run, table: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    out = tmp_path_factory.mktemp("alone") / "comparison"
    greffon.compare([body], train=table, out=out, **SETTINGS)
    return answers(out)


def answers(comparison: Path) -> dict[str, Any]:
    """What every task ended with, and the results without the paths and times."""
    found = {
        str(file.relative_to(comparison)): json.loads(file.read_text())
        for file in sorted(comparison.rglob("probabilities.json"))
    }
    return {**found, "arms": without_times(json.loads((comparison / "results.json").read_text())["arms"])}


def without_times(value: Any) -> Any:
    """Drop how long things took."""
    if isinstance(value, list):
        return [without_times(inner) for inner in value]
    if isinstance(value, dict):
        return {name: without_times(inner) for name, inner in value.items() if "seconds" not in name}
    return value


def test_a_killed_worker_of_three_loses_nothing(
    body: greffon.Run, table: Path, tmp_path: Path, alone: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    killed: list[int] = []
    with distributed.LocalCluster(n_workers=3, threads_per_worker=1, dashboard_address=None) as cluster:
        monkeypatch.setenv(executors.ADDRESS, cluster.scheduler_address)

        def kill() -> None:
            with distributed.Client(cluster) as client:
                while not killed:
                    busy = [worker for worker, keys in client.processing().items() if keys]
                    if busy and [*(tmp_path / "out").rglob("metrics.jsonl")]:
                        killed.append(client.run(os.getpid, workers=busy[:1])[busy[0]])
                        os.kill(killed[0], signal.SIGKILL)
                    time.sleep(0.02)

        thread = threading.Thread(target=kill, daemon=True)
        thread.start()
        greffon.compare([body], train=table, out=tmp_path / "out", executor="dask", **SETTINGS)
        thread.join(timeout=30)
    assert killed
    assert answers(tmp_path / "out") == alone


def test_a_worker_with_several_threads_gives_the_same(
    body: greffon.Run, table: Path, tmp_path: Path, alone: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its threads share one generator of random numbers."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=4, processes=False, dashboard_address=None
    ) as cluster:
        monkeypatch.setenv(executors.ADDRESS, cluster.scheduler_address)
        greffon.compare([body], train=table, out=tmp_path / "out", executor="dask", **SETTINGS)
    assert answers(tmp_path / "out") == alone


def test_a_task_whose_workers_are_all_killed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    dask = pytest.importorskip("dask")
    monkeypatch.setattr(executors, "execute", lambda *asked: os.kill(os.getpid(), signal.SIGKILL))
    monkeypatch.setattr(workers, "available_cores", lambda: 1)
    told: list[str] = []
    tasks = [Task(tmp_path / name, name) for name in ("one", "other")]
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        pytest.raises(UserError, match="lost with each worker that took it"),
    ):
        executors.on_dask(tasks, 64, told.append)
    assert list(map(on_command_line, told)) == [
        "1 at a time: this machine gives greffon 1 core, fewer than --jobs 64",
        "2 tasks on 1 Dask workers",
    ]


def test_a_task_limits_the_threads_of_blas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[int]] = []

    def fit(path: Path) -> dict[str, Any]:
        found.append([torch.get_num_threads(), *(each["num_threads"] for each in threadpool_info())])
        return {}

    monkeypatch.setattr(task, "carry_out", fit)
    for threads in (1, 2):
        folder = tmp_path / str(threads)
        folder.mkdir()
        (folder / FIT).touch()
        task.execute(folder, threads)
    assert [set(numbers) for numbers in found] == [{1}, {2}]
    assert len(found[0]) >= 3  # torch, its OpenMP, and the BLAS of numpy


def test_submitit_gives_the_same(
    body: greffon.Run, table: Path, tmp_path: Path, alone: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm itself is not here: submitit starts the same jobs as processes of this machine."""
    pytest.importorskip("submitit")
    local = lambda tasks, jobs, tell: executors.on_slurm(tasks, jobs, tell, cluster="local")  # noqa: E731
    monkeypatch.setitem(executors.EXECUTORS, "slurm", local)
    greffon.compare([body], train=table, out=tmp_path / "out", executor="slurm", **SETTINGS)
    assert answers(tmp_path / "out") == alone


def test_an_executor_that_is_not_here_is_refused(body: greffon.Run, table: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="unknown executor 'dusk'; did you mean 'dask'"):
        greffon.compare([body], train=table, out=tmp_path / "out", executor="dusk")
    assert not (tmp_path / "out").exists()


def test_every_training_computes_with_what_was_asked_for(
    body: greffon.Run, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    absent = "mps" if torch.cuda.is_available() else "cuda"
    with pytest.raises(UserError, match="PyTorch finds no such device"):
        greffon.compare([body], train=table, out=tmp_path / "absent", device=absent, **SETTINGS)
    seen: list[tuple[str | None, int]] = []

    def carried_out(tasks: Any, jobs: int | None, tell: Any) -> None:
        asked = inherited()
        with using(Machine(device="auto")):  # as in a worker of another machine
            for each in tasks:
                with suppress(UserError):
                    task.execute(each.path, 1, asked)

    def note(*asked: Any) -> None:
        seen.append((os.environ.get(DEVICE), torch.get_num_threads()))
        raise UserError("nothing is trained here")

    monkeypatch.setattr(task, "_train", note)
    monkeypatch.setattr(task, "carry_out", note)
    monkeypatch.setenv(DEVICE, "auto")
    monkeypatch.setitem(executors.EXECUTORS, "local", carried_out)
    with using(Machine(threads=1)), pytest.raises(UserError):  # there are no probabilities to report
        greffon.compare([body], train=table, out=tmp_path / "out", device="cpu", **SETTINGS)
    assert set(seen) == {("cpu", 1)}
    assert os.environ[DEVICE] == "auto"
    with pytest.raises(UserError, match="unknown precision 'fp16'"):
        greffon.compare([body], train=table, out=tmp_path / "out", precision="fp16", **SETTINGS)
    with pytest.raises(UserError, match="threads is 0"):
        greffon.compare_task([body], train=table, out=tmp_path / "out", threads=0)
