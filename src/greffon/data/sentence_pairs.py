"""Pairs of texts for next-sentence prediction, cut from the same windows that other objectives read.

Each document in a window is cut between two of its sentences. Half of the pairs keep their second
text; in the others it is replaced by text of the same length from another document.
"""

from dataclasses import dataclass

import numpy as np

from greffon.core.rng import generator
from greffon.data.batching import Windows
from greffon.data.segmentation import Sentences

TRIES = 16
"""Number of windows in which another document is searched before a pair is dropped."""


@dataclass(frozen=True)
class Pair:
    """Two texts; `follows` is None if there is no second one."""

    first: np.ndarray
    second: np.ndarray
    follows: bool | None


class SentencePairs:
    """The windows of a text as rows of pairs, one pair per document; texts of other documents come from `elsewhere`."""

    def __init__(
        self, windows: Windows, elsewhere: Windows, sentences: Sentences, specials: tuple[int, ...], seed: int
    ) -> None:
        self.windows, self.elsewhere, self.sentences, self.seed = windows, elsewhere, sentences, seed
        self.specials = np.array(specials)

    def rows(self, first: int, count: int) -> list[tuple[Pair, ...]]:
        """Return the rows number `first`, `first` + 1, … of the endless shuffled sequence."""
        return [self._row(self.windows.place(row), row, "row") for row in range(first, first + count)]

    @property
    def count(self) -> int:
        """The rows of one pass."""
        return self.windows.count

    def natural(self, first: int, count: int) -> list[tuple[Pair, ...]]:
        """Return rows of one pass in their natural order; always the same pairs."""
        numbers = range(first, min(first + count, self.count))
        return [self._row(number * self.windows.length, number, "natural") for number in numbers]

    def _row(self, place: int, row: int, use: str) -> tuple[Pair, ...]:
        random = generator(self.seed, "pairs", use, row)
        pairs = []
        for document, tokens in self._texts(self.windows, place):
            cuts = self.sentences.cuts(tokens)
            if not len(cuts):
                pairs.append(Pair(tokens, tokens[:0], None))
                continue
            cut = int(random.choice(cuts))
            first, second = tokens[:cut], tokens[cut:]
            if random.random() < 0.5:
                pairs.append(Pair(first, second, follows=True))
                continue
            other = self._elsewhere(document, len(second), random)
            # No other document was in reach (a tiny text): better no pair than a wrong one.
            pairs.append(Pair(tokens, tokens[:0], None) if other is None else Pair(first, other, follows=False))
        return tuple(pairs)

    def _texts(self, windows: Windows, place: int) -> list[tuple[int, np.ndarray]]:
        """Return the documents in a window, without their start and end tokens."""
        parts = windows.stream.fragments(place, windows.length)
        bare = [(document, tokens[~np.isin(tokens, self.specials)]) for document, tokens in parts]
        return [(document, tokens) for document, tokens in bare if len(tokens)]

    def _elsewhere(self, document: int, length: int, random: np.random.Generator) -> np.ndarray | None:
        """Draw `length` tokens from the beginning of a sentence of another document; fewer if none is long enough.

        Texts that are long enough come first, so that a replaced text cannot be recognized by its length.
        """
        source = self.elsewhere
        own = document if source.stream.store is self.windows.stream.store else None
        longest: np.ndarray | None = None
        for _ in range(TRIES):
            place = int(random.integers(source.count)) * source.length
            for number, tokens in self._texts(source, place):
                cuts = self.sentences.cuts(tokens)
                if number == own or not len(cuts):
                    continue
                enough = cuts[cuts + length <= len(tokens)]
                begin = int(random.choice(enough)) if len(enough) else int(cuts[0])
                found = tokens[begin : begin + length]
                if len(found) == length:
                    return found
                if longest is None or len(found) > len(longest):
                    longest = found
        return longest
