"""A task of a comparison: one training or fit, in a directory that says all that it needs.

Any process that sees the directory and the files that it names can carry it out. What it ends with is
`probabilities.json`; an interrupted training goes on when its task is carried out again. The same number of threads
gives the same answer bit for bit.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from threadpoolctl import threadpool_limits

from greffon.comparison.ensemble import Probabilities
from greffon.comparison.fit import FIT, FITTED, Fitted, carry_out
from greffon.core.device import inheriting
from greffon.core.files import read_json, write_json
from greffon.data.splits import load_pool, load_splits
from greffon.inference.classify import outputs
from greffon.inference.measures import measure_of
from greffon.runs.run import Run
from greffon.training.selection import held_out
from greffon.training.train import train

PROBABILITIES = "probabilities.json"
"""File with what was said of the validation and test texts, for a class its probability; written last: the end."""

_ALONE = threading.Lock()
"""Held by the task that this process carries out: dropout draws from the generator of the whole process."""


@dataclass(frozen=True)
class Task:
    """A directory with a training or a fit, and its name for a reader."""

    path: Path
    name: str

    @property
    def finished(self) -> bool:
        """Whether it was carried out."""
        return (self.path / PROBABILITIES).is_file()

    @property
    def probabilities(self) -> dict[str, Probabilities]:
        """The probabilities of each label, for each text of a part."""
        found: dict[str, Probabilities] = read_json(self.path / PROBABILITIES)
        return found

    @property
    def outcome(self) -> str:
        """Say what a finished task reached."""
        if (self.path / FITTED).is_file():
            return f"cross-validation {Fitted.read(self.path).valid_score:.1%}"
        run = Run.open(self.path)
        metric, scores = measure_of(run.recipe).metric, run.scores
        form = ".1%" if metric == "accuracy" else ".3f"
        test = f", test {scores[f'test_{metric}']:{form}}" if f"test_{metric}" in scores else ""
        how = "cross-validation" if "cross_validated" in scores else "validation"
        return f"{how} {scores[metric]:{form}}{test}"


def execute(path: str | Path, threads: int, machine: Mapping[str, str] | None = None) -> None:
    """Carry out the task in a directory, or go on with it, with so many threads; what is finished is left as it is.

    `machine` is what was asked for in another process (`greffon.core.device.inherited`).
    A process carries out one task at a time: where threads of it ask for several, each waits for its turn.
    """
    path = Path(path)
    with _ALONE:
        if (path / PROBABILITIES).is_file():
            return
        with inheriting(machine or {}), limited(threads):
            made = carry_out(path) if (path / FIT).is_file() else _train(Run.open(path))
        write_json(path / PROBABILITIES, made)


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Compute with so many threads, in torch and in BLAS: their number decides the last digits."""
    import sklearn.linear_model  # noqa: F401 - only libraries that are loaded can be limited

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)


def _train(run: Run) -> dict[str, Any]:
    """Train a head, and return what it says of the texts of its parts."""
    if not run.finished:  # its checkpoints are gone by then: it would begin anew
        train(run, quiet=True)
    data = run.recipe.data
    splits = load_splits(data)
    parts = {"valid": splits.valid, "test": load_pool(data)[1]}
    found: dict[str, Any] = {name: [row.tolist() for row in outputs(run, part)] for name, part in parts.items() if part}
    if data.limit:
        found["held_out"] = held_out(run)
    run.drop_checkpoints()
    return found
