"""Comparisons whose tasks this process carries out, where it is not the processes that are tested."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from greffon.comparison.executors import EXECUTORS
from greffon.comparison.task import Task, execute


@contextmanager
def in_process() -> Iterator[list[str]]:
    """Let `compare` start no process; yields the names of the tasks that were carried out."""
    done: list[str] = []

    def carry_out(tasks: Sequence[Task], jobs: int | None, tell: Callable[[str], None]) -> None:
        for task in tasks:
            if not task.finished:
                execute(task.path, threads=1)
                done.append(task.name)
                tell(f"{task.name}: {task.outcome}")

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EXECUTORS, "local", carry_out)
        yield done
