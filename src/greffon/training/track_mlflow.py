"""Settings and metrics of a run, logged to MLflow: on this machine, unless MLFLOW_TRACKING_URI names a server."""

import dataclasses
import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when the package is imported: nothing is sent unasked

from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException

from greffon.core.files import read_json, write_json
from greffon.runs.run import Run
from greffon.training.listeners import Listener, scalars

NOTE = "mlflow.json"
"""File of the run that names its MLflow run, so that a resumed training goes on there."""
SEND_SECONDS = 10.0
"""Most time that numbers wait to be logged together."""
LONGEST = 500
"""Characters of a setting that every tracking server takes."""


class MLflow:
    """Logs to one MLflow run, in the experiment MLFLOW_EXPERIMENT_NAME (greffon, if there is none)."""

    def __init__(self, run: Run) -> None:
        self.waiting: list[Metric] = []
        self.sent = time.monotonic()
        self.client = MlflowClient()
        note = run.path / NOTE
        known = read_json(note) if note.is_file() else {}
        if known.get("tracking_uri") == self.client.tracking_uri and self._goes_on(str(known.get("run_id"))):
            self.run_id = str(known["run_id"])
            return
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "greffon")
        found = self.client.get_experiment_by_name(name)
        experiment = self.client.create_experiment(name) if found is None else found.experiment_id
        self.run_id = self.client.create_run(experiment, run_name=run.name).info.run_id
        params = [Param(key, value[:LONGEST]) for key, value in settings(run)]
        self.client.log_batch(self.run_id, params=params)
        write_json(note, {"tracking_uri": self.client.tracking_uri, "run_id": self.run_id})

    def _goes_on(self, run_id: str) -> bool:
        try:
            self.client.update_run(run_id, status="RUNNING")
        except MlflowException:
            return False
        return True

    def record(self, entry: Mapping[str, Any]) -> None:
        """Log the numbers of an entry, together with others: those of an evaluation at once."""
        now = int(1000 * time.time())
        self.waiting += [Metric(name, value, now, entry["step"]) for name, value in scalars(entry).items()]
        if "valid" in entry or time.monotonic() - self.sent > SEND_SECONDS:
            self._send()

    def _send(self) -> None:
        """Log what is waiting: each call waits for a disk or a server."""
        self.client.log_batch(self.run_id, metrics=self.waiting)
        self.waiting, self.sent = [], time.monotonic()

    def close(self, finished: bool) -> None:
        """Log what is still waiting, and how the training ended."""
        self._send()
        self.client.set_terminated(self.run_id, "FINISHED" if finished else "KILLED")


def open_tracker(run: Run, step: int) -> Listener:
    """Open the MLflow run of a training; steps that are done again are logged again."""
    return MLflow(run)


def settings(run: Run) -> Iterator[tuple[str, str]]:
    """Name the settings of a recipe: `("training.learning_rate", "0.001")`."""
    for name, value in dataclasses.asdict(run.recipe).items():
        if name == "cost":
            continue
        inner = {f"{name}.{key}": one for key, one in value.items()} if isinstance(value, dict) else {name: value}
        for key, one in inner.items():
            if one not in (None, "", (), []):
                yield key, str(one)
