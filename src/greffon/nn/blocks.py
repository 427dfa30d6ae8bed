"""One Transformer layer: attention, then a feed-forward network, each with a residual connection."""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from greffon.core.shape import GATED, Shape
from greffon.nn.attention import Attention, KVCache
from greffon.nn.chunks import Chunks
from greffon.nn.dropout import Dropout
from greffon.nn.rms_norm import RMSNorm


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
    "silu": F.silu,
    "swiglu": F.silu,
    "geglu": F.gelu,
}


def make_norm(shape: Shape) -> nn.Module:
    """Build the normalisation that a shape names."""
    if shape.norm == "layer":
        return nn.LayerNorm(shape.hidden_size, eps=shape.norm_epsilon, bias=shape.bias)
    return RMSNorm(shape.hidden_size, eps=shape.norm_epsilon)


def embedding_norm(shape: Shape) -> nn.Module:
    """Build the norm between the embeddings and the first block, if the shape has one."""
    return make_norm(shape) if shape.embedding_norm else nn.Identity()


def final_norm(shape: Shape) -> nn.Module:
    """Build the norm after the last block: post-norm blocks end in a norm, a pre-norm stack needs one."""
    return nn.Identity() if shape.norm_place == "post" else make_norm(shape)


class FeedForward(nn.Module):
    """Two linear layers with an activation between them; in SwiGLU and GeGLU a third one gates the first."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.up = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=shape.bias)
        self.gate = (
            nn.Linear(shape.hidden_size, shape.intermediate_size, bias=shape.bias)
            if shape.activation in GATED
            else None
        )
        self.down = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=shape.bias)
        self.activation = ACTIVATIONS[shape.activation]
        self.dropout = Dropout(shape.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layers to each position: (B, T, W) → (B, T, W)."""
        inner = self.activation(self.up(x)) if self.gate is None else self.activation(self.gate(x)) * self.up(x)
        out: Tensor = self.down(self.dropout(inner))
        return out


class Block(nn.Module):
    """Attention and feed-forward with residual connections; the norm is before each (pre) or after (post)."""

    def __init__(self, shape: Shape, layer: int = 0) -> None:
        super().__init__()
        self.post_norm = shape.norm_place == "post"
        self.parallel = shape.parallel_residual
        self.local = shape.is_local(layer)
        self.attention = Attention(shape)
        self.attention_norm = make_norm(shape) if layer or shape.first_norm else nn.Identity()
        self.feed_forward = FeedForward(shape)
        self.feed_forward_norm = make_norm(shape)
        self.dropout = Dropout(shape.dropout)

    def add_residual(self, x: Tensor, norm: nn.Module, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Add the output of a sublayer to its input, with the norm before or after."""
        out: Tensor
        if self.post_norm:
            out = norm(x + self.dropout(sublayer(x)))
        else:
            out = x + self.dropout(sublayer(norm(x)))
        return out

    @property
    def output_linears(self) -> list[nn.Linear]:
        """The linear layers whose output is added to the residual stream."""
        return [self.attention.out, self.feed_forward.down]

    def attend(
        self, x: Tensor, mask: Tensor | Chunks | None, rotation: Tensor | None, causal: bool, cache: KVCache | None
    ) -> Tensor:
        """Do the self-attention sublayer."""

        def read(states: Tensor) -> Tensor:
            mixed: Tensor = self.attention(states, mask, rotation, causal=causal, cache=cache)
            return mixed

        return self.add_residual(x, self.attention_norm, read)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | Chunks | None,
        rotation: Tensor | None,
        *,
        causal: bool,
        cache: KVCache | None = None,
    ) -> Tensor:
        """Map hidden states (B, T, W) to hidden states."""
        attended = self.attend(x, mask, rotation, causal, cache)
        if self.parallel:
            added: Tensor = self.dropout(self.feed_forward(self.feed_forward_norm(x)))
            return attended + added
        return self.add_residual(attended, self.feed_forward_norm, self.feed_forward)


class CrossBlock(Block):
    """A block with cross-attention to a source between self-attention and the feed-forward network.

    Queries come from the target, keys and values from the source, without positions. The beams of one sentence can
    therefore be the queries of one row.
    """

    def __init__(self, shape: Shape, layer: int = 0) -> None:
        super().__init__(shape, layer)
        self.cross = Attention(shape)
        self.cross_norm = make_norm(shape)

    @property
    def output_linears(self) -> list[nn.Linear]:
        """The linear layers whose output is added to the residual stream."""
        return [*super().output_linears, self.cross.out]

    def read_source(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Do cross-attention and feed-forward: x is (N × beams, T, W), keys and values are (N, H, S, D)."""

        def read(states: Tensor) -> Tensor:
            aside = states.reshape(len(keys), -1, states.shape[-1])  # (N, beams × T, W)
            return self.cross.read(self.cross.queries(aside, None), keys, values, mask, False).view_as(states)

        x = self.add_residual(x, self.cross_norm, read)
        return self.add_residual(x, self.feed_forward_norm, self.feed_forward)
