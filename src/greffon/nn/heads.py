"""Heads: hidden states in, logits out. They know nothing of losses or batches."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from greffon.nn.masks import PADDING


class VocabularyHead(nn.Module):
    """A score for each token of the vocabulary: (…, W) → (…, V).

    Tied, it borrows the body's embedding as its matrix and has no parameter of its own:
    `VocabularyHead(width, vocabulary, tied=body.embedding)`.
    """

    def __init__(self, width: int, vocabulary: int, *, bias: bool = True, tied: nn.Embedding | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, width)) if tied is None else tied.weight
        self.bias = nn.Parameter(torch.zeros(vocabulary)) if bias and tied is None else None
        if tied is None:
            nn.init.normal_(self.weight, std=width**-0.5)

    @torch.no_grad()
    def store_by_columns(self) -> None:
        """Lay the matrix out in memory column by column: the same numbers, faster for a row or two of states."""
        self.weight.data = self.weight.data.t().contiguous().t()

    def forward(self, hidden: Tensor, documents: Tensor | None = None) -> Tensor:
        """Return the logits of every token of the vocabulary, position by position."""
        return F.linear(hidden, self.weight, self.bias)


def pool(hidden: Tensor, documents: Tensor | None, pooling: str) -> Tensor:
    """Make one vector of each row's real tokens: (B, T, W) → (B, W), or (B, 2 W) for mean-max."""
    if documents is None:
        documents = torch.ones(hidden.shape[:2], dtype=torch.long, device=hidden.device)
    real = documents != PADDING  # (B, T)
    count = real.sum(dim=1, keepdim=True).clamp(min=1)
    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "last":
        return hidden[torch.arange(len(hidden), device=hidden.device), count.squeeze(1) - 1]
    outside = ~real.unsqueeze(-1)
    mean = hidden.masked_fill(outside, 0.0).sum(dim=1) / count
    if pooling == "mean":
        return mean
    highest = hidden.masked_fill(outside, torch.finfo(hidden.dtype).min).amax(dim=1)
    return torch.cat((mean, highest), dim=-1)


class PairHead(nn.Module):
    """Whether the second text of a pair follows the first, from the state of its [CLS]: (P, W) → (P, 2)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, width)
        self.out = nn.Linear(width, 2)
        nn.init.normal_(self.inner.weight, std=width**-0.5)
        nn.init.normal_(self.out.weight, std=0.02)
        for linear in (self.inner, self.out):
            nn.init.zeros_(linear.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the logits of "from elsewhere" and "follows"."""
        out: Tensor = self.out(torch.tanh(self.inner(hidden)))
        return out


class VocabularyAndPairHead(nn.Module):
    """The two heads of BERT's pretraining, side by side."""

    def __init__(self, vocabulary: VocabularyHead, pair: PairHead) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.pair = pair

    def forward(self, hidden: Tensor, documents: Tensor | None = None) -> Tensor:
        """Return the logits of every token of the vocabulary, position by position."""
        out: Tensor = self.vocabulary(hidden)
        return out


class ClassHead(nn.Module):
    """A score for each class from one vector a text: (B, T, W) → (B, C).

    `last` reads each text's last real token, which in a causal body has seen all the others; `cls`
    the first one, for bodies that look both ways; `mean` and `mean-max` read them all. Rows are
    padded on the right; padding is never read. With `words`, the model hands it the token embeddings
    beside the hidden states: a short way for what single words say, so that the body need not carry it.
    """

    def __init__(self, width: int, classes: int, *, pooling: str, words: bool = False, dropout: float = 0.0) -> None:
        super().__init__()
        self.pooling = pooling
        self.words = words
        self.dropout = nn.Dropout(dropout)
        features = width * (1 + words) * (2 if pooling == "mean-max" else 1)
        self.out = nn.Linear(features, classes)
        nn.init.normal_(self.out.weight, std=0.02)
        nn.init.zeros_(self.out.bias)

    def forward(self, hidden: Tensor, documents: Tensor | None = None) -> Tensor:
        """Return the logits of every class."""
        out: Tensor = self.out(self.dropout(pool(hidden, documents, self.pooling)))
        return out
