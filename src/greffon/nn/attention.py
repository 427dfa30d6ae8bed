"""Multi-head attention, and its cache of keys and values."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from greffon.core.shape import Shape
from greffon.nn.chunks import Chunks
from greffon.nn.masks import square
from greffon.nn.positions import rotate
from greffon.nn.rms_norm import RMSNorm

_seen: ContextVar["dict[Attention, Tensor] | None"] = ContextVar("seen", default=None)


@contextmanager
def watching() -> Iterator["dict[Attention, Tensor]"]:
    """Record the weights (B, H, Q, K) of each attention that is computed in the `with` block, in this thread only."""
    seen: dict[Attention, Tensor] = {}
    before = _seen.set(seen)
    try:
        yield seen
    finally:
        _seen.reset(before)


def watched() -> bool:
    """Whether attention weights are recorded."""
    return _seen.get() is not None


class KVCache:
    """The keys and values of one layer, filled from the left in place: (B, H, length, D) each, H shared heads."""

    def __init__(self, rows: int, heads: int, length: int, head_width: int, device: torch.device) -> None:
        self.keys = torch.zeros(rows, heads, length, head_width, device=device)
        self.values = torch.zeros_like(self.keys)
        self._spare: Tensor | None = None
        self.filled = 0

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Add new keys and values, and return all so far."""
        start, self.filled = self.filled, self.filled + keys.shape[2]
        self.keys[:, :, start : self.filled] = keys
        self.values[:, :, start : self.filled] = values
        return self.keys[:, :, : self.filled], self.values[:, :, : self.filled]

    def take(self, rows: Tensor) -> None:
        """Keep some of the rows, in any order; a row may be taken twice.

        They are copied between two buffers: allocating at every token would cost more than the copying.
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
    """softmax(QKᵀ / √D) V in several heads, with four linear layers.

    A group of query heads can share one head of keys and values. `queries`, `keys_values` and `read` are separate
    methods, so that a decoder can keep keys and values from one token to the next.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.sharing = shape.heads // shape.groups
        self.head_width = shape.head_width
        wide, narrow, bias = shape.heads * self.head_width, shape.groups * self.head_width, shape.bias or shape.qkv_bias
        self.query = nn.Linear(shape.hidden_size, wide, bias=bias)
        self.key = nn.Linear(shape.hidden_size, narrow, bias=bias)
        self.value = nn.Linear(shape.hidden_size, narrow, bias=bias)
        self.out = nn.Linear(wide, shape.hidden_size, bias=shape.bias)
        self.query_norm = RMSNorm(self.head_width, eps=shape.norm_epsilon) if shape.qk_norm else None
        self.key_norm = RMSNorm(self.head_width, eps=shape.norm_epsilon) if shape.qk_norm else None

    def split(self, x: Tensor) -> Tensor:
        """Split the features into heads: (B, T, H × D) → (B, H, T, D)."""
        rows, length, _ = x.shape
        return x.view(rows, length, -1, self.head_width).transpose(1, 2)

    def queries(self, x: Tensor, rotation: Tensor | None) -> Tensor:
        """Return the queries: (B, H, T, D)."""
        queries = self.split(self.query(x))
        if self.query_norm is not None:
            queries = self.query_norm(queries)
        return queries if rotation is None else rotate(queries, rotation)

    def keys_values(self, x: Tensor, rotation: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the keys and the values: (B, G, T, D) each, one head for each group of query heads."""
        keys = self.split(self.key(x))
        if self.key_norm is not None:
            keys = self.key_norm(keys)
        return keys if rotation is None else rotate(keys, rotation), self.split(self.value(x))

    def read(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | Chunks | None, causal: bool) -> Tensor:
        """Return the attention output; `causal` stands for the square mask, which then need not be given."""
        if isinstance(mask, Chunks):
            parts = self._mix(mask.queries(queries), mask.keys(keys), mask.keys(values), mask.mask, False)
            mixed = mask.joined(parts)
        else:
            mixed = self._mix(queries, keys, values, mask, causal)
        mixed = mixed.transpose(1, 2).flatten(2)  # (B, H, T, D) → (B, T, H × D)
        out: Tensor = self.out(mixed)
        return out

    def _mix(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        """Return the values, weighted by softmax(QKᵀ / √D): (B, H, Q, D)."""
        shared = self.sharing > 1
        if shared and (watched() or torch.onnx.is_in_onnx_export()):  # neither knows heads that are shared
            keys, values = (part.repeat_interleave(self.sharing, dim=1) for part in (keys, values))
            shared = False
        if (seen := _seen.get()) is not None:
            seen[self] = self.weights(queries, keys, square(queries.shape[2], device=keys.device) if causal else mask)
        # No dropout on the weights: it would rule out the fused kernel, and halve the speed on CPUs.
        return F.scaled_dot_product_attention(
            queries, keys, values, attn_mask=mask, is_causal=causal, enable_gqa=shared
        )

    def weights(self, queries: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
        """Return the attention weights of `read`: (B, H, Q, K). Slower; for figures."""
        logits: Tensor = queries @ keys.mT / queries.shape[-1] ** 0.5
        if mask is not None:
            logits = logits.masked_fill(~mask, -torch.inf)
        return logits.softmax(dim=-1)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | Chunks | None,
        rotation: Tensor | None,
        *,
        causal: bool = False,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Attend from x to itself, and to the cache."""
        keys, values = self.keys_values(x, rotation)
        if cache is not None:
            keys, values = cache.append(keys, values)
        return self.read(self.queries(x, rotation), keys, values, mask, causal)
