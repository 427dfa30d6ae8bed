"""Limits of the server on requests."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Limits on all requests; those on texts and numbers are part of the schemas."""

    body: int = 1_000_000
    """Maximum size of a request, in bytes."""
    read_seconds: float = 10.0
    """Seconds in which a request must arrive."""
    at_once: int = 2
    """Number of requests whose models run at the same time."""
    waiting: int = 16
    """Number of requests that may wait; more are answered with 503."""
    retry_seconds: int = 1
    """Seconds after which a client that got 503 may try again."""


DEFAULT = Limits()
