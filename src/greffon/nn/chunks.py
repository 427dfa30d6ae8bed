"""Local attention over whole rows, chunk by chunk: its cost grows with the length of a row, not with its square.

The queries are cut into chunks, and each chunk looks at a stretch of keys that holds the windows of all its queries.
Chunks become rows of a batch of their own. The answer is that of the dense mask (`masks.window`), to rounding.
"""

import torch.nn.functional as F
from torch import Tensor

from greffon.nn.masks import same_document, window

LEAST = 64
"""Queries in a chunk, where the window is smaller: tiny chunks cost more than they save."""
OUTSIDE = -1
"""The document number of what lies before and after a row."""


class Chunks:
    """The chunks of rows: how queries and keys are cut into them, and who sees whom within each."""

    def __init__(self, document_ids: Tensor, size: int, *, causal: bool) -> None:
        self.rows, self.length = document_ids.shape
        self.before, self.after = (size - 1, 0) if causal else (size // 2, size // 2)
        self.size = max(size, LEAST)
        self.count = -(-self.length // self.size)
        stretch = self.before + self.size + self.after
        near = window(stretch, stretch, size, causal=causal, device=document_ids.device)
        near = near[self.before : self.before + self.size]  # (C, S)
        known = F.pad(document_ids, (self.before, self.after + self._short), value=OUTSIDE)
        keys = known.unfold(1, stretch, self.size)  # (B, N, S)
        queries = keys[:, :, self.before : self.before + self.size]  # (B, N, C)
        self.mask = same_document(queries.flatten(0, 1), keys.flatten(0, 1)) & near  # (B × N, 1, C, S)

    @property
    def _short(self) -> int:
        """What the last chunk lacks."""
        return self.count * self.size - self.length

    def queries(self, x: Tensor) -> Tensor:
        """Cut queries: (B, H, T, D) → (B × N, H, C, D)."""
        whole = F.pad(x, (0, 0, 0, self._short))
        cut = whole.reshape(*x.shape[:2], self.count, self.size, x.shape[3])  # (B, H, N, C, D)
        return cut.transpose(1, 2).flatten(0, 1)

    def keys(self, x: Tensor) -> Tensor:
        """Cut keys or values into stretches that overlap: (B, G, T, D) → (B × N, G, S, D)."""
        whole = F.pad(x, (0, 0, self.before, self.after + self._short))
        parts = whole.unfold(2, self.before + self.size + self.after, self.size)  # (B, G, N, D, S)
        return parts.permute(0, 2, 1, 4, 3).flatten(0, 1)

    def joined(self, x: Tensor) -> Tensor:
        """Put what the chunks computed together again: (B × N, H, C, D) → (B, H, T, D)."""
        cut = x.reshape(self.rows, self.count, *x.shape[1:])  # (B, N, H, C, D)
        return cut.transpose(1, 2).flatten(2, 3)[:, :, : self.length]


def pays(length: int, size: int) -> bool:
    """Whether there is a window, and rows are so long that chunks cost less than the dense mask."""
    return size > 0 and length > FROM * max(size, LEAST)


FROM = 4
"""From so many chunks on they were the faster way, forward and backward, on a CPU."""
