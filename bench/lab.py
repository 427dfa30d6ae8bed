"""The founding lab's loop, as a first course on Transformers writes it; the plainest peer.

`nn.TransformerEncoder` with PyTorch's own layers, logits of all positions at once, Adam, and batches of
rows drawn at random, padded to the longest of each.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn


class LabModel(nn.Module):
    """Embedding × √width, sines and cosines, PyTorch's encoder under a square mask, a linear head."""

    def __init__(self, vocabulary: int, outputs: int, layers: int, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.width = width
        self.embedding = nn.Embedding(vocabulary, width)
        layer = nn.TransformerEncoderLayer(width, heads, inner, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(width, outputs)

    def hidden(self, tokens: Tensor, padding: Tensor | None = None) -> Tensor:
        """(B, T) → (B, T, W); `padding` is True where there is nothing to read."""
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        x = self.embedding(tokens) * math.sqrt(self.width) + sinusoids(length, self.width)
        blind = None if padding is None else torch.zeros(padding.shape).masked_fill(padding, -torch.inf)
        out: Tensor = self.encoder(self.dropout(x), mask=mask, src_key_padding_mask=blind)
        return out

    def token_logits(self, tokens: Tensor) -> Tensor:
        """The logits of the next token at every position: (B, T) → (B, T, V)."""
        out: Tensor = self.head(self.hidden(tokens))
        return out

    def class_logits(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """The logits of the classes, from each text's last token: (B, T) → (B, C)."""
        hidden = self.hidden(tokens, torch.arange(tokens.shape[1]) >= lengths.unsqueeze(1))
        out: Tensor = self.head(hidden[torch.arange(len(tokens)), lengths - 1])
        return out


def sinusoids(length: int, width: int) -> Tensor:
    """Positions as in the paper: (T, W)."""
    angles = torch.arange(length).unsqueeze(1) * torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1)[:, :width]


def padded(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Rows side by side, padded with 0 to the longest, and their lengths."""
    lengths = [len(row) for row in rows]
    tokens = torch.zeros(len(rows), max(lengths), dtype=torch.long)
    for i, row in enumerate(rows):
        tokens[i, : len(row)] = torch.tensor(row)
    return tokens, torch.tensor(lengths)


def random_batches(count: int, rows: int, seed: int) -> Iterator[list[int]]:
    """One pass over `count` examples in random order."""
    order = np.random.default_rng(seed).permutation(count)
    for start in range(0, count, rows):
        yield order[start : start + rows].tolist()
