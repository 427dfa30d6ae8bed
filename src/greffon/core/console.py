"""Messages on stderr, which name settings as the reader wrote them: in Python, unless a command says otherwise."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from greffon.core import errors
from greffon.core.machine import is_main_process

_written = errors.in_python


def say(message: str) -> None:
    """Print one line on stderr."""
    print(_written(message), file=sys.stderr, flush=True)  # noqa: T201


def show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a warning as one line (for `warnings.showwarning`); of several processes, one does."""
    if is_main_process():
        say(f"warning: {message.args[0] if isinstance(message, errors.SettingWarning) else message}")


@contextmanager
def for_command_line() -> Iterator[None]:
    """Let messages name settings as options."""
    global _written
    before, _written = _written, errors.on_command_line
    try:
        yield
    finally:
        _written = before
