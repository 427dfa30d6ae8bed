"""Multi-head attention, and the memory that lets a decoder read on without starting over."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from greffon.nn.masks import square
from greffon.nn.positions import rotate

_seen: ContextVar["dict[Attention, Tensor] | None"] = ContextVar("seen", default=None)


@contextmanager
def watching() -> Iterator["dict[Attention, Tensor]"]:
    """Note the weights (B, H, Q, K) of each attention that is computed meanwhile, in this thread alone."""
    seen: dict[Attention, Tensor] = {}
    before = _seen.set(seen)
    try:
        yield seen
    finally:
        _seen.reset(before)


class KVCache:
    """The keys and values of one layer, filled from the left in place: (B, H, length, D) each."""

    def __init__(self, rows: int, heads: int, length: int, head_width: int, device: torch.device) -> None:
        self.keys = torch.zeros(rows, heads, length, head_width, device=device)
        self.values = torch.zeros_like(self.keys)
        self._spare: Tensor | None = None
        self.filled = 0

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store what is new and return everything so far."""
        start, self.filled = self.filled, self.filled + keys.shape[2]
        self.keys[:, :, start : self.filled] = keys
        self.values[:, :, start : self.filled] = values
        return self.keys[:, :, : self.filled], self.values[:, :, : self.filled]

    def take(self, rows: Tensor) -> None:
        """Go on with some of the rows, or all, in another order; a row may be taken twice.

        They move to and fro between the same buffers: fresh ones, at every token, would cost more than the copying.
        """
        spare = torch.empty_like(self.keys) if self._spare is None else self._spare
        for name in ("keys", "values"):
            old: Tensor = getattr(self, name)
            new = spare[: len(rows)]
            torch.index_select(old[:, :, : self.filled], 0, rows, out=new[:, :, : self.filled])
            setattr(self, name, new)
            spare = old
        self._spare = spare


class Attention(nn.Module):
    """softmax(QKᵀ / √D) V in several heads, between four linear maps.

    The three steps stand apart, so that a decoder can keep keys and values from one token to the
    next: `queries`, `keys_values`, and `read`, which mixes the values.
    """

    def __init__(self, hidden_size: int, heads: int, *, bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(hidden_size, hidden_size, bias=bias)
        self.key = nn.Linear(hidden_size, hidden_size, bias=bias)
        self.value = nn.Linear(hidden_size, hidden_size, bias=bias)
        self.out = nn.Linear(hidden_size, hidden_size, bias=bias)

    def split(self, x: Tensor) -> Tensor:
        """Cut the width into heads: (B, T, W) → (B, H, T, D)."""
        rows, length, _ = x.shape
        return x.view(rows, length, self.heads, -1).transpose(1, 2)

    def queries(self, x: Tensor, rotation: Tensor | None) -> Tensor:
        """Return what each position asks for: (B, H, T, D)."""
        queries = self.split(self.query(x))
        return queries if rotation is None else rotate(queries, rotation)

    def keys_values(self, x: Tensor, rotation: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return what each position offers, and what it hands over: (B, H, T, D) each."""
        keys = self.split(self.key(x))
        return keys if rotation is None else rotate(keys, rotation), self.split(self.value(x))

    def read(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        """Mix the values by how well keys answer queries; `causal` stands for the plain square mask."""
        if (seen := _seen.get()) is not None:
            seen[self] = self.weights(queries, keys, square(queries.shape[2], device=keys.device) if causal else mask)
        # No dropout on the weights: it would rule out the fused kernel, and halve the speed on CPUs.
        mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask, is_causal=causal)
        mixed = mixed.transpose(1, 2).flatten(2)  # (B, H, T, D) → (B, T, W)
        out: Tensor = self.out(mixed)
        return out

    def weights(self, queries: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
        """Return the shares by which `read` mixes the values: (B, H, Q, K). Slower; for looking at."""
        logits: Tensor = queries @ keys.mT / queries.shape[-1] ** 0.5
        if mask is not None:
            logits = logits.masked_fill(~mask, -torch.inf)
        return logits.softmax(dim=-1)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        rotation: Tensor | None,
        *,
        causal: bool = False,
        memory: KVCache | None = None,
    ) -> Tensor:
        """Attend from x to itself, and to what `memory` already holds."""
        keys, values = self.keys_values(x, rotation)
        if memory is not None:
            keys, values = memory.append(keys, values)
        return self.read(self.queries(x, rotation), keys, values, mask, causal)
