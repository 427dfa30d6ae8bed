"""Cancellation: long loops call `raise_if_cancelled` between two steps.

The thread that does the work sets the event that cancels it; without one, nothing is ever cancelled.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_event: ContextVar[threading.Event | None] = ContextVar("event", default=None)


class Cancelled(Exception):  # noqa: N818 - nothing went wrong
    """The work was cancelled: its result is no longer needed."""


@contextmanager
def cancellable(event: threading.Event) -> Iterator[None]:
    """Cancel the work in the `with` block at its next step once the event is set."""
    token = _event.set(event)
    try:
        yield
    finally:
        _event.reset(token)


def raise_if_cancelled() -> None:
    """Raise `Cancelled` if the work was cancelled."""
    event = _event.get()
    if event is not None and event.is_set():
        raise Cancelled
