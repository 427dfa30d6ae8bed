"""The processes that train one model together. Here: one process, alone, which needs none of it.

`ranks` has the group of several processes. Training speaks to both in the same words, so that there is
one loop and one way of saving; alone, every word means "nothing to do" and torch.distributed is never
imported.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from torch import Tensor

from greffon.core.device import asked_device
from greffon.core.errors import UserError
from greffon.nn.model import Model
from greffon.objectives.batch import Batch

T = TypeVar("T")


class PeerLostError(Exception):
    """A process of the group has gone, or does not answer any more."""


class ProcessGroup:
    """A group of one."""

    rank = 0
    size = 1
    copies = 1
    """How many of them hold a copy of the model in this machine's memory."""

    @property
    def is_main(self) -> bool:
        """Whether this process is the one that writes and speaks."""
        return self.rank == 0

    @property
    def holds_lock(self) -> bool:
        """Whether this process keeps others out of the directory; where a parent started it, the parent does."""
        return self.is_main

    def to_device(self, model: Model) -> None:
        """Bring a model to where it is trained; before its optimizers are made."""
        model.to(asked_device())

    def forward(self, model: Model, work: Callable[[Model], T], *, last: bool = True) -> T:
        """Do the forward pass of a step; gradients come together in the `last` one of a step."""
        return work(model)

    def score(self, model: Model, evaluate: Callable[[Model], dict[str, float]]) -> dict[str, float]:
        """Score a model on held-out data; all hear the same."""
        return evaluate(model)

    def shard_batch(self, batch: Batch) -> Batch:
        """Return this process's share of a batch."""
        return batch

    def all_reduce(self, *numbers: float) -> tuple[float, ...]:
        """Add numbers up over all processes."""
        return numbers

    def sum_rows(self, rows: Tensor, first: int, count: int) -> Tensor:
        """Put the rows of all processes, each beginning at its `first`, together into one tensor of `count` rows."""
        return rows

    def any_rank(self, *flags: bool) -> tuple[bool, ...]:
        """Say of each flag whether any process has raised it; nobody goes on before all have come here."""
        return flags

    def broadcast(self, value: T) -> T:
        """Return what the first process has (something that JSON can hold)."""
        return value

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """Let the first process go through alone, then the others, who find what it made."""
        yield

    @contextmanager
    def report_once(self, how: str) -> Iterator[None]:
        """Let one process tell what went wrong, whoever it was; `how` says how to go on if a process is lost."""
        try:
            yield
        except PeerLostError as lost:
            raise UserError(f"{lost}; go on with `{how}`") from None

    def note(self, name: str, value: str) -> None:
        """Keep something for the attempt after this one, should a launcher start all processes again."""

    def noted(self, name: str) -> str | None:
        """Return what an earlier attempt of the same launch has kept."""
        return None

    def environment(self) -> Mapping[str, int | str]:
        """Name what the last digits of a result depend on, beside what every process depends on."""
        return {"device": asked_device().type}


SINGLE_PROCESS = ProcessGroup()
