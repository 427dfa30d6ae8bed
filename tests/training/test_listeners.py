"""What the trackers wrote, read back with their own readers, is what metrics.jsonl holds."""

import importlib.util
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tiny import TinyRuns

import greffon
from greffon.core.errors import UserError
from greffon.runs.run import Run
from greffon.training.listeners import Listeners, MetricsFile, scalars
from greffon.training.track_tensorboard import TensorBoard


def written(run: Run) -> dict[str, list[tuple[int, float]]]:
    """The numbers of metrics.jsonl by name, each with its steps."""
    found: dict[str, list[tuple[int, float]]] = {}
    for entry in run.metrics():
        for name, value in scalars(entry).items():
            found.setdefault(name, []).append((entry["step"], value))
    return found


def in_tensorboard(run: Run) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(run.path / "tensorboard"))
    events.Reload()
    return {name: [(event.step, event.value) for event in events.Scalars(name)] for name in events.Tags()["scalars"]}


def same(read: dict[str, list[tuple[int, float]]], expected: dict[str, list[tuple[int, float]]]) -> None:
    assert set(read) == set(expected)
    for name, values in expected.items():
        assert [step for step, _ in read[name]] == [step for step, _ in values], name
        np.testing.assert_allclose([v for _, v in read[name]], [v for _, v in values], rtol=1e-6)  # float32 there


def test_tensorboard_reads_the_metrics_of_a_run_that_was_resumed(tiny: TinyRuns, tmp_path: Path) -> None:
    tiny.causal  # noqa: B018 (makes the tokenizer)
    run = tiny.body("watched", tensorboard=True)
    assert {"train/loss", "train/learning_rate", "train/grad_norm", "valid/loss"} <= set(written(run))
    same(in_tensorboard(run), written(run))
    again = greffon.resume(run, extra_steps=2, quiet=True, tensorboard=True)
    assert [step for step, _ in written(again)["train/loss"]] == [1, 2, 3, 4, 5]
    same(in_tensorboard(again), written(again))


def test_being_watched_changes_nothing(tiny: TinyRuns) -> None:
    tiny.causal  # noqa: B018
    watched, alone = tiny.body("watched-too", tensorboard=True), tiny.body("alone")
    assert (watched.path / "model.safetensors").read_bytes() == (alone.path / "model.safetensors").read_bytes()
    assert not (alone.path / "tensorboard").exists()


def test_tensorboard_forgets_steps_that_are_done_again(tiny: TinyRuns, tmp_path: Path) -> None:
    run = Run(tmp_path, tiny.causal.recipe)
    for begin, values in ((0, [5.0, 4.0, 3.0, 2.0]), (2, [3.5, 2.5])):
        tracker = TensorBoard(run, begin)
        for step, loss in enumerate(values, start=begin + 1):
            tracker.record({"step": step, "loss": loss})
        tracker.close(finished=False)
    same(in_tensorboard(run), {"train/loss": [(1, 5.0), (2, 4.0), (3, 3.5), (4, 2.5)]})


@pytest.fixture(scope="module")
def mlflow_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory to work in, with MLflow's store of files: it takes longer to make a database than to train."""
    folder = tmp_path_factory.mktemp("mlflow")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", str(folder / "mlruns"))
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        patch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
        yield folder


def test_mlflow_has_the_settings_and_metrics_of_a_run_that_was_resumed(tiny: TinyRuns, mlflow_home: Path) -> None:
    tiny.causal  # noqa: B018 (makes the tokenizer)
    run = tiny.body("tracked", mlflow=True, seed=3)
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
    from mlflow import MlflowClient

    client = MlflowClient()
    (found,) = client.search_runs([client.get_experiment_by_name("greffon").experiment_id])
    assert (found.info.run_name, found.info.status) == ("tracked", "FINISHED")
    assert found.data.params["training.seed"] == "3"
    assert found.data.params["shape.hidden_size"] == "32"
    assert found.data.params["objective"] == "causal"
    run = greffon.resume(run, extra_steps=1, quiet=True, mlflow=True)
    (again,) = client.search_runs([found.info.experiment_id])
    assert again.info.run_id == found.info.run_id
    logged = {
        name: [(m.step, m.value) for m in client.get_metric_history(again.info.run_id, name)]
        for name in again.data.metrics
    }
    same({name: sorted(values) for name, values in logged.items()}, written(run))


def test_a_server_that_is_not_there_is_told_before_anything_is_trained(
    tiny: TinyRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(UserError, match=r"^mlflow cannot begin"):
        greffon.finetune(tiny.causal, train=tiny.table, out=tmp_path / "run", epochs=1, quiet=True, mlflow=True)
    assert not (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.parametrize("name", ["tensorboard", "mlflow"])
def test_a_package_that_is_missing_is_told_before_anything_is_written(
    name: str, tiny: TinyRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    missing = {"tensorboardX", "mlflow"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name in missing else real(name, *a))
    with pytest.raises(UserError, match=rf"pip install 'greffon\[{name}\]'"):
        greffon.pretrain([tiny.text], out=tmp_path / "run", steps=1, quiet=True, **{name: True})
    assert not (tmp_path / "run").exists()
    with pytest.raises(UserError, match="pip install"):
        greffon.resume(tiny.causal, extra_steps=1, quiet=True, **{name: True})


def test_a_tracker_that_fails_is_left_out_and_training_goes_on(tiny: TinyRuns, tmp_path: Path) -> None:
    class Failing:
        def record(self, entry: Any) -> None:
            raise ConnectionError("the server has left\nand more")

        def close(self, finished: bool) -> None:
            raise AssertionError("it was left out")

    run = Run(tmp_path, tiny.causal.recipe)
    listeners = Listeners(MetricsFile(run), {"mlflow": Failing()})
    with pytest.warns(UserWarning, match="^mlflow: ConnectionError: the server has left; training goes on without"):
        listeners.record({"step": 1, "loss": 2.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        listeners.record({"step": 2, "loss": 1.0})
        listeners.close(finished=True)
    assert [entry["step"] for entry in run.metrics()] == [1, 2]


def test_numbers_of_every_kind_of_entry() -> None:
    assert scalars({"step": 2, "skipped": "the loss is nan", "seconds": 1.0}) == {"train/skipped": 1.0}
    assert scalars({"step": 2, "loss": float("nan"), "grad_norm": 1}) == {"train/grad_norm": 1.0}
    assert scalars({"step": 2, "valid": {"loss": 1.5, "accuracy": 0.5}, "averaged": 3}) == {
        "valid/loss": 1.5,
        "valid/accuracy": 0.5,
    }
