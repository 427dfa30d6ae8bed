"""Batches, and the score of a batch."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from greffon.nn.cross_entropy import MicroBatch
from greffon.nn.masks import PADDING
from greffon.nn.windows import TextWindows

_Part = TypeVar("_Part", bound="Batch | Pairs")

IGNORE = -100
"""The target of a position that has none."""


@dataclass(frozen=True)
class Pairs:
    """The pairs of texts in a batch, for next-sentence prediction."""

    segments: Tensor  # (B, T): 0 in the first text of a pair, 1 in the second
    cls_positions: Tensor  # (P,): index of each pair's [CLS] in the flattened rows
    targets: Tensor  # (P,): 1 where the second text follows the first

    def part(self, rows: slice, length: int, idle: bool) -> "Pairs":
        """Return the pairs of some rows of `length` tokens each; none, for a process without rows of its own."""
        begin, end = rows.start * length, rows.stop * length
        own = (self.cls_positions >= begin) & (self.cls_positions < end) & (not idle)
        return Pairs(self.segments[rows], self.cls_positions[own] - begin, self.targets[own])


@dataclass(frozen=True)
class Batch:
    """Rows of tokens, padded or packed, with what should be predicted."""

    tokens: Tensor  # (B, T)
    document_ids: Tensor | None  # (B, T), PADDING for padding; None: each row is one whole document
    positions: Tensor | None  # (B, T), counted from each document's start; None: 0, 1, 2, …
    targets: (
        Tensor  # (B, T), (B,) or, with windows, one for each text (several labels: a row); IGNORE where there is none
    )
    count: int  # real targets
    bytes: int = 0  # bytes of text that the targets stand for
    pairs: Pairs | None = None
    segments: Tensor | None = None  # (B, T): 0 in the first text of a pair, 1 in the second; None: single texts
    windows: TextWindows | None = None  # the text of each row; None: each row is a text of its own
    partners: Tensor | None = None  # (B, T): tokens of the other view of each row's document, which each row predicts
    micro_batch: MicroBatch | None = None  # its place among those of one step; None: it is the only one

    @property
    def num_positions(self) -> int:
        """Number of positions that are computed."""
        return self.tokens.numel()

    @property
    def padded(self) -> int:
        """Number of positions that are padding."""
        return 0 if self.document_ids is None else int((self.document_ids == PADDING).sum())

    @property
    def auxiliary_count(self) -> int:
        """Number of targets of an auxiliary loss: the pairs, or else the real targets."""
        return self.count if self.pairs is None else len(self.pairs.targets)

    def part(self, index: int, parts: int) -> Self:
        """Return the rows of one of several processes, which divide the batch evenly; a text's windows stay together.

        A process without a row of its own gets the first one without targets: it takes part in the step, and
        changes nothing. Bytes are counted in the whole batch only.
        """
        members = len(self.targets)
        first, last = members * index // parts, members * (index + 1) // parts
        idle = first == last
        texts = slice(0, 1) if idle else slice(first, last)
        own = texts if self.windows is None else self.windows.rows_of(texts.start, texts.stop)
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        cut: dict[str, Any] = {name: value[own] for name, value in values.items() if isinstance(value, Tensor)}
        cut["targets"] = self.targets[texts]
        if idle:
            cut["targets"] = torch.full_like(cut["targets"], IGNORE)
        pairs = None if self.pairs is None else self.pairs.part(own, self.tokens.shape[1], idle)
        windows = None if self.windows is None else self.windows.part(own)
        # A view that is not contrasted still predicts words.
        count = int((cut["targets"] != IGNORE).sum()) if self.partners is None or idle else len(cut["tokens"])
        return replace(self, **cut, count=count, bytes=0, pairs=pairs, windows=windows)

    def pieces(self, most: int) -> list[Self]:
        """Cut the batch, between rows, into pieces of about `most` targets. Bytes are counted in the whole only."""
        number = min(len(self.targets), -(-self.count // most))
        return [self] if number < 2 else [self.part(i, number) for i in range(number)]

    def to(self, device: torch.device) -> Self:
        """Return the batch on another device."""
        if device.type == "cpu":
            return self
        pairs = None if self.pairs is None else _on(device, self.pairs)
        windows = None if self.windows is None else self.windows.to(device)
        return _on(device, replace(self, pairs=pairs, windows=windows))


def _on(device: torch.device, part: _Part) -> _Part:
    """Move the tensors of a batch, or of its pairs."""
    values = {f.name: getattr(part, f.name) for f in fields(part)}
    tensors: dict[str, Any] = {name: value for name, value in values.items() if isinstance(value, Tensor)}
    return replace(part, **{name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()})


@dataclass(frozen=True)
class Score:
    """The score of one batch: a loss summed over `count` real targets, and an auxiliary loss if there is one."""

    loss: Tensor
    count: int
    auxiliary: "AuxiliaryLoss | None" = None


@dataclass(frozen=True)
class AuxiliaryLoss:
    """A loss besides the main one, summed over `count` targets of its own; `right` of them were predicted correctly.

    `names` are the names of the main and of this loss in metrics.jsonl.
    """

    loss: Tensor
    count: int
    names: tuple[str, str]
    right: int | None = None


def pad(rows: Sequence[np.ndarray], padding: int, length: int | None = None) -> np.ndarray:
    """Stack rows of unequal length, padded on the right: (B, T) int64."""
    length = max(map(len, rows)) if length is None else length
    out = np.full((len(rows), length), padding, dtype=np.int64)
    for row, tokens in zip(out, rows, strict=True):
        row[: len(tokens)] = tokens
    return out


def documents_of(tokens: np.ndarray, lengths: Sequence[int], start: int) -> tuple[np.ndarray, np.ndarray]:
    """Number the documents of packed rows and count positions inside each.

    A document begins at each `start` token and at the row's edge; what lies beyond a row's length
    is padding.
    """
    columns = np.arange(tokens.shape[1])
    begins = tokens == start
    document_ids = np.cumsum(begins, axis=1) + 1
    document_ids[columns >= np.asarray(lengths)[:, None]] = PADDING
    origin = np.maximum.accumulate(np.where(begins, columns, 0), axis=1)
    return document_ids, columns - origin
