"""The heap: all texts of a session, their vectors, their clusters, and which of them say the same."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from greffon.core.rng import generator
from greffon.data.corpora import Labelled, normal
from greffon.labelling.clusters import Clusters, centre_of, unit

Text = str | tuple[str, str]
"""A text to label, or a pair of texts."""
_SAMPLE = 20_000
_MARKS = re.compile(r"[\W_]+")


def same_key(text: str) -> str:
    """Return the letters and digits of a text: texts that differ in nothing else say the same.

    >>> same_key("A good  book!") == same_key("a good book.")
    True
    """
    plain = normal(text)
    return _MARKS.sub("", plain) or plain


def whole(text: Text) -> str:
    """Return all that is read of a text or a pair."""
    return "\n".join(parts_of(text))


def parts_of(text: Text) -> tuple[str, ...]:
    """Return a text alone, or both texts of a pair."""
    return (text,) if isinstance(text, str) else text


def _key(text: Text) -> str:
    keys = [same_key(part) for part in parts_of(text)]
    return "\n".join(keys) if any(keys) else ""


@dataclass(frozen=True)
class Heap:
    """The texts to choose from."""

    texts: Sequence[Text]
    vectors: np.ndarray
    """Frozen vector of each text or pair, (N, W); may be memory-mapped."""
    clusters: Sequence[Clusters]
    """Partitions, from coarse to fine."""
    seed: int = 0

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def centre(self) -> np.ndarray:
        """The mean of all vectors: unlabelled text tells where the middle is better than a few labelled texts do."""
        return centre_of(self.vectors)

    @cached_property
    def moment(self) -> np.ndarray:
        """Mean outer product of the centred vectors of length one, (W, W), of a sample of the texts."""
        some = generator(self.seed, "moment").permutation(len(self))[:_SAMPLE]
        texts = unit(self.vectors[np.sort(some)], self.centre)
        found: np.ndarray = texts.T @ texts / len(texts)
        return found

    @cached_property
    def groups(self) -> np.ndarray:
        """Index of the first text that says the same, for each text; -1 for a blank one."""
        first: dict[str, int] = {}
        keys = (_key(text) for text in self.texts)
        return np.array([first.setdefault(key, index) if key else -1 for index, key in enumerate(keys)], np.int64)

    @cached_property
    def index(self) -> dict[Text, int]:
        """Index of each text; of equal ones, the first."""
        return {text: index for index, text in reversed(list(enumerate(self.texts)))}

    def example(self, text: int) -> Labelled:
        """Return a text or a pair as files have it, without a label."""
        first, second = (*parts_of(self.texts[text]), None)[:2]
        return Labelled(first or "", "", text, second)

    def aside(self, share: float) -> np.ndarray:
        """Return the texts that are kept aside, in the random order in which they are asked: one in 1 / share.

        Texts that say the same are kept aside together, and only the first of them is asked.
        """
        firsts = np.flatnonzero(self.groups == np.arange(len(self)))
        return generator(self.seed, "aside").permutation(firsts)[: round(share * len(firsts))]
