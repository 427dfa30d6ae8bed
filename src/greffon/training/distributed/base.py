"""The process group: the processes that train one model together. Here is the group of a single process.

`ranks` has the group of several processes. Both have the same methods, so that there is one loop and one way
of saving. In a single process the methods do nothing, and torch.distributed is never imported.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor

from greffon.core.device import asked_device, asked_precision
from greffon.core.errors import UserError
from greffon.nn.model import Model
from greffon.objectives.batch import Batch

T = TypeVar("T")


class PeerLostError(Exception):
    """A process of the group has ended, or does not answer any more."""


class ProcessGroup:
    """A group of one process."""

    rank = 0
    size = 1
    precision = "fp32"
    """Precision of the matrix products of the body; `to_device` sets it."""
    copies = 1
    """Number of copies of the model in this machine's memory."""

    @property
    def is_main(self) -> bool:
        """Whether this process is the one that writes files and messages."""
        return self.rank == 0

    @property
    def holds_lock(self) -> bool:
        """Whether this process locks the directory; if a parent process has started it, the parent does."""
        return self.is_main

    def to_device(self, model: Model) -> None:
        """Move a model to its device; this must come before its optimizers are made."""
        device = asked_device()
        model.to(device)
        self.set_precision(model, device)

    def set_precision(self, model: Model, device: torch.device) -> None:
        """Let the body compute in the precision that was asked for."""
        if asked_precision(device) == torch.bfloat16:
            model.autocast_body(torch.bfloat16)
            self.precision = "bf16"
        else:
            self.precision = "fp32"

    def forward(self, model: Model, work: Callable[[Model], T], *, last: bool = True) -> T:
        """Do a forward pass; processes exchange gradients in the backward pass of the `last` one of a step."""
        return work(model)

    def score(self, model: Model, evaluate: Callable[[Model], T]) -> T:
        """Score a model on held-out data; all processes get the same result."""
        return evaluate(model)

    def shard_batch(self, batch: Batch) -> Batch:
        """Return this process's rows of a batch."""
        return batch

    def all_reduce(self, *numbers: float) -> tuple[float, ...]:
        """Sum numbers over all processes."""
        return numbers

    def sum_rows(self, rows: Tensor, first: int, count: int) -> Tensor:
        """Put the rows of all processes, each beginning at its `first`, together into one tensor of `count` rows."""
        return rows

    def any_rank(self, *flags: bool) -> tuple[bool, ...]:
        """Return for each flag whether it is set in any process; all processes wait for each other here."""
        return flags

    def broadcast(self, value: T) -> T:
        """Return the main process's value, which must be JSON."""
        return value

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """Let the main process run the body alone, then the others, which find what it made."""
        yield

    @contextmanager
    def report_once(self, how: str) -> Iterator[None]:
        """Let one process report an error; `how` is the command that resumes if a process is lost."""
        try:
            yield
        except PeerLostError as lost:
            raise UserError(f"{lost}; go on with `{how}`") from None

    def note(self, name: str, value: str) -> None:
        """Store a value for the next attempt, in case the launcher restarts all processes."""

    def noted(self, name: str) -> str | None:
        """Return the value that an earlier attempt of the same launch has stored."""
        return None

    def environment(self) -> Mapping[str, int | str]:
        """Return what the last digits of a result depend on, as far as this group decides it."""
        return {"device": asked_device().type, "precision": self.precision}


SINGLE_PROCESS = ProcessGroup()
