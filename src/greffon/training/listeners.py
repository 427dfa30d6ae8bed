"""Who is told of the metrics of a training: metrics.jsonl first, and the trackers that the user asked for."""

import importlib
import importlib.util
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from greffon.core.errors import SettingWarning, UserError, setting
from greffon.runs.run import Run

TRACKERS = {"tensorboard": "tensorboardX", "mlflow": "mlflow"}
"""The package that each tracker needs; the extra that installs it has the tracker's name."""


class Listener(Protocol):
    """Is told of each entry of metrics.jsonl while it is written: steps, skipped steps and evaluations."""

    def record(self, entry: Mapping[str, Any]) -> None:
        """Take in one entry."""

    def close(self, finished: bool) -> None:
        """End; `finished` says whether the training came to its end."""


class MetricsFile:
    """The first listener: metrics.jsonl of the run."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def record(self, entry: Mapping[str, Any]) -> None:
        """Append the entry."""
        self.run.log(entry)

    def close(self, finished: bool) -> None:
        """Do nothing: each entry is in the file already."""


class Listeners:
    """All listeners of one training: what the run's own file cannot take ends it, what a tracker cannot does not."""

    def __init__(self, metrics: MetricsFile, trackers: Mapping[str, Listener]) -> None:
        self.metrics, self.trackers = metrics, dict(trackers)

    def record(self, entry: Mapping[str, Any]) -> None:
        """Tell all of one entry."""
        self.metrics.record(entry)
        for name, tracker in list(self.trackers.items()):
            try:
                tracker.record(entry)
            except Exception as error:  # of any kind: a disk, a server, the library itself
                _warn(name, error, "training goes on without it")
                del self.trackers[name]

    def close(self, finished: bool) -> None:
        """End all of them."""
        for name, tracker in self.trackers.items():
            try:
                tracker.close(finished)
            except Exception as error:
                _warn(name, error, "its last metrics may be missing there")


def _warn(name: str, error: Exception, then: str) -> None:
    warnings.warn(SettingWarning(f"{setting(name)}: {_first_line(error)}; {then}"), stacklevel=3)


@contextmanager
def listening(run: Run, trackers: Sequence[str], step: int) -> Iterator[Listeners]:
    """Open the listeners of a training that goes on after `step`, and close them at its end."""
    refuse_missing(trackers)
    opened: dict[str, Listener] = {}
    for name in trackers:
        module = importlib.import_module(f"greffon.training.track_{name}")
        try:
            opened[name] = module.open_tracker(run, step)
        except Exception as error:
            raise UserError(f"{setting(name)} cannot begin ({_first_line(error)}); mend that or leave it out") from None
    listeners, finished = Listeners(MetricsFile(run), opened), False
    try:
        yield listeners
        finished = True
    finally:
        listeners.close(finished)


def refuse_missing(trackers: Sequence[str]) -> None:
    """Raise a `UserError` for a tracker whose package is not installed."""
    for name in trackers:
        if importlib.util.find_spec(TRACKERS[name]) is None:
            raise UserError(f"{setting(name)} needs {TRACKERS[name]}; install it with: pip install 'greffon[{name}]'")


def scalars(entry: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of an entry by name: those of a step under `train/`, those of an evaluation under `valid/`.

    >>> scalars({"step": 3, "loss": 2.0, "seconds": 1.5})
    {'train/loss': 2.0}
    >>> scalars({"step": 3, "valid": {"loss": 2.5}, "seconds": 1.5})
    {'valid/loss': 2.5}
    """
    if "valid" in entry:
        of_what, values = "valid", entry["valid"]
    else:
        of_what, values = "train", {name: entry[name] for name in entry if name not in ("step", "seconds")}
    numbers = {name: 1.0 if name == "skipped" else value for name, value in values.items()}
    return {
        f"{of_what}/{name}": float(value)
        for name, value in numbers.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"[:300]
