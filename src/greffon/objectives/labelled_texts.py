"""Labelled texts as token ids and batches."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from greffon.core.choices import Answer, Link, LongTexts, Task
from greffon.core.recipe import Recipe
from greffon.data.corpora import Labelled
from greffon.data.splits import Splits
from greffon.data.tokenizer import Tokenizer
from greffon.nn.model import Model
from greffon.nn.windows import TextWindows
from greffon.objectives.batch import Batch
from greffon.objectives.classify import Classify, ScoringTexts, text_logits
from greffon.objectives.tasks.base import Targets
from greffon.objectives.tasks.classes import ClassTargets
from greffon.objectives.tasks.multilabel import LabelTargets
from greffon.objectives.tasks.regression import ScoreTargets

TARGETS: dict[Answer, Callable[[Recipe], Targets]] = {
    "classes": ClassTargets.from_recipe,
    "multilabel": LabelTargets.from_recipe,
    "regression": ScoreTargets.from_recipe,
}
"""What is learned from the labels of whole texts, by their kind."""

LINKS: dict[Task, Link] = {"classes": "softmax", "multilabel": "sigmoid"}
"""What makes probabilities of logits, for the tasks whose heads start as a probe; all others start at random."""

MOST_WINDOWS = 8
"""Windows of a text that a step of training reads at most, so that its memory is bounded."""
SCORING_TOKENS = 8192
"""Padded tokens of a batch when texts are only scored: large enough to keep the cores busy."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """A text as rows of token ids, each with the special tokens: one, or several windows of a long text."""

    rows: tuple[np.ndarray, ...]
    weights: tuple[int, ...]
    """Number of text tokens of each row; 1 where there is none."""
    label: Any = None
    """The target; None for a text that is only read."""
    texts: tuple[int, ...] = ()
    """For each row, whether it belongs to the first (0) or the second text (1) of a pair; empty for a single text."""
    second_from: int = 0
    """Where in its only row the second text of a pair begins; 0 for none."""

    @property
    def length(self) -> int:
        """Number of tokens in all rows."""
        return sum(map(len, self.rows))

    def some(self, random: np.random.Generator) -> "Encoded":
        """Draw as many windows as a step of training reads; most texts have fewer anyway."""
        if len(self.rows) <= MOST_WINDOWS:
            return self
        drawn = np.sort(random.permutation(len(self.rows))[:MOST_WINDOWS])
        if self.texts:  # as many of each text of a pair
            sides = [np.flatnonzero(np.array(self.texts) == side) for side in (0, 1)]
            few = [np.sort(random.permutation(side)[: MOST_WINDOWS // 2]) for side in sides]
            drawn = np.concatenate(few)
        return replace(
            self,
            rows=tuple(self.rows[i] for i in drawn),
            weights=tuple(self.weights[i] for i in drawn),
            texts=tuple(self.texts[i] for i in drawn) if self.texts else (),
        )


class LabelledTexts:
    """Labelled texts as token ids: whole, in windows of the context, or as much of each as the context holds.

    A text has the special tokens of pretraining: the start token before it for a causal body (unless its tokenizer
    does not use one), [CLS] and [SEP] around it for a bidirectional body. So has each window of a text.
    """

    ignores: ClassVar[Mapping[str, str]] = {"pair_reading": "it is for pairs of texts; leave it out"}
    """Settings of a head that have no effect, and why."""
    alternatives: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    """Settings of each head that is tried on validation where none of them was asked for, by its name."""

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer, long_texts: LongTexts | None = None) -> None:
        self.tokenizer = tokenizer
        self.context = recipe.shape.context
        bidirectional = recipe.body == "encoder"
        self.before = [tokenizer.cls] if bidirectional else [tokenizer.start] * tokenizer.starts
        self.after = [tokenizer.sep] if bidirectional else []
        self.room = max(0, self.context - len(self.before) - len(self.after))
        grafted = "windows" if recipe.graft is None else recipe.graft.long_texts
        self.windows = (long_texts or grafted) == "windows"
        self.targets: Targets = TARGETS.get(recipe.answer, ClassTargets.from_recipe)(recipe)
        epsilon = 0.0 if recipe.graft is None else recipe.graft.adversarial_epsilon
        self.objective = Classify(tokenizer.pad, epsilon, self.targets)

    @property
    def most_tokens(self) -> int | None:
        """Number of tokens beyond which a text is not read; None if all of it is."""
        return None if self.windows else self.context

    def encode(self, examples: Sequence[Labelled]) -> list[Encoded]:
        """Return the rows and the target of each text."""
        ids = self.tokenizer.encode_many([example.text for example in examples])
        return [self.encoded(row, self.targets.of(example)) for row, example in zip(ids, examples, strict=True)]

    def encoded(self, ids: Sequence[int] | np.ndarray, label: Any = None) -> Encoded:
        """Lay out a text as one row, or as windows."""
        parts = self.parts(ids)
        return Encoded(tuple(map(self.lay_out, parts)), tuple(max(1, len(part)) for part in parts), label)

    def parts(self, ids: Sequence[int] | np.ndarray) -> list[np.ndarray]:
        """Cut a text into as few parts as fit, of nearly equal length; or truncate it to one."""
        tokens = np.asarray(ids, dtype=np.int64)
        if len(tokens) <= self.room or not (self.windows and self.room):
            return [tokens[: self.room]]
        return np.array_split(tokens, -(-len(tokens) // self.room))

    def lay_out(self, ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """Add the special tokens around a text, which is truncated to the context."""
        # Where texts have no start, an empty one still needs a token.
        return np.array([*self.before, *ids[: self.room], *self.after] or [self.tokenizer.start], dtype=np.int64)

    def batch(self, members: Sequence[Encoded]) -> Batch:
        """Build one batch."""
        windows = None if all(len(text.rows) == 1 for text in members) else _windows(members)
        rows = [row for text in members for row in text.rows]
        batch = self.objective.batch(rows, [text.label for text in members], windows)
        return replace(batch, segments=segments_of(batch, [text.second_from for text in members]))

    def for_scoring(self, encoded: Sequence[Encoded]) -> ScoringTexts:
        """Batch all windows of texts by length. A row that stands in several texts is computed once."""
        rows = {id(row): row for text in encoded for row in text.rows}
        begins = {id(text.rows[0]): text.second_from for text in encoded}
        lengths = np.array([len(row) for row in rows.values()])
        order = np.argsort(lengths, kind="stable")
        unique = list(rows.values())
        batches: list[list[int]] = [[]]
        for i in order:
            # Sorted by length, so the newest row is the longest and sets the padded size.
            if batches[-1] and (len(batches[-1]) + 1) * lengths[i] > SCORING_TOKENS:
                batches.append([])
            batches[-1].append(int(i))
        place = dict(zip(rows, np.argsort(order, kind="stable").tolist(), strict=True))
        made = []
        for members in batches:
            if members:
                batch = self.objective.rows([unique[i] for i in members])
                made.append(
                    replace(batch, segments=segments_of(batch, [begins.get(id(unique[i]), 0) for i in members]))
                )
        return ScoringTexts(
            made,
            torch.tensor([place[id(row)] for text in encoded for row in text.rows], dtype=torch.long),
            _windows(encoded),
            self.targets.stack([text.label for text in encoded if text.label is not None]),
        )

    def outputs(self, model: Model, texts: ScoringTexts) -> Sequence[np.ndarray]:
        """Return what a model says of each text: the probability of each class or label, or a score."""
        found: np.ndarray = self.targets.outputs(text_logits(model, texts)).numpy().astype(np.float64)
        return list(found)

    def digest(self, splits: Splits) -> str:
        """Identify the texts, their labels and the tokenizer."""
        seen = hashlib.sha256(self.tokenizer.digest.encode())
        for part in (splits.train, splits.valid, splits.test):
            for example in part:
                seen.update(f"{len(example.text)} {example.label}\n{example.whole}\n".encode())
            seen.update(b"\0")
        return seen.hexdigest()


def _windows(members: Sequence[Encoded]) -> TextWindows:
    """Say which text each row belongs to; the two texts of a pair are two."""
    each = 2 if any(text.texts for text in members) else 1
    numbers = [each * i + own for i, text in enumerate(members) for own in text.texts or [0] * len(text.rows)]
    return TextWindows(
        torch.tensor(numbers, dtype=torch.long),
        torch.tensor([float(weight) for text in members for weight in text.weights]),
        each,
    )


def segments_of(batch: Batch, begins: Sequence[int]) -> Tensor | None:
    """Return 1 for each token from where the second text of a pair begins, 0 for others: (B, T); None for no pairs."""
    if not any(begins):
        return None
    columns = torch.arange(batch.tokens.shape[1])
    return (columns >= torch.tensor(begins).unsqueeze(1)).long()
