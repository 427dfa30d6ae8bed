"""Two views of one document: what a contrastive objective tells from the views of other documents.

The rule, by the number of tokens n of a document and the length L of a span:

- n ≥ 2 L: two spans of L tokens that do not overlap, anywhere in the document;
- 2 SHORTEST ≤ n < 2 L: the document is cut in two near its middle;
- 2 ≤ n < 2 SHORTEST: the whole text twice, each time without some of its tokens, drawn at random; the views are copies
  of one text, and nothing but its words is to be learnt from them;
- n < 2: no two views, so the document is left out.

In training each view loses a share of its tokens, drawn anew in each pass, so that documents are not learnt by heart.

What a row holds depends on (seed, row) only.
"""

from dataclasses import dataclass

import numpy as np

from greffon.core.errors import UserError, setting
from greffon.core.rng import derive, generator, shuffled
from greffon.data.batching import Stream
from greffon.data.token_store import TokenStore

SHORTEST = 8
"""Tokens below which half a document says too little: the whole is then read twice."""
DELETED = 0.3
"""Share of the tokens of a short text that each of its two views leaves out."""
_MIDDLE = (0.35, 0.65)
"""Where a document that is too short for two whole spans is cut, as a share of its length."""


@dataclass(frozen=True)
class Views:
    """Two views of one document, as token ids without special tokens."""

    first: np.ndarray
    second: np.ndarray
    copies: bool = False
    """Whether both were made from the same tokens."""


class Spans:
    """The documents of a stream as pairs of views, shuffled anew for every pass."""

    def __init__(self, stream: Stream, length: int, seed: int, token_dropout: float = 0.0) -> None:
        self.store, self.length, self.seed, self.token_dropout = stream.store, length, seed, token_dropout
        offsets = np.asarray(stream.store.offsets)
        ends = stream.starts + np.diff(stream.before)
        pieces = zip(np.searchsorted(offsets, stream.starts), np.searchsorted(offsets, ends), strict=True)
        documents = np.concatenate([np.arange(first, last) for first, last in pieces])
        self.documents = with_two_views(stream.store, documents)

    @property
    def count(self) -> int:
        """The rows of one pass: one for each document."""
        return len(self.documents)

    def rows(self, first: int, count: int) -> list[Views]:
        """Return the rows number `first`, `first` + 1, … of the endless shuffled sequence."""
        return [self._thinned(self._document(row), row) for row in range(first, first + count)]

    def natural(self, first: int, count: int) -> list[Views]:
        """Return rows of one pass in the order of the documents, always with the same views."""
        numbers = range(first, min(first + count, self.count))
        return [self._views(int(self.documents[number]), -1 - number) for number in numbers]

    def _thinned(self, document: int, row: int) -> Views:
        views = self._views(document, row)
        if views.copies or not self.token_dropout:
            return views
        random = generator(self.seed, "token dropout", row)
        first, second = (_without_some(view, self.token_dropout, random) for view in (views.first, views.second))
        return Views(first, second)

    def _document(self, row: int) -> int:
        pass_, index = divmod(row, self.count)
        place = shuffled(np.array([index]), self.count, derive(self.seed, "spans", pass_))
        return int(self.documents[int(place[0])])

    def _views(self, document: int, row: int) -> Views:
        tokens = self.store.document(document)[1:-1]
        return two_views(tokens, self.length, generator(self.seed, "views", row))


def with_two_views(store: TokenStore, documents: np.ndarray) -> np.ndarray:
    """Keep those of the documents, by their numbers, that are long enough for two views; one at least must be."""
    offsets = np.asarray(store.offsets)
    sizes = offsets[documents + 1] - offsets[documents] - 2  # without start and end
    kept: np.ndarray = documents[sizes >= 2]
    if not len(kept):
        raise UserError(
            "no document has two tokens or more, so none gives two views to contrast; "
            f"give longer texts, one on each line, or choose {setting('objective', 'masked')}"
        )
    return kept


def two_views(tokens: np.ndarray, length: int, random: np.random.Generator) -> Views:
    """Draw two views of the tokens of one document."""
    size = len(tokens)
    assert size >= 2, "such a document is left out"
    if size >= 2 * length:
        spare = size - 2 * length
        before, between = np.sort(random.integers(0, spare + 1, 2))
        second = length + int(between)
        views = tokens[int(before) : int(before) + length], tokens[second : second + length]
    elif size < 2 * SHORTEST:
        return Views(_without_some(tokens, DELETED, random), _without_some(tokens, DELETED, random), copies=True)
    else:
        cut = round(size * random.uniform(*_MIDDLE))
        views = tokens[:cut][-length:], tokens[cut:][:length]
    return Views(*(views if random.random() < 0.5 else views[::-1]))


def _without_some(tokens: np.ndarray, share: float, random: np.random.Generator) -> np.ndarray:
    """Leave out a share of the tokens at random, but never all of them."""
    kept = random.random(len(tokens)) >= share
    kept[random.integers(len(tokens))] = True
    return tokens[kept]


def without_shared(views: Views, common: np.ndarray, random: np.random.Generator) -> Views:
    """Delete from one of the views each rarer token that stands in both: a name would give the pair away.

    `common[token]` says which tokens are so frequent that they give nothing away. A view keeps at least a token.
    Copies of one text stay as they are.
    """
    if views.copies:
        return views
    shared = np.intersect1d(views.first, views.second)
    shared = shared[~common[shared]]
    from_first = shared[random.random(len(shared)) < 0.5]
    from_second = np.setdiff1d(shared, from_first)
    return Views(_unless_empty(views.first, from_first), _unless_empty(views.second, from_second))


def _unless_empty(tokens: np.ndarray, unwanted: np.ndarray) -> np.ndarray:
    kept = tokens[~np.isin(tokens, unwanted)]
    return kept if len(kept) else tokens
