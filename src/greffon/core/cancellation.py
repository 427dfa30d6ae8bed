"""Work that somebody else may call off: long loops ask here, between two steps, whether to go on.

Whoever starts the work in a thread of its own says what calls it off; everybody else never notices.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_called_off: ContextVar[threading.Event | None] = ContextVar("called_off", default=None)


class Cancelled(Exception):  # noqa: N818 - nothing went wrong
    """Nobody waits for the result any more."""


@contextmanager
def cancellable(called_off: threading.Event) -> Iterator[None]:
    """Let what runs inside stop at its next step once the event is set."""
    token = _called_off.set(called_off)
    try:
        yield
    finally:
        _called_off.reset(token)


def raise_if_cancelled() -> None:
    """Raise `Stopped` if the work was called off."""
    called_off = _called_off.get()
    if called_off is not None and called_off.is_set():
        raise Cancelled
