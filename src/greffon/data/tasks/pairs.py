"""A class or a score for each pair of texts: columns `text_a`, `text_b` and `label` or `score`."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from greffon.core.errors import UserError, setting
from greffon.core.recipe import Data
from greffon.data.corpora import Labelled, label_cell, string_cell
from greffon.data.lint import CLASSES, Finding, lint, see
from greffon.data.readers import rows
from greffon.data.tasks.base import LABEL, Counts, Parts, columns_of, is_shown, label_column
from greffon.data.tasks.classes import Classes
from greffon.data.tasks.regression import Regression, constant, score_cell

MOST_GRADES = 10
"""With more different numbers than these for labels, they are probably scores."""


class Pairs:
    """The form of files for pairs of texts; labels are scores in a column `score`, or where `Data.scored` says so."""

    paired: bool = True

    def sign(self, path: Path, data: Data) -> str:
        """The columns of both texts."""
        columns = columns_of(path)
        names = pair_columns(data)
        return f"the columns {names[0]!r} and {names[1]!r}" if all(name in columns for name in names) else ""

    def read(self, path: Path, data: Data) -> list[Labelled]:
        """Return the pairs with their labels or scores."""
        scored = data.scored or is_shown(path, data, "score")
        column = label_column(path, data, "score" if scored else LABEL)
        first, second = pair_columns(data)
        found = []
        for line, (a, b, label) in rows(path, {"pair_a": first, "pair_b": second, "label": column}):
            score = score_cell(label, path, line, column) if scored else None
            name = label_cell(label, path, line, column) if score is None else repr(score)
            texts = string_cell(a, path, line, first), string_cell(b, path, line, second)
            found.append(Labelled(texts[0], name, line, texts[1], score))
        return found

    def inputs(self, path: Path, data: Data) -> list[Labelled]:
        """Return the pairs."""
        first, second = pair_columns(data)
        return [
            Labelled(string_cell(a, path, line, first), "", line, string_cell(b, path, line, second))
            for line, (a, b) in rows(path, {"pair_a": first, "pair_b": second})
        ]

    def labels(self, examples: Sequence[Labelled]) -> tuple[str, ...]:
        """Return the classes, in order; nothing for scores."""
        return () if are_scores(examples) else Classes().labels(examples)

    def unknown(self, example: Labelled, labels: Sequence[str]) -> str:
        """Name what of the label is unknown."""
        if not labels:
            return ""
        return "scores of pairs, but their labels" if example.score is not None else Classes().unknown(example, labels)

    def strata(self, examples: Sequence[Labelled]) -> list[str]:
        """Return the group of each pair, as its label's kind has it."""
        return (Regression() if are_scores(examples) else Classes()).strata(examples)

    def weights(self, examples: Sequence[Labelled]) -> tuple[float, ...]:
        """Return the weights of the classes."""
        return (Regression() if are_scores(examples) else Classes()).weights(examples)

    def lint(self, parts: Parts, counts: Counts | None = None, context: int | None = None) -> list[Finding]:
        """Check both texts, and the labels as their kind is checked."""
        own = (constant,) if are_scores([*parts.get("train", ())]) else (*CLASSES, _numbers)
        whole = {name: [replace(example, text=example.whole) for example in part] for name, part in parts.items()}
        return sorted(
            [*_two_kinds(parts), *_one_side(parts), *lint(whole, counts, context, own=own)],
            key=lambda finding: finding.severity != "error",
        )


def pair_columns(data: Data) -> tuple[str, str]:
    """Return the columns of the two texts."""
    if len(data.pair_columns) != 2:
        raise UserError(
            f"{setting('pair_columns')} takes two names, such as text_a text_b, not {len(data.pair_columns)}"
        )
    return data.pair_columns[0], data.pair_columns[1]


def are_scores(examples: Sequence[Labelled]) -> bool:
    """Whether the labels of pairs are scores."""
    return any(example.score is not None for example in examples)


def _numbers(parts: Parts) -> Iterator[Finding]:
    """Find classes that are probably scores: numbers with a fraction, or a great many."""
    labels = {example.label for example in parts.get("train", ())}
    try:
        values = [float(label) for label in labels]
    except ValueError:
        return
    if len(values) > MOST_GRADES or not all(value.is_integer() for value in values):
        message = "The labels of the pairs are numbers, read as classes; the task regression reads them as scores."
        yield Finding("warning", "number-labels", message)


def _two_kinds(parts: Parts) -> Iterator[Finding]:
    """Find scores in one file and classes in another."""
    kinds = {name: are_scores(part) for name, part in parts.items() if part}
    if len({*kinds.values()}) > 1:
        scored = [name for name, kind in kinds.items() if kind]
        others = [name for name, kind in kinds.items() if not kind]
        message = f"The pairs have scores in {', '.join(scored)} and labels in {', '.join(others)}: give one kind."
        yield Finding("error", "two-kinds", message)


def _one_side(parts: Parts) -> Iterator[Finding]:
    for name, part in parts.items():
        found = [pair for pair in part if bool(pair.text.strip()) != bool((pair.second or "").strip())]
        if found:
            are = "is" if len(found) == 1 else "are"
            message = f"{len(found):,} of the {len(part):,} pairs in {name} {are} empty on one side ({see(found)})."
            yield Finding("warning", "one-side-empty", message)
