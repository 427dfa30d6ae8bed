"""A class or a score for each pair of texts, read as one text (cross) or each on its own (towers).

Together they are read with [SEP] between them, and with segments where the body has some; a body that is causal sees
the first text while it reads the second. Each on its own, the head gets |u − v| and u · v of their two vectors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from greffon.core.choices import LongTexts
from greffon.core.recipe import Recipe
from greffon.data.corpora import Labelled
from greffon.data.tokenizer import Tokenizer
from greffon.objectives.labelled_texts import Encoded, LabelledTexts


class PairTexts(LabelledTexts):
    """Labelled pairs of texts as token ids."""

    ignores: ClassVar[Mapping[str, str]] = {}
    alternatives: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "towers": {"pair_reading": "towers"},
        "cross": {"pair_reading": "cross"},
    }

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, long_texts: LongTexts | None = None) -> None:
        super().__init__(recipe, tokenizer, long_texts)
        self.segmented = recipe.shape.numbers_texts
        self.towers = recipe.graft is None or recipe.graft.reads_apart
        # Where no token is set apart for it, the end of the first text stands between the two.
        self.between = [tokenizer.sep if tokenizer.sep < recipe.vocab_size else tokenizer.end]

    @property
    def most_tokens(self) -> int | None:
        """Number of tokens beyond which a pair is not read: two texts in one row have no windows."""
        return super().most_tokens if self.towers else self.context

    def encode(self, examples: Sequence[Labelled]) -> list[Encoded]:
        """Return the rows and the target of each pair."""
        first = self.tokenizer.encode_many([example.text for example in examples])
        second = self.tokenizer.encode_many([example.second or "" for example in examples])
        made = self._apart if self.towers else self._together
        return [
            replace(made(a, b), label=self.targets.of(example))
            for a, b, example in zip(first, second, examples, strict=True)
        ]

    def _apart(self, first: Sequence[int], second: Sequence[int]) -> Encoded:
        a, b = self.encoded(first), self.encoded(second)
        return Encoded(a.rows + b.rows, a.weights + b.weights, texts=(0,) * len(a.rows) + (1,) * len(b.rows))

    def _together(self, first: Sequence[int], second: Sequence[int]) -> Encoded:
        """Lay out both texts in one row; of what does not fit, the longer one is truncated first."""
        room = max(0, self.room - 1)
        most = max(room // 2, room - len(second)), max(room - room // 2, room - len(first))
        a, b = first[: most[0]], second[: most[1]]
        row = np.array([*self.before, *a, *self.between, *b, *self.after][: self.context], dtype=np.int64)
        begins = len(self.before) + len(a) + 1 if self.segmented else 0
        return Encoded((row,), (max(1, len(a) + len(b)),), second_from=begins)
