"""Spans of a text: a tag for each word, learned and read at the word's first token.

Each word is encoded on its own, with the space before it, so that its tokens are known whatever the tokenizer. They are
those of the whole text wherever the tokenizer cuts between words, too; lists of words that other packages take
(`is_split_into_words`) lack the spaces, and give other tokens. A text that is longer than the context is read in rows
of whole words.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from greffon.core.cancellation import raise_if_cancelled
from greffon.core.recipe import Recipe
from greffon.data.corpora import Labelled
from greffon.data.tasks.tokens import OUTSIDE, spans_of, tags_of_spans, words_of
from greffon.data.tokenizer import Tokenizer
from greffon.nn.model import Model
from greffon.objectives.batch import IGNORE, Batch, Score
from greffon.objectives.classify import Classify
from greffon.objectives.labelled_texts import MOST_WINDOWS, SCORING_TOKENS, LabelledTexts


class TaggedRow(NamedTuple):
    """A row of tokens, where each of its words begins, and which words of the text they are."""

    tokens: np.ndarray
    firsts: np.ndarray
    words: np.ndarray
    tags: np.ndarray
    """Number of each word's tag; IGNORE where it is unknown."""


@dataclass(frozen=True, eq=False)
class TaggedText:
    """A text as rows of tokens."""

    rows: tuple[TaggedRow, ...]
    count: int
    """Number of words."""

    @property
    def length(self) -> int:
        """Number of tokens in all rows."""
        return sum(len(row.tokens) for row in self.rows)

    def some(self, random: np.random.Generator) -> "TaggedText":
        """Draw as many rows as a step of training reads; most texts have fewer anyway."""
        if len(self.rows) <= MOST_WINDOWS:
            return self
        drawn = np.sort(random.permutation(len(self.rows))[:MOST_WINDOWS])
        return replace(self, rows=tuple(self.rows[i] for i in drawn))


@dataclass(frozen=True)
class Tag:
    """Cross-entropy of the tag of each word, at its first token."""

    padding: int

    def batch(self, rows: Sequence[TaggedRow]) -> Batch:
        """Build a batch from rows of tagged words."""
        plain = Classify(self.padding).rows([row.tokens for row in rows])
        targets = np.full(plain.tokens.shape, IGNORE, dtype=np.int64)
        for out, row in zip(targets, rows, strict=True):
            out[row.firsts] = row.tags
        return replace(plain, targets=torch.from_numpy(targets), count=int((targets != IGNORE).sum()))

    def score(self, model: Model, batch: Batch) -> Score:
        """Sum the loss over the words of the batch."""
        logits = model(batch.tokens, batch.document_ids, batch.positions)  # (B, T, C)
        loss = F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), ignore_index=IGNORE, reduction="sum")
        return Score(loss, batch.count)


@dataclass(frozen=True, eq=False)
class ScoringTags:
    """Texts whose rows are computed in batches of similar length."""

    texts: Sequence[TaggedText]
    members: Sequence[Sequence[tuple[int, int]]]
    """For each batch, the text and the row of each of its rows."""
    batches: Sequence[Batch]


class TaggedTexts:
    """Texts with marked spans as token ids."""

    ignores: ClassVar[Mapping[str, str]] = {
        **LabelledTexts.ignores,
        **dict.fromkeys(
            ("pooling", "concat_embeddings", "adversarial_epsilon", "long_texts", "head_init"),
            "a head for spans reads every word; leave it out",
        ),
    }
    alternatives: ClassVar[Mapping[str, Mapping[str, str]]] = {}
    most_tokens: int | None = None  # they are read in rows of whole words

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer) -> None:
        self._plain = LabelledTexts(recipe, tokenizer)
        self.tokenizer, self.digest = tokenizer, self._plain.digest
        self.numbers = {tag: i for i, tag in enumerate(recipe.labels)}
        self.objective = Tag(tokenizer.pad)

    def encode(self, examples: Sequence[Labelled]) -> list[TaggedText]:
        """Return the rows of each text, with a tag for each word."""
        split = [(example, words_of(example.text)) for example in examples]
        pieces = {_piece(example.text, word): None for example, words in split for word in words}
        known = dict(zip(pieces, self.tokenizer.encode_many(list(pieces)), strict=True))
        out = []
        for example, words in split:
            tags = tags_of_spans(words, spans_of(example.label))
            ids = [known[_piece(example.text, word)][: max(1, self._plain.room)] for word in words]
            numbers = [self.numbers.get(tag, IGNORE) for tag in tags]
            out.append(TaggedText(tuple(self._rows(ids, numbers)), len(words)))
        return out

    def _rows(self, words: Sequence[Sequence[int]], tags: Sequence[int]) -> list[TaggedRow]:
        """Lay out words in as few rows as hold them; a word without tokens is in none."""
        groups: list[list[int]] = [[]]
        room = self._plain.room
        for i, ids in enumerate(words):
            if len(ids) > room and groups[-1]:
                groups.append([])
                room = self._plain.room
            if ids:
                groups[-1].append(i)
                room -= len(ids)
        rows = []
        for group in groups:
            starts = list(itertools.accumulate((len(words[i]) for i in group), initial=len(self._plain.before)))
            tokens = self._plain.lay_out([id for i in group for id in words[i]])
            rows.append(
                TaggedRow(tokens, np.array(starts[:-1], dtype=np.int64), np.array(group, dtype=np.int64),
                          np.array([tags[i] for i in group], dtype=np.int64))
            )  # fmt: skip
        return rows

    def batch(self, members: Sequence[TaggedText]) -> Batch:
        """Build one batch."""
        return self.objective.batch([row for text in members for row in text.rows])

    def for_scoring(self, encoded: Sequence[TaggedText]) -> ScoringTags:
        """Batch all rows of texts by length."""
        every = [(i, j) for i, text in enumerate(encoded) for j in range(len(text.rows))]
        every.sort(key=lambda place: len(encoded[place[0]].rows[place[1]].tokens))
        groups: list[list[tuple[int, int]]] = [[]]
        for i, j in every:
            if groups[-1] and (len(groups[-1]) + 1) * len(encoded[i].rows[j].tokens) > SCORING_TOKENS:
                groups.append([])
            groups[-1].append((i, j))
        groups = [members for members in groups if members]
        batches = [self.objective.batch([encoded[i].rows[j] for i, j in members]) for members in groups]
        return ScoringTags(encoded, groups, batches)

    @torch.no_grad()
    def outputs(self, model: Model, texts: ScoringTags) -> list[np.ndarray]:
        """Return the probability of each tag for each word of each text: (words, C); a word without tokens is O."""
        device = next(model.parameters()).device
        model.eval()
        found = []
        for text in texts.texts:
            blank = np.zeros((text.count, len(self.numbers)))
            blank[:, self.numbers.get(OUTSIDE, 0)] = 1.0
            found.append(blank)
        for members, batch in zip(texts.members, texts.batches, strict=True):
            raise_if_cancelled()
            moved = batch.to(device)
            probabilities = model(moved.tokens, moved.document_ids, moved.positions).softmax(dim=-1).cpu().numpy()
            for (i, j), row in zip(members, probabilities, strict=True):
                words = texts.texts[i].rows[j]
                found[i][words.words] = row[words.firsts]
        return found


def _piece(text: str, word: tuple[int, int]) -> str:
    """Return a word with the space before it, if there is one."""
    begin, end = word
    return " " * (begin > 0 and text[begin - 1].isspace()) + text[begin:end]
