"""One class for each text: columns `text` and `label`."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from greffon.core.recipe import Data
from greffon.data.corpora import Labelled, labelled, texts_of
from greffon.data.lint import CLASSES, Finding, lint
from greffon.data.tasks.base import Counts, Parts, columns_of, label_column, unknown_label


class Classes:
    """The form of files for classification."""

    paired: bool = False

    def sign(self, path: Path, data: Data) -> str:
        """A column with the name of the label's."""
        column = label_column(path, data)
        return f"the column {column!r}" if column in columns_of(path) else ""

    def read(self, path: Path, data: Data) -> list[Labelled]:
        """Return the labelled texts."""
        return labelled(path, data.text_column, label_column(path, data))

    def inputs(self, path: Path, data: Data) -> list[Labelled]:
        """Return the texts."""
        return [Labelled(text, "", line) for line, text in enumerate(texts_of(path, data.text_column), start=1)]

    def labels(self, examples: Sequence[Labelled]) -> tuple[str, ...]:
        """Return the classes, in order."""
        return tuple(sorted({example.label for example in examples}))

    def unknown(self, example: Labelled, labels: Sequence[str]) -> str:
        """Name what of the label is unknown."""
        return unknown_label([example.label], labels)

    def strata(self, examples: Sequence[Labelled]) -> list[str]:
        """Return the class of each text."""
        return [example.label for example in examples]

    def weights(self, examples: Sequence[Labelled]) -> tuple[float, ...]:
        """Return the weights with which every class counts the same, as scikit-learn balances them."""
        counts = Counter(example.label for example in examples)
        return tuple(len(examples) / (len(counts) * counts[label]) for label in sorted(counts))

    def lint(self, parts: Parts, counts: Counts | None = None, context: int | None = None) -> list[Finding]:
        """Check texts and classes."""
        return lint(parts, counts, context, own=CLASSES)
