"""The texts that a command is about: words of the command line, a file, or the lines of stdin."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from greffon.cli.parsing import given
from greffon.core.conflicts import Idle, Values, refuse_idle
from greffon.core.errors import UserError, setting
from greffon.data.corpora import reason_without_columns
from greffon.data.readers import stream_lines


def asked_texts(
    texts: Sequence[str], file: Path | None, read: Callable[[Path], list[str]], what: str, noun: str = "texts"
) -> list[str]:
    """Return the texts that a command is about: those given, those of a file, or (-) the lines of stdin."""
    if (file is None) == (not texts):
        raise UserError(f"nothing to {what}, or too much; give {noun}, --file F, or - for stdin")
    if file is not None:
        found = read(file)
    elif tuple(texts) == ("-",):
        found = [line for _, line in stream_lines(sys.stdin.buffer, "standard input")]
    else:
        found = list(texts)
    if not found:
        raise UserError(f"{file or 'standard input'} is empty: nothing to {what}; give {noun} in it")
    return found


def check_column(args: Any) -> None:
    """Refuse --text-column where the texts come from no file, or from one without columns."""
    refuse_idle([Idle(("text_column",), _column_reason)], given(args))


def _column_reason(values: Values) -> str | None:
    file = values.get("file")
    return f"without {setting('file')}; leave it out" if file is None else reason_without_columns([file])
