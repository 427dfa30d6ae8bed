"""Messages on stderr."""

import sys


def say(message: str) -> None:
    """Print one line on stderr."""
    print(message, file=sys.stderr, flush=True)  # noqa: T201
