"""A request to stop training: Ctrl-C and SIGTERM, asked once, and what is told at the end."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupted(KeyboardInterrupt):
    """Training stopped because the user asked; everything is saved, and `how` is the command that resumes."""

    def __init__(self, how: str, signal: int = signal.SIGINT) -> None:
        super().__init__()
        self.how, self.signal = how, signal


class Stop:
    """A request to stop, which is looked at after each step."""

    asked = 0  # the signal that was received; 0: none


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Turn Ctrl-C and SIGTERM into a request to stop after the current step; a second Ctrl-C stops at once."""
    stop = Stop()

    def ask(number: int, frame: object) -> None:
        if stop.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.asked = number

    try:
        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: the caller handles signals
        yield stop
        return
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
