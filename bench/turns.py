"""A contestant's side of a contest: it waits for its turn, works, and reports.

    def contestant(turns, size, folder):
        model = ...                # set up; nobody counts the time
        for _ in turns:            # blocks until it is our turn
            ...
            turns.report(work=tokens)

Only the time between a turn's beginning and its report counts, and only `Turns` holds the watch.
"""

import json
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO


class Turns:
    """The turns of one contestant, told and answered by lines of text."""

    def __init__(self, commands: TextIO, answers: TextIO) -> None:
        self._commands, self._answers = commands, answers
        self._ready = False
        self._started = 0.0
        self._facts: dict[str, Any] = {}

    def __iter__(self) -> Iterator[None]:
        while self.wait():
            yield

    def wait(self) -> bool:
        """Wait for the next turn; False once there is none. The first call says that all is set up."""
        if not self._ready:
            self._ready = True
            self._answer({"ready": True})
        asked = self._commands.readline().strip() == "go"
        self._started = time.perf_counter()
        return asked

    def report(self, work: float) -> None:
        """End the turn: so much work was done since it began."""
        seconds = time.perf_counter() - self._started
        self._answer({"seconds": seconds, "work": work})

    def note(self, **facts: Any) -> None:
        """Keep something to be told at the end: an accuracy, the outputs, FLOPs a unit of work."""
        self._facts |= facts

    def end(self) -> None:
        """Tell what was noted, and the most memory that this process, or one it started, has used."""
        self._answer({**self._facts, "peak_bytes": peak_bytes()})

    def _answer(self, facts: dict[str, Any]) -> None:
        self._answers.write(json.dumps(facts) + "\n")
        self._answers.flush()


def peak_bytes() -> int:
    """The largest resident size so far, of this process (VmHWM) or of a child that has ended."""
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        own = 1024 * int(line.split()[1])
    else:
        own = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return max(own, 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
