"""Which tokens a step sees: packed windows over a token store, and batches of similar length.

Everything is a function of (seed, step): any step can be looked up without the ones before it.
"""

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np

from greffon.core.rng import derive, generator, shuffled
from greffon.data.token_store import TokenStore

Row = TypeVar("Row")

POOL = 16
"""Number of batches whose examples are sorted together: more mean less padding, fewer mean better shuffling."""


def held_out(documents: int, share: float, seed: int) -> np.ndarray:
    """Draw the documents kept for validation, at least one, in order."""
    count = min(max(1, round(documents * share)), documents - 1)
    return np.sort(shuffled(np.arange(count), documents, derive(seed, "held out")))


class Stream:
    """Some documents of a store, concatenated to one sequence of tokens."""

    def __init__(self, store: TokenStore, starts: np.ndarray, ends: np.ndarray) -> None:
        self.store = store
        self.starts = starts
        self.before = np.concatenate(([0], np.cumsum(ends - starts)))  # tokens before each piece

    @classmethod
    def whole(cls, store: TokenStore) -> "Stream":
        """Read every document."""
        return cls(store, np.asarray(store.offsets[:1]), np.asarray(store.offsets[-1:]))

    @classmethod
    def only(cls, store: TokenStore, documents: np.ndarray) -> "Stream":
        """Read the given documents."""
        return cls(store, np.asarray(store.offsets[documents]), np.asarray(store.offsets[documents + 1]))

    @classmethod
    def without(cls, store: TokenStore, documents: np.ndarray) -> "Stream":
        """Read all documents but the given ones, which are sorted."""
        starts = np.concatenate((store.offsets[:1], store.offsets[documents + 1]))
        ends = np.concatenate((store.offsets[documents], store.offsets[-1:]))
        kept = ends > starts
        return cls(store, starts[kept], ends[kept])

    def __len__(self) -> int:
        return int(self.before[-1])

    def read(self, start: int, length: int) -> np.ndarray:
        """Return up to `length` tokens from position `start`."""
        end = min(start + length, len(self))
        piece = int(np.searchsorted(self.before, start, side="right")) - 1
        parts = []
        while start < end:
            first = self.starts[piece] + start - self.before[piece]
            taken = min(end, int(self.before[piece + 1])) - start
            parts.append(self.store.tokens[first : first + taken])
            start, piece = start + taken, piece + 1
        return np.concatenate(parts) if parts else np.empty(0, self.store.tokens.dtype)

    def fragments(self, start: int, length: int) -> list[tuple[int, np.ndarray]]:
        """Return the same tokens, split at the ends of documents, each part with the number of its document."""
        tokens = self.read(start, length)
        piece = np.searchsorted(self.before, start + np.arange(len(tokens)), side="right") - 1
        places = self.starts[piece] + start + np.arange(len(tokens)) - self.before[piece]
        documents = np.searchsorted(self.store.offsets, places, side="right") - 1
        cuts = np.flatnonzero(np.diff(documents)) + 1
        return [(int(documents[first]), part) for first, part in zip((0, *cuts), np.split(tokens, cuts), strict=True)]


class Windows:
    """A stream cut into windows of `length` + 1 tokens, shuffled anew for every pass.

    Each pass also shifts where the cuts fall, as far as the tokens left over by whole windows allow.
    """

    def __init__(self, stream: Stream, length: int, seed: int) -> None:
        self.stream, self.length, self.seed = stream, length, seed
        self.count = max(1, (len(stream) - 1) // length)

    def rows(self, first: int, count: int) -> list[np.ndarray]:
        """Return the rows number `first`, `first` + 1, … of the endless shuffled sequence."""
        return [self.stream.read(self.place(row), self.length + 1) for row in range(first, first + count)]

    def place(self, row: int) -> int:
        """Return the position in the stream at which a row of the endless shuffled sequence begins."""
        pass_, index = divmod(row, self.count)
        key = derive(self.seed, "pass", pass_)
        window = int(shuffled(np.array([index]), self.count, key)[0])
        # The shift keeps the last window inside the stream as far as the stream allows.
        room = len(self.stream) - 1 - self.count * self.length
        shift = key % (room + 1) if room > 0 else 0
        return window * self.length + shift

    def natural(self, first: int, count: int) -> list[np.ndarray]:
        """Return windows of one pass in their natural order."""
        numbers = range(first, min(first + count, self.count))
        return [self.stream.read(number * self.length, self.length + 1) for number in numbers]


class Rows(Protocol[Row]):
    """An endless sequence of rows with random access."""

    def rows(self, first: int, count: int) -> list[Row]:
        """Return the rows number `first`, `first` + 1, …"""
        ...


class Cut(Rows[Row], Protocol[Row]):
    """A text cut into `count` rows, which also have a natural order."""

    @property
    def count(self) -> int:
        """The rows of one pass."""
        ...

    def natural(self, first: int, count: int) -> list[Row]:
        """Return rows of one pass in their natural order."""
        ...


def sample(cut: Cut[Row], limit: int) -> list[Row]:
    """Return at most `limit` rows, spread evenly over the text."""
    numbers = np.unique(np.linspace(0, cut.count - 1, min(limit, cut.count)).astype(int))
    return [row for number in numbers for row in cut.natural(int(number), 1)]


class Mixture(Generic[Row]):
    """Rows of several texts in fixed proportion: `weights` rows of each in every cycle."""

    def __init__(self, parts: Sequence[Rows[Row]], weights: Sequence[int], seed: int) -> None:
        self.parts, self.weights, self.seed = parts, weights, seed
        self.before = np.concatenate(([0], np.cumsum(weights)))

    def rows(self, first: int, count: int) -> list[Row]:
        """Return the rows number `first`, `first` + 1, … of the endless sequence."""
        out: list[Row] = []
        cycle_length = int(self.before[-1])
        for row in range(first, first + count):
            cycle, place = divmod(row, cycle_length)
            key = derive(self.seed, "mix", cycle)
            slot = int(shuffled(np.array([place]), cycle_length, key)[0])
            part = int(np.searchsorted(self.before, slot, side="right")) - 1
            number = cycle * self.weights[part] + slot - int(self.before[part])
            out += self.parts[part].rows(number, 1)
        return out


def length_buckets(lengths: Sequence[int], batch_size: int, seed: int, pass_: int) -> list[np.ndarray]:
    """Cut examples into batches of similar length: one pass, every example exactly once.

    Examples are shuffled, sorted by length inside pools of some batches, and cut; then the batches
    are shuffled. So padding is small, and the order still random.

    >>> sorted(len(batch) for batch in length_buckets([5, 1, 9, 2, 7], batch_size=2, seed=0, pass_=0))
    [1, 2, 2]
    """
    random = generator(seed, "buckets", pass_)
    order = random.permutation(len(lengths))
    size = np.asarray(lengths)
    batches = []
    for start in range(0, len(order), batch_size * POOL):
        pool = order[start : start + batch_size * POOL]
        pool = pool[np.argsort(size[pool], kind="stable")]
        batches += [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
    return [batches[i] for i in random.permutation(len(batches))]
