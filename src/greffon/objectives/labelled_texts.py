"""Labelled texts as token ids and batches."""

import hashlib
from collections.abc import Sequence

import numpy as np

from greffon.core.config import Recipe
from greffon.data.corpora import Labelled
from greffon.data.splits import Splits
from greffon.data.tokenizer import Tokenizer
from greffon.objectives.batch import Batch
from greffon.objectives.classify import Classify

SCORING_TOKENS = 8192
"""Padded tokens of a batch when texts are only scored: large enough to keep the cores busy."""


class LabelledTexts:
    """Labelled texts as token ids, as much of each as the context holds.

    A text has the special tokens of pretraining: the start token before it for a causal body (unless its tokenizer
    does not use one), [CLS] and [SEP] around it for a bidirectional body.
    """

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.context = recipe.shape.context
        bidirectional = recipe.body == "encoder"
        self.before = [tokenizer.cls] if bidirectional else [tokenizer.start] * tokenizer.starts
        self.after = [tokenizer.sep] if bidirectional else []
        self.room = self.context - len(self.before) - len(self.after)
        self.number = {label: i for i, label in enumerate(recipe.labels)}
        self.objective = Classify(tokenizer.pad, 0.0 if recipe.graft is None else recipe.graft.adversarial_epsilon)

    def encode(self, examples: Sequence[Labelled]) -> list[tuple[np.ndarray, int]]:
        """Return ids and class number of each text."""
        ids = self.tokenizer.encode_many([example.text for example in examples])
        return [
            (self.lay_out(row), self.number.get(example.label, -1)) for row, example in zip(ids, examples, strict=True)
        ]

    def lay_out(self, ids: Sequence[int]) -> np.ndarray:
        """Add the special tokens around a text, which is cut to the context."""
        # Where texts have no start, an empty one still needs a token.
        return np.array([*self.before, *ids[: self.room], *self.after] or [self.tokenizer.start])

    def batch(self, members: Sequence[tuple[np.ndarray, int]]) -> Batch:
        """Build one batch."""
        return self.objective.batch([ids for ids, _ in members], [label for _, label in members])

    def in_order(self, encoded: Sequence[tuple[np.ndarray, int]]) -> tuple[list[Batch], list[int]]:
        """Batch encoded texts by length for scoring; also return the original index of each text."""
        order = sorted(range(len(encoded)), key=lambda i: len(encoded[i][0]))
        batches: list[list[int]] = [[]]
        for i in order:
            # Sorted by length, so the newest text is the longest and sets the padded size.
            if batches[-1] and (len(batches[-1]) + 1) * len(encoded[i][0]) > SCORING_TOKENS:
                batches.append([])
            batches[-1].append(i)
        return [self.batch([encoded[i] for i in members]) for members in batches if members], order

    def digest(self, splits: Splits) -> str:
        """Identify the texts, their labels and the tokenizer."""
        seen = hashlib.sha256(self.tokenizer.digest.encode())
        for part in (splits.train, splits.valid, splits.test):
            for example in part:
                seen.update(f"{len(example.text)} {example.label}\n{example.text}\n".encode())
            seen.update(b"\0")
        return seen.hexdigest()
