"""What a model is shown at once, and what came of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from greffon.nn.masks import PADDING

IGNORE = -100
"""The target of a position that has none."""


@dataclass(frozen=True)
class Batch:
    """Rows of tokens, padded or packed, with what should be predicted."""

    tokens: Tensor  # (B, T)
    documents: Tensor | None  # (B, T), PADDING for padding; None: each row is one whole document
    positions: Tensor | None  # (B, T), counted from each document's start; None: 0, 1, 2, …
    targets: Tensor  # (B, T) or (B,), IGNORE where there is none
    count: int  # real targets
    bytes: int = 0  # bytes of text that the targets stand for

    @property
    def places(self) -> int:
        """Positions that are computed."""
        return self.tokens.numel()

    @property
    def padded(self) -> int:
        """Positions that are padding."""
        return 0 if self.documents is None else int((self.documents == PADDING).sum())

    def to(self, device: torch.device) -> "Batch":
        """Return the batch on another device."""
        if device.type == "cpu":
            return self
        moved = [
            None if t is None else t.to(device, non_blocking=True)
            for t in (self.tokens, self.documents, self.positions, self.targets)
        ]
        assert moved[0] is not None
        assert moved[3] is not None
        return Batch(moved[0], moved[1], moved[2], moved[3], self.count, self.bytes)


@dataclass(frozen=True)
class Score:
    """What an objective says of one batch: a loss summed over `count` real targets."""

    loss: Tensor
    count: int


def pad(rows: Sequence[np.ndarray], padding: int, length: int | None = None) -> np.ndarray:
    """Lay rows of unequal length side by side, padded on the right: (B, T) int64."""
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
    documents = np.cumsum(begins, axis=1) + 1
    documents[columns >= np.asarray(lengths)[:, None]] = PADDING
    origin = np.maximum.accumulate(np.where(begins, columns, 0), axis=1)
    return documents, columns - origin
