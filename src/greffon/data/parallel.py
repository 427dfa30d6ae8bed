"""Sentences and their translations as token ids, and the batches that a step of training sees.

Two files aligned line by line, or two columns of a table. Pairs with an empty side are left out and
long sentences cut, each with a counted warning. It does not know models.
"""

import hashlib
import warnings
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np

from greffon.core.errors import SettingWarning, UserError, setting
from greffon.core.recipe import Data
from greffon.core.rng import generator
from greffon.data.batching import held_out
from greffon.data.corpora import column_pairs, find_files, line_pairs
from greffon.data.tokenizer import Tokenizer

AT_ONCE = 10_000
"""Number of pairs that are encoded at a time: enough for all cores, few enough for the memory."""


class Side:
    """One side of all pairs as one flat array, which needs a few bytes per token."""

    def __init__(self, rows: Iterable[Sequence[int]] = ()) -> None:
        self.tokens, self.offsets = array("i"), array("q", [0])
        self.extend(rows)

    def extend(self, rows: Iterable[Sequence[int]]) -> None:
        """Add sentences at the end."""
        for row in rows:
            self.tokens.extend(row)
            self.offsets.append(len(self.tokens))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, i: int) -> np.ndarray:
        return np.array(self.tokens[self.offsets[i] : self.offsets[i + 1]], dtype=np.int64)

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each sentence."""
        return np.diff(np.frombuffer(self.offsets, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class Bitext:
    """Pairs of token ids, without start and end."""

    source: Side
    target: Side
    digest: str  # the identity of the text and its tokenizer

    def __len__(self) -> int:
        return len(self.source)

    @property
    def sizes(self) -> tuple[np.ndarray, np.ndarray]:
        """Number of tokens of each source and each target, with the end token."""
        return self.source.lengths + 1, self.target.lengths + 1

    def only(self, members: Iterable[int]) -> "Bitext":
        """Return a bitext of some of the pairs."""
        members = list(members)
        source, target = (Side(side[i].tolist() for i in members) for side in (self.source, self.target))
        return Bitext(source, target, self.digest)

    def at_most(self, tokens: int) -> "Bitext":
        """Return evenly spaced pairs whose targets have at most this many tokens in all."""
        count = max(1, min(len(self), int(tokens / self.sizes[1].mean())))
        return self.only(np.unique(np.linspace(0, len(self) - 1, count).astype(int)).tolist())

    def pairs(self, members: Iterable[int]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return some of the pairs."""
        return [(self.source[i], self.target[i]) for i in members]


def open_pairs(data: Data, tokenizer: Tokenizer, context: int, share: float, seed: int) -> tuple[Bitext, Bitext]:
    """Return the training pairs and the validation pairs: those of the user, or a share of the training pairs."""
    if tokenizer.languages is not None:
        raise UserError("the tokenizer marks languages by tokens, with which nothing is trained here; take another one")
    whole = encode_pairs(training_pairs(data), tokenizer, context)
    if data.valid or data.valid_source:
        return whole, encode_pairs(valid_pairs(data), tokenizer, context, "the validation pairs")
    if len(whole) < 2:
        raise UserError(
            "there is a single pair, so none can be held out; "
            f"give {setting('valid_source')} and {setting('valid_target')}"
        )
    chosen = held_out(len(whole), share, seed)
    return whole.only(np.setdiff1d(np.arange(len(whole)), chosen).tolist()), whole.only(chosen.tolist())


def training_pairs(data: Data) -> Iterator[tuple[str, str]]:
    """Read the training pairs."""
    return _read(data.source, data.target, data.train, data)


def valid_pairs(data: Data) -> Iterator[tuple[str, str]]:
    """Read the validation pairs of the user; none if no files were given."""
    return _read(data.valid_source, data.valid_target, data.valid, data)


def _read(source: str, target: str, tables: Sequence[str], data: Data) -> Iterator[tuple[str, str]]:
    if source:
        yield from line_pairs(Path(source), Path(target))
    for file in find_files(tables) if tables else ():
        yield from column_pairs(file, data.source_column, data.target_column)


def encode_pairs(
    pairs: Iterable[tuple[str, str]], tokenizer: Tokenizer, context: int, what: str = "the training pairs"
) -> Bitext:
    """Encode pairs; sentences are truncated so that they fit into the context with their end token."""
    seen = hashlib.sha256(tokenizer.digest.encode())
    source, target = Side(), Side()
    empty: list[int] = []
    cut = 0
    numbered = enumerate(pairs, start=1)
    while some := list(islice(numbered, AT_ONCE)):
        empty += [number for number, (left, right) in some if not (left.strip() and right.strip())]
        kept = [pair for _, pair in some if pair[0].strip() and pair[1].strip()]
        for text in chain.from_iterable(kept):
            seen.update(f"{len(text)} {text}\n".encode())
        lefts = tokenizer.encode_many([left for left, _ in kept])
        rights = tokenizer.encode_targets([right for _, right in kept])
        cut += sum(max(len(a), len(b)) >= context for a, b in zip(lefts, rights, strict=True))
        source.extend(ids[: context - 1] for ids in lefts)
        target.extend(ids[: context - 1] for ids in rights)
    if not len(source):
        raise UserError(f"{what}: there is no pair with text on both sides; fill the files or name others")
    if empty:
        warnings.warn(
            f"{what}: {len(empty):,} with an empty side left out, the first on line {empty[0]:,}", stacklevel=2
        )
    if cut:
        warnings.warn(
            SettingWarning(
                f"{what}: {cut:,} of {len(source):,} are longer than the context of {context} tokens and were cut; "
                f"a larger {setting('context')} keeps them whole"
            ),
            stacklevel=2,
        )
    return Bitext(source, target, seen.hexdigest())


def pair_buckets(sources: np.ndarray, targets: np.ndarray, tokens: int, seed: int, pass_: int) -> list[np.ndarray]:
    """Cut pairs into batches of similar length on both sides: one pass, every pair exactly once.

    Pairs are sorted by both lengths, equal ones in random order, and cut where a batch's longer side
    would pass `tokens` with its padding; then the batches are shuffled. Cuts depend on the lengths
    alone, so every pass has the same number of batches, and any step is found without those before it.

    >>> lengths = np.array([5, 1, 9, 2, 7])
    >>> sorted(sorted(batch.tolist()) for batch in pair_buckets(lengths, lengths, tokens=10, seed=0, pass_=0))
    [[0], [1, 3], [2], [4]]
    """
    random = generator(seed, "pairs", pass_)
    order = random.permutation(len(sources))
    # Sources go up and down in turn, so that they do not jump where the target's length changes.
    snake = np.where(targets % 2 == 1, -sources, sources)
    order = order[np.lexsort((snake[order], targets[order]))]
    sizes = np.maximum(sources, targets)[order].tolist()
    cuts, longest = [0], 0
    for place, size in enumerate(sizes):
        longest = max(longest, size)
        if place > cuts[-1] and longest * (place + 1 - cuts[-1]) > tokens:
            cuts.append(place)
            longest = size
    batches = np.split(order, cuts[1:])
    return [batches[i] for i in random.permutation(len(batches))]
