"""A table of texts with what a run says of them: `greffon classify … --out predictions.csv`.

A .conll file, too, is written back: its lines as they are, with the tag that was found as one more column.
"""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from greffon.core.errors import UserError, setting
from greffon.core.files import write_atomically
from greffon.data.corpora import Labelled
from greffon.data.readers import SUFFIXES, lines, suffix_of, whole_rows
from greffon.data.tasks.tokens import SUFFIXES as CONLL
from greffon.data.tasks.tokens import Span, is_word, places_of, spans_of, tags_of_spans, words_of

SUFFIXES_OUT = (".csv", ".tsv", ".jsonl", ".conll")
OURS = ("prediction", "probability")
"""Columns of the answers."""

Row = dict[str, object]


class Answer(Protocol):
    """What a run says of one text."""

    def cells(self) -> dict[str, str]:
        """Return the answer as columns of a table."""
        ...


@dataclass(frozen=True)
class Predictions:
    """A file to write, and the table that the texts came from."""

    path: Path
    file: Path | None
    rows: list[Row] | None
    """The rows of the table; None where the texts came from no table."""

    @classmethod
    def open(cls, path: Path, file: Path | None, answer: str) -> "Predictions":
        """Read the table, and refuse what could not be written, before the work; `answer` is the kind of the run's."""
        if path.suffix not in SUFFIXES_OUT:
            raise UserError(f"{path}: a table ends in {', '.join(SUFFIXES_OUT)}; give {setting('out')} another name")
        if path.suffix == ".conll" and answer != "tokens":
            raise UserError(
                f"{path}: .conll holds marked spans, which this run does not give; end {setting('out')} in .csv"
            )
        if not path.absolute().parent.is_dir():
            raise UserError(f"{path}: there is no such folder; make it, or choose another {setting('out')}")
        if file is None or not file.name.endswith(SUFFIXES) or suffix_of(file) == ".txt":
            return cls(path, file, None)
        rows = list(whole_rows(file))
        for name in OURS:
            if any(name in row for row in rows) and path.suffix != ".conll":
                raise UserError(f"{file} has a column {name!r} already, which the answers would overwrite; rename it")
        return cls(path, file, rows)

    def write(self, examples: Sequence[Labelled], found: Sequence[Answer]) -> None:
        """Write the table, or else the texts, with the columns of the answers."""
        if self.path.suffix == ".conll":
            text = "".join(f"{line}\n" for line in self._tagged(examples, found))
        else:
            rows = self.rows or [_columns(example) for example in examples]
            text = _text([{**row, **answer.cells()} for row, answer in zip(rows, found, strict=True)], self.path.suffix)
        try:
            write_atomically(self.path, text.encode())
        except OSError as problem:
            raise UserError(
                f"{self.path}: the answers cannot be written ({problem.strerror}); choose another {setting('out')}"
            ) from None

    def _tagged(self, examples: Sequence[Labelled], found: Sequence[Answer]) -> Iterator[str]:
        spans = [spans_of(answer.cells()["prediction"]) for answer in found]
        if self.file is None or not self.file.name.endswith(CONLL):
            for example, own in zip(examples, spans, strict=True):
                words = words_of(example.text)
                for (begin, end), tag in zip(words, tags_of_spans(words, own), strict=True):
                    yield f"{example.text[begin:end]} {tag}"
                yield ""
            return
        tags = (tag for example, own in zip(examples, spans, strict=True) for tag in _tags(example.text, own))
        for _, line in lines(self.file):
            between = "\t" if "\t" in line else " "
            yield f"{line.rstrip()}{between}{next(tags)}" if is_word(line) else line


def _tags(sentence: str, spans: Sequence[Span]) -> list[str]:
    """Return the tag of each word of a .conll sentence, whose words stand between spaces."""
    return tags_of_spans(places_of(sentence.split(" ")), spans)


def _columns(example: Labelled) -> Row:
    return {"text": example.text} if example.second is None else {"text_a": example.text, "text_b": example.second}


def _text(table: Sequence[Row], suffix: str) -> str:
    if suffix == ".jsonl":
        return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in table)
    out = io.StringIO()
    names = dict.fromkeys(name for row in table for name in row)
    writer = csv.DictWriter(out, list(names), delimiter="\t" if suffix == ".tsv" else ",")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in table)
    return out.getvalue()


def _cell(value: object) -> object:
    """Return a cell as text: what is neither text nor missing is JSON, as the file had it."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
