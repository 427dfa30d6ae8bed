"""A score for each text: columns `text` and `score`."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from greffon.core.errors import UserError
from greffon.core.recipe import Data
from greffon.data.corpora import Labelled, string_cell
from greffon.data.lint import Finding, lint
from greffon.data.readers import rows
from greffon.data.tasks.base import Counts, Parts, is_shown, label_column, no_weights
from greffon.data.tasks.classes import Classes

BINS = 5
"""Groups of equal size, by score, of which a held-out part takes its share."""


class Regression:
    """The form of files for regression."""

    paired: bool = False

    def sign(self, path: Path, data: Data) -> str:
        """A column `score`."""
        return "the column 'score'" if is_shown(path, data, "score") else ""

    def read(self, path: Path, data: Data) -> list[Labelled]:
        """Return the texts with their scores."""
        column = label_column(path, data, "score")
        found = rows(path, {"text": data.text_column, "label": column})
        examples = []
        for line, (text, cell) in found:
            score = score_cell(cell, path, line, column)
            examples.append(Labelled(string_cell(text, path, line, data.text_column), repr(score), line, score=score))
        return examples

    def inputs(self, path: Path, data: Data) -> list[Labelled]:
        """Return the texts."""
        return Classes().inputs(path, data)

    def labels(self, examples: Sequence[Labelled]) -> tuple[str, ...]:
        """Return nothing: there is one output, and it has no name."""
        return ()

    def unknown(self, example: Labelled, labels: Sequence[str]) -> str:
        """Name what of the label is unknown."""
        return ""

    def strata(self, examples: Sequence[Labelled]) -> list[str]:
        """Return which fifth of the scores each one is in; equal scores are in the same."""
        scores = np.array([example.score for example in examples], dtype=np.float64)
        edges = np.quantile(scores, np.arange(1, BINS) / BINS) if len(scores) else scores
        return [str(place) for place in np.searchsorted(edges, scores, side="left")]

    def weights(self, examples: Sequence[Labelled]) -> tuple[float, ...]:
        """Refuse."""
        raise no_weights("scores")

    def lint(self, parts: Parts, counts: Counts | None = None, context: int | None = None) -> list[Finding]:
        """Check texts and scores."""
        return lint(parts, counts, context, own=(constant,))


def score_cell(value: object, path: Path, line: int, column: str) -> float:
    """Return the score in a cell; raise a `UserError` if it is no number."""
    try:
        number = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        shown = "empty" if value in ("", None) else f"{value!r}"
        raise UserError(f"{path}:{line}: the score (column {column!r}) is {shown}; write a number, or remove the row")
    return number


def constant(parts: Parts) -> Iterator[Finding]:
    """Find scores that are all the same."""
    train = parts.get("train", ())
    if train and len({example.label for example in train}) == 1:
        message = f"Every text to train on ({len(train):,}) has the score {train[0].label}: nothing can be learned."
        yield Finding("error", "one-score", message)
