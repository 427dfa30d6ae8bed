"""Several labels for each text, or none: columns `text` and `labels`, or a column of 0 and 1 for each label."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from greffon.core.errors import UserError
from greffon.core.recipe import Data
from greffon.data.corpora import Labelled, string_cell
from greffon.data.lint import Finding, lint, typos, unseen
from greffon.data.readers import rows
from greffon.data.tasks.base import LABEL, Counts, Parts, columns_of, is_shown, label_column, unknown_label
from greffon.data.tasks.classes import Classes

SEPARATOR = "|"
"""Separator of the labels in `Labelled.label`, whatever the file has."""
_BITS = ("0", "1", 0, 1, True, False)


def split_labels(label: str) -> list[str]:
    """Return the labels of one text.

    >>> split_labels("food|price"), split_labels("")
    (['food', 'price'], [])
    """
    return label.split(SEPARATOR) if label else []


class Multilabel:
    """The form of files for several labels a text."""

    paired: bool = False

    def sign(self, path: Path, data: Data) -> str:
        """A column `labels`, or two columns of 0 and 1 beside the text."""
        if is_shown(path, data, "labels"):
            return "the column 'labels'"
        names = _bit_columns(path, data)
        if names and LABEL not in names:
            return f"the columns of 0 and 1 ({', '.join(names[:3])}{', …' * (len(names) > 3)})"
        return ""

    def read(self, path: Path, data: Data) -> list[Labelled]:
        """Return the texts with their labels."""
        columns = columns_of(path)
        named = label_column(path, data, "labels")
        names = _bit_columns(path, data)
        if not names and named not in columns and data.label_column is None and len(columns) > 2:
            names = [name for name in columns if name != data.text_column]  # of which one is told to be no label
        if not names or data.text_column not in columns:
            cells = rows(path, {"text": data.text_column, "label": named})
            return [
                Labelled(
                    string_cell(text, path, line, data.text_column), _joined(labels, path, line, data, named), line
                )
                for line, (text, labels) in cells
            ]
        wanted = {"text": data.text_column, **{name: name for name in names}}
        return [
            Labelled(
                string_cell(text, path, line, data.text_column),
                _of_bits(dict(zip(names, bits, strict=True)), path, line),
                line,
            )
            for line, (text, *bits) in rows(path, wanted)
        ]

    def inputs(self, path: Path, data: Data) -> list[Labelled]:
        """Return the texts."""
        return Classes().inputs(path, data)

    def labels(self, examples: Sequence[Labelled]) -> tuple[str, ...]:
        """Return the labels, in order."""
        return tuple(sorted({label for example in examples for label in split_labels(example.label)}))

    def unknown(self, example: Labelled, labels: Sequence[str]) -> str:
        """Name what of the label is unknown."""
        return unknown_label(split_labels(example.label), labels)

    def strata(self, examples: Sequence[Labelled]) -> list[str]:
        """Return the rarest label of each text, so that rare labels are in both parts."""
        counts = Counter(label for example in examples for label in split_labels(example.label))
        return [
            min(split_labels(example.label), key=lambda label: (counts[label], label), default="")
            for example in examples
        ]

    def weights(self, examples: Sequence[Labelled]) -> tuple[float, ...]:
        """Return the weights with which the texts that have a label count as much as those that have it not."""
        counts = Counter(label for example in examples for label in split_labels(example.label))
        return tuple(max(1, len(examples) - counts[label]) / counts[label] for label in sorted(counts))

    def lint(self, parts: Parts, counts: Counts | None = None, context: int | None = None) -> list[Finding]:
        """Check texts and labels."""
        return lint(parts, counts, context, own=(_labels, _unseen, _typos))


def _bit_columns(path: Path, data: Data) -> list[str]:
    """Return the columns of 0 and 1, two or more, that are all there is beside the text; none where one is named."""
    columns = columns_of(path)
    others = {name: cell for name, cell in columns.items() if name != data.text_column}
    plain = data.label_column is None and "labels" not in columns and data.text_column in columns
    return list(others) if plain and len(others) > 1 and all(map(_is_bit, others.values())) else []


def _is_bit(cell: object) -> bool:
    return isinstance(cell, str | int) and cell in _BITS


def _joined(cell: object, path: Path, line: int, data: Data, column: str) -> str:
    """Return the labels of a cell (text with separators, or a JSON list) in one spelling."""
    if cell is None:
        cell = ""
    if isinstance(cell, list):
        if not all(isinstance(item, str) for item in cell):
            raise UserError(f"{path}:{line}: {column!r} must hold labels as strings, not {cell!r}; quote them")
        parts = [str(item) for item in cell]
    else:
        parts = string_cell(cell, path, line, column).split(data.label_separator)
    return _spelling([part.strip() for part in parts], path, line)


def _of_bits(bits: dict[str, object], path: Path, line: int) -> str:
    for name, bit in bits.items():
        if not _is_bit(bit):
            raise UserError(
                f"{path}:{line}: the column {name!r} holds {bit!r}, neither 0 nor 1; without a column 'labels' every "
                "column but the text is a label: remove the others"
            )
    return _spelling([name for name, bit in bits.items() if str(int(bit)) == "1"], path, line)  # type: ignore[call-overload]


def _spelling(labels: Sequence[str], path: Path, line: int) -> str:
    for label in labels:
        if SEPARATOR in label:
            raise UserError(f"{path}:{line}: the label {label!r} holds a {SEPARATOR!r}; rename it")
    return SEPARATOR.join(sorted({label for label in labels if label}))


def _exploded(parts: Parts) -> dict[str, list[Labelled]]:
    """Repeat each text for each of its labels, as if each were a class."""
    return {
        name: [replace(example, label=label) for example in part for label in split_labels(example.label)]
        for name, part in parts.items()
    }


def _unseen(parts: Parts) -> Iterator[Finding]:
    return unseen(_exploded(parts))


def _typos(parts: Parts) -> Iterator[Finding]:
    return typos(_exploded(parts))


def _labels(parts: Parts) -> Iterator[Finding]:
    """Find labels that no text has, or every text, or one alone."""
    train = parts.get("train", ())
    counts = Counter(label for example in train for label in split_labels(example.label))
    if train and not counts:
        yield Finding("error", "no-labels", f"None of the {len(train):,} texts to train on has a label.")
    everywhere = [label for label, count in counts.items() if count == len(train)]
    if everywhere and len(everywhere) == len(counts):
        told = ", ".join(map(repr, sorted(everywhere)))
        yield Finding("error", "one-set", f"Every text to train on ({len(train):,}) has the same labels ({told}).")
    elif everywhere:
        yield Finding("warning", "constant-label", f"Every text to train on has the label {everywhere[0]!r}.")
    once = sorted(label for label, count in counts.items() if count == 1)
    if once:
        told = ", ".join(map(repr, once[:3])) + f" and {len(once) - 3:,} more" * (len(once) > 3)
        yield Finding("warning", "single-label", f"Labels of one text of train alone: {told}.")
