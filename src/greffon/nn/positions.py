"""Position encodings: sinusoidal, learned, rotary, or none.

Each class offers the same two methods. `add` changes the embeddings before the first block
(sinusoidal, learned); `rotation` gives the angles by which every attention layer rotates its queries
and keys (rotary). Positions are absolute integers and start at 0 with each document.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from greffon.core.shape import Shape


class NoPositions(nn.Module):
    """No position encoding: a causal body can still infer order from its mask."""

    def add(self, x: Tensor, positions: Tensor) -> Tensor:
        """Return the embeddings (B, T, W) with the positions (B, T) added."""
        return x

    def rotation(self, positions: Tensor) -> Tensor | None:
        """Return the angles for queries and keys; None if they are not rotated."""
        return None


class Sinusoidal(NoPositions):
    """Sines and cosines of geometrically spaced wavelengths ("Attention is all you need", 3.5).

    They alternate, as in the paper (`sinusoids`), or all sines come before all cosines, as in Marian
    (`sinusoid_halves`) and in tensor2tensor (`sinusoid_steps`). The first `offset` positions are unused.
    """

    def __init__(self, width: int, context: int, make: Callable[[int, int], Tensor], offset: int = 0) -> None:
        super().__init__()
        self.width, self.offset = width, offset
        self.make = make
        self.register_buffer("table", self.make(offset + context, width), persistent=False)

    table: Tensor

    def add(self, x: Tensor, positions: Tensor) -> Tensor:
        """Add the rows of the table, which grows with the longest text."""
        needed = int(positions.max()) + 1 + self.offset
        if needed > len(self.table):
            self.table = self.make(2 * needed, self.width).to(self.table.device)
        return x + self.table[positions + self.offset if self.offset else positions]


class Learned(NoPositions):
    """A trained vector for each position up to the context, which no text may exceed.

    The first `offset` vectors are unused: RoBERTa's positions start after its padding id.
    """

    def __init__(self, width: int, context: int, offset: int = 0) -> None:
        super().__init__()
        self.offset = offset
        self.table = nn.Parameter(torch.empty(offset + context, width))
        nn.init.normal_(self.table, std=0.02)

    def add(self, x: Tensor, positions: Tensor) -> Tensor:
        """Add the trained rows."""
        return x + self.table[positions + self.offset if self.offset else positions]


class Rotary(NoPositions):
    """Rotate pairs of query and key features by an angle that grows with the position (RoFormer).

    The product of a query and a key then depends on their distance alone. `frequencies` are the angles from one
    position to the next, a pair of features each.
    """

    def __init__(self, frequencies: Tensor) -> None:
        super().__init__()
        self.register_buffer("frequencies", frequencies, persistent=False)

    frequencies: Tensor

    def rotation(self, positions: Tensor) -> Tensor:
        """Return cosines and sines, stacked: (2, B, 1, T, D / 2)."""
        angles = positions.unsqueeze(1).unsqueeze(-1) * self.frequencies  # (B, 1, T, D / 2)
        return torch.stack((angles.cos(), angles.sin()))


def rotary_frequencies(width: int, base: float = 10_000.0) -> Tensor:
    """Return the angles by which rotary positions turn so many features: (width / 2)."""
    return base ** -(torch.arange(0, width, 2, dtype=torch.float32) / width)


def stretched(frequencies: Tensor, shape: Shape) -> Tensor:
    """Slow the rotation down for a longer context than the original one.

    llama3 slows down wavelengths that are long against the original context, keeps short ones, and interpolates
    between them.
    """
    if shape.rope_scaling == "none":
        return frequencies
    slowed = frequencies / shape.rope_factor
    if shape.rope_scaling == "linear":
        return slowed
    turns = shape.rope_original_context * frequencies / (2 * math.pi)
    low, high = shape.rope_low_freq_factor, shape.rope_high_freq_factor
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return (1 - kept) * slowed + kept * frequencies


def sinusoids(length: int, width: int) -> Tensor:
    """Build the table of sinusoidal positions: (length, width), sines and cosines interleaved."""
    position = torch.arange(length, dtype=torch.float32).unsqueeze(1)
    frequency = torch.exp(torch.arange(0, width, 2, dtype=torch.float32) * (-math.log(10_000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(position * frequency)
    table[:, 1::2] = torch.cos(position * frequency)[:, : width // 2]
    return table


def sinusoid_halves(length: int, width: int) -> Tensor:
    """Build the same table with all sines before all cosines, in double precision as Marian does."""
    position = torch.arange(length, dtype=torch.float64).unsqueeze(1)
    exponents = torch.arange(0, width, 2, dtype=torch.float64) / width
    angles = position / 10_000.0**exponents
    return torch.cat((angles.sin(), angles.cos()[:, : width // 2]), dim=1).float()


def sinusoid_steps(length: int, width: int) -> Tensor:
    """Build the table of tensor2tensor: sines before cosines, with the last wavelength the longest there is."""
    half = width // 2
    frequency = torch.exp(torch.arange(half, dtype=torch.float32) * -(math.log(10_000.0) / max(1, half - 1)))
    angles = torch.arange(length, dtype=torch.float32).unsqueeze(1) * frequency
    return torch.cat((angles.sin(), angles.cos(), torch.zeros(length, width % 2)), dim=1)


def rotate(x: Tensor, rotation: Tensor) -> Tensor:
    """Rotate features i and i + R/2 of x (B, H, T, D) by the angles of their position; features from R on stay."""
    cosines, sines = rotation  # (B, 1, T, R / 2) each
    width = 2 * cosines.shape[-1]
    first, second = x[..., :width].chunk(2, dim=-1)
    turned = (first * cosines - second * sines, second * cosines + first * sines)
    return torch.cat(turned if width == x.shape[-1] else (*turned, x[..., width:]), dim=-1)


def make_positions(shape: Shape) -> NoPositions:
    """Build the positions that a shape names."""
    width, context = shape.hidden_size, shape.context
    makers: dict[str, Callable[[], NoPositions]] = {
        "none": NoPositions,
        "sinusoidal": lambda: Sinusoidal(width, context, sinusoids),
        "sinusoidal-halves": lambda: Sinusoidal(width, context, sinusoid_halves),
        "sinusoidal-tensor2tensor": lambda: Sinusoidal(width, context, sinusoid_steps, shape.position_offset),
        "learned": lambda: Learned(width, context, shape.position_offset),
        "rotary": lambda: Rotary(stretched(rotary_frequencies(shape.rotated, shape.rope_theta), shape)),
    }
    return makers[shape.positions]()


def make_local_positions(shape: Shape) -> Rotary | None:
    """Build the rotary positions of layers with local attention, if they have their own."""
    if shape.positions != "rotary" or not shape.local_attention or shape.local_rope_theta == shape.rope_theta:
        return None
    return Rotary(stretched(rotary_frequencies(shape.rotated, shape.local_rope_theta), shape))
