"""The log of a labelling session: one JSON line per mark, synced to the disk before anything else happens.

Lines are only appended. A line that a kill has left half written was never answered, so it is cut off when the log
is opened again; a damaged line before the last one is an error.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from greffon.core.config import from_dict
from greffon.core.errors import UserError
from greffon.core.files import COPY, sync_directory
from greffon.core.json_results import JsonResult

Kind = Literal["label", "skip", "flag", "undo"]
Source = Literal["aside", "random", "uncertain", "diverse", "chosen", "again"]
"""How a text came to be judged: kept aside, by a strategy, chosen by the person, or asked for a second time."""


@dataclass(frozen=True)
class Mark(JsonResult):
    """One thing that a person did."""

    kind: Kind
    text: int
    """Index of the text; of an undo, the number of the mark that it takes back."""
    label: str = ""
    source: Source = "chosen"
    author: str = ""
    time: str = ""
    """UTC, as in ISO 8601."""
    client: str = ""
    """Tab or program that sent the mark; an undo takes back the last mark of its own client."""
    key: str = ""
    """Chosen by the client: the same key never makes a second mark."""


class Log:
    """The file of marks, open for appending."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.marks = _read(path)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        sync_directory(path.parent)

    def append(self, mark: Mark) -> int:
        """Write a mark, wait until it is on the disk, and return its number."""
        line = json.dumps(mark.to_json(), ensure_ascii=False).encode() + b"\n"
        before = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, line)
            if written != len(line):
                raise OSError(28, "No space left on device")
            os.fsync(self._file)
        except OSError as problem:
            os.ftruncate(self._file, before)  # the mark was not accepted, so it must not come back later
            raise UserError(
                f"{self.path}: the label could not be written ({problem.strerror}); free some room and label it again"
            ) from None
        self.marks.append(mark)
        return len(self.marks) - 1

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _read(path: Path) -> list[Mark]:
    """Read all marks, and cut off a last line that was not written to its end."""
    if not path.exists():
        return []
    content = path.read_bytes()
    complete = content.rfind(b"\n") + 1
    if complete < len(content):
        os.truncate(path, complete)
    return [_mark(path, number, line) for number, line in enumerate(content[:complete].splitlines(), start=1)]


def _mark(path: Path, number: int, line: bytes) -> Mark:
    try:
        return from_dict(Mark, json.loads(line), f"{path}:{number}")
    except (ValueError, RecursionError) as problem:
        raise UserError(f"{path}:{number}: this line is damaged ({problem}); {COPY}") from None
