"""The interface of a task's files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from greffon.core.errors import UserError, did_you_mean, setting
from greffon.core.recipe import Data
from greffon.data.corpora import Labelled
from greffon.data.lint import Finding
from greffon.data.readers import SUFFIXES, first_row, suffix_of

Parts = Mapping[str, Sequence[Labelled]]
"""The examples of train, valid and test."""
Counts = Mapping[str, Sequence[int]]
"""The number of tokens of each example, by part."""


class Form(Protocol):
    """How the files of one task are read, divided and checked."""

    paired: bool
    """Whether an example is two texts."""

    def sign(self, path: Path, data: Data) -> str:
        """Return what shows that a file is of this form; empty if nothing does."""
        ...

    def read(self, path: Path, data: Data) -> list[Labelled]:
        """Return the examples of a file; what is broken is named with its line."""
        ...

    def inputs(self, path: Path, data: Data) -> list[Labelled]:
        """Return the texts of a file that needs no labels."""
        ...

    def labels(self, examples: Sequence[Labelled]) -> tuple[str, ...]:
        """Return the names of the outputs that a head needs; empty for a single score."""
        ...

    def unknown(self, example: Labelled, labels: Sequence[str]) -> str:
        """Say what of an example's label a head with these outputs did not learn; empty if it learned all of it."""
        ...

    def strata(self, examples: Sequence[Labelled]) -> list[str]:
        """Return the group of each example; a part that is held out takes its share of each group."""
        ...

    def weights(self, examples: Sequence[Labelled]) -> tuple[float, ...]:
        """Return a weight for each output, inverse to its frequency; a `UserError` where that means nothing."""
        ...

    def lint(self, parts: Parts, counts: Counts | None = None, context: int | None = None) -> list[Finding]:
        """Return likely problems, errors first."""
        ...


def unknown_label(own: Sequence[str], known: Sequence[str]) -> str:
    """Name the first label that is not among the known ones; empty if all are.

    >>> unknown_label(["god"], ["bad", "good"])
    "the label 'god'; did you mean 'good'?"
    """
    return next((f"the label {label!r}{did_you_mean(label, known)}" for label in own if label not in known), "")


def no_weights(task: str) -> UserError:
    """Return the error for weights of a task that has no classes."""
    return UserError(f"{setting('class_weights')} is for classes and labels, and this is for {task}; leave it out")


def columns_of(path: Path) -> dict[str, object]:
    """Return the columns of a table with the cells of its first row; nothing for other files."""
    if not path.name.endswith(SUFFIXES) or suffix_of(path) == ".txt":
        return {}
    return first_row(path)


LABEL = "label"
"""The usual column of a class, and of any task's labels where its own usual column is absent."""


def label_column(path: Path, data: Data, usual: str = LABEL) -> str:
    """Return the column with the labels: the one that the user named, the task's usual one, or else `label`."""
    if data.label_column is not None:
        return data.label_column
    columns = columns_of(path)
    return LABEL if usual not in columns and LABEL in columns else usual


def is_shown(path: Path, data: Data, usual: str) -> bool:
    """Whether the column shows the task: it is there, and the user named it, or named none and there is no `label`."""
    columns = columns_of(path)
    return usual in columns and (data.label_column == usual or (data.label_column is None and LABEL not in columns))
