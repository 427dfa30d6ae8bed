"""A table of texts with what a run says of them: `greffon classify … --out predictions.csv`."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from greffon.core.errors import UserError, setting
from greffon.core.files import write_atomically
from greffon.data.corpora import Labelled
from greffon.data.readers import SUFFIXES, first_row, rows

SUFFIXES_OUT = (".csv", ".tsv", ".jsonl")


class Answer(Protocol):
    """What a run says of one text."""

    def cells(self) -> dict[str, str]:
        """Return the answer as columns of a table."""
        ...


def check_table(path: Path) -> None:
    """Refuse a file that could not be written, before the work."""
    if path.suffix not in SUFFIXES_OUT:
        raise UserError(f"{path}: a table ends in {', '.join(SUFFIXES_OUT)}; give {setting('out')} another name")
    if not path.absolute().parent.is_dir():
        raise UserError(f"{path}: there is no such folder; make it, or choose another {setting('out')}")


def write_predictions(path: Path, file: Path | None, examples: Sequence[Labelled], found: Sequence[Answer]) -> None:
    """Write the table that the texts came from, or else the texts, with the columns of the answers."""
    table = _table(file, examples)
    for row, answer in zip(table, found, strict=True):
        row.update(answer.cells())
    try:
        write_atomically(path, _text(table, path.suffix).encode())
    except OSError as problem:
        raise UserError(
            f"{path}: the answers cannot be written ({problem.strerror}); choose another {setting('out')}"
        ) from None


def _table(file: Path | None, examples: Sequence[Labelled]) -> list[dict[str, object]]:
    if file is not None and file.name.endswith(SUFFIXES) and (names := list(first_row(file))):
        return [dict(zip(names, cells, strict=True)) for _, cells in rows(file, {name: name for name in names})]
    return [
        {"text": example.text} if example.second is None else {"text_a": example.text, "text_b": example.second}
        for example in examples
    ]


def _text(table: Sequence[dict[str, object]], suffix: str) -> str:
    if suffix == ".jsonl":
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(table[0]) if table else [], delimiter="\t" if suffix == ".tsv" else ",")
    writer.writeheader()
    writer.writerows(table)
    return out.getvalue()
