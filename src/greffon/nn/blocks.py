"""One Transformer layer: attention, then a feed-forward network, each beside a residual path."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from greffon.config import Shape
from greffon.nn.attention import Attention, KeyValues


def squared_relu(x: Tensor) -> Tensor:
    """ReLU, squared (Primer)."""
    return F.relu(x).square()


def tanh_gelu(x: Tensor) -> Tensor:
    """GELU by its tanh approximation."""
    return F.gelu(x, approximate="tanh")


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "squared-relu": squared_relu,
    "gelu": F.gelu,
    "gelu-tanh": tanh_gelu,
    "swiglu": F.silu,
}


def make_norm(kind: str, width: int, bias: bool) -> nn.Module:
    """Build the normalisation that a shape names."""
    return nn.LayerNorm(width, bias=bias) if kind == "layer" else nn.RMSNorm(width, eps=1e-5)


class FeedForward(nn.Module):
    """Widen, bend, narrow; SwiGLU has a second widening that gates the first."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.up = nn.Linear(shape.width, shape.feed_forward, bias=shape.bias)
        self.gate = (
            nn.Linear(shape.width, shape.feed_forward, bias=shape.bias) if shape.activation == "swiglu" else None
        )
        self.down = nn.Linear(shape.feed_forward, shape.width, bias=shape.bias)
        self.activation = ACTIVATIONS[shape.activation]
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map each position on its own: (B, T, W) → (B, T, W)."""
        bent = self.activation(self.up(x)) if self.gate is None else self.activation(self.gate(x)) * self.up(x)
        out: Tensor = self.down(self.dropout(bent))
        return out


class Block(nn.Module):
    """Attention and feed-forward with residuals; the norm stands before each (pre) or after (post)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.post_norm = shape.norm_place == "post"
        self.attention = Attention(shape.width, shape.heads, bias=shape.bias)
        self.attention_norm = make_norm(shape.norm, shape.width, shape.bias)
        self.feed_forward = FeedForward(shape)
        self.feed_forward_norm = make_norm(shape.norm, shape.width, shape.bias)
        self.dropout = nn.Dropout(shape.dropout)

    def beside(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Add what the sublayer makes of x to x, with the norm in its place."""
        out: Tensor
        if self.post_norm:
            out = norm(x + self.dropout(sublayer(x)))
        else:
            out = x + self.dropout(sublayer(norm(x)))
        return out

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        rotation: Tensor | None,
        *,
        causal: bool,
        memory: KeyValues | None = None,
    ) -> Tensor:
        """Map hidden states (B, T, W) to hidden states."""

        def attend(states: Tensor) -> Tensor:
            mixed: Tensor = self.attention(states, mask, rotation, causal=causal, memory=memory)
            return mixed

        x = self.beside(x, self.attention_norm, attend)
        return self.beside(x, self.feed_forward_norm, self.feed_forward)
