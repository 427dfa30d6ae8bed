"""How much one client may ask of the server, and how long it may take to ask."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The bounds of texts and numbers stand with the questions."""

    body: int = 1_000_000
    """Bytes of a request."""
    read_seconds: float = 10.0
    """Seconds in which a request must have arrived."""
    at_once: int = 2
    """Models at work at the same time."""
    waiting: int = 16
    """Requests that may wait for them; more are told to come back."""
    retry_seconds: int = 1
    """When those may come back."""


DEFAULT = Limits()
