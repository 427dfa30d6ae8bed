"""Heads: hidden states in, logits out. They know nothing of losses or batches."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from greffon.core.graft import Graft
from greffon.core.shape import Shape
from greffon.nn.blocks import ACTIVATIONS, make_norm
from greffon.nn.masks import PADDING
from greffon.nn.quantize import FEW, Fp16Linear, Int8Linear, PrepackedLinear, can_prepack, can_use_fp16

PANEL = 4096
"""Tokens whose logits are computed at once where only the highest logits are needed."""


class Transform(nn.Module):
    """BERT's transform before the vocabulary: linear layer, activation, norm: (…, W) → (…, W)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.inner = nn.Linear(shape.hidden_size, shape.hidden_size, bias=shape.bias)
        self.activation = ACTIVATIONS[shape.activation]
        self.norm = make_norm(shape)
        if shape.bias:
            nn.init.normal_(self.inner.weight, std=shape.hidden_size**-0.5)
            nn.init.zeros_(self.inner.bias)
        else:  # ModernBERT's form learns faster when the states reach the vocabulary unmixed (docs/findings.md)
            nn.init.eye_(self.inner.weight)

    def forward(self, hidden: Tensor) -> Tensor:
        """Prepare hidden states for the vocabulary."""
        out: Tensor = self.norm(self.activation(self.inner(hidden)))
        return out


class VocabularyHead(nn.Module):
    """A score for each token of the vocabulary: (…, W) → (…, V).

    Tied to the body's embedding, it has no matrix of its own:
    `VocabularyHead(hidden_size, vocab_size, tied=body.embedding)`.
    """

    def __init__(
        self,
        hidden_size: int,
        vocab_size: int,
        *,
        bias: bool | None = None,
        tied: nn.Embedding | None = None,
        transform: Transform | None = None,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, hidden_size)) if tied is None else tied.weight
        has_bias = tied is None if bias is None else bias
        self.bias = nn.Parameter(torch.zeros(vocab_size)) if has_bias else None
        self.transform = transform
        self.packed: PrepackedLinear | None = None
        self.halved: Fp16Linear | None = None
        self.panels: list[Callable[[Tensor], Tensor]] = []
        if tied is None:
            nn.init.normal_(self.weight, std=hidden_size**-0.5)

    def prepack(self, *, panels: bool = False) -> None:
        """Reorder the matrix in memory for inference, where that is faster; in panels for `highest`."""
        if can_prepack(self.weight) and panels:
            self.panels = [PrepackedLinear(*panel) for panel in self._cut()]
        elif can_prepack(self.weight):
            self.packed = PrepackedLinear(self.weight, self.bias)
        if can_use_fp16(self.weight):
            self.halved = Fp16Linear(self.weight, self.bias)

    def quantize_int8(self) -> None:
        """Quantize the matrix to 8-bit integers, in panels."""
        self.panels = [Int8Linear(*panel) for panel in self._cut()]

    def _cut(self) -> list[tuple[Tensor, Tensor | None]]:
        """Cut the matrix and its bias into panels of tokens that fit the cache; on a GPU they stay whole."""
        size = PANEL if self.weight.device.type == "cpu" else len(self.weight)
        weights = torch.split(self.weight, size)
        biases = [None] * len(weights) if self.bias is None else torch.split(self.bias, size)
        return list(zip(weights, biases, strict=True))

    def prepare(self, hidden: Tensor) -> Tensor:
        """Return the states that are multiplied with the matrix."""
        if self.transform is None:
            return hidden
        out: Tensor = self.transform(hidden)
        return out

    def _for_few(self, prepared: Tensor) -> Fp16Linear | None:
        """Return the fp16 matrix for so few rows that reading the matrix is all the work."""
        return self.halved if prepared.ndim == 2 and len(prepared) <= FEW else None

    def forward(self, hidden: Tensor, document_ids: Tensor | None = None) -> Tensor:
        """Return the logits of every token of the vocabulary, position by position."""
        prepared = self.prepare(hidden)
        whole = self._for_few(prepared) or self.packed
        if whole is not None:
            out: Tensor = whole(prepared)
            return out
        if self.panels:
            return torch.cat([panel(prepared) for panel in self.panels], dim=-1)
        return F.linear(prepared, self.weight, self.bias)

    def _panels_for(self, prepared: Tensor) -> Sequence[Callable[[Tensor], Tensor]]:
        """Return the functions that compute the logits, a panel of tokens each."""
        if (few := self._for_few(prepared)) is not None:
            return [few]
        return self.panels or [partial(F.linear, weight=weight, bias=bias) for weight, bias in self._cut()]

    def highest(
        self, hidden: Tensor, count: int, banned: Sequence[int] = (), *, renormalize: bool = False
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return each row's highest logits and their tokens, (N, count) each, and the log of the sum over all, (N, 1).

        Logits are computed a panel of tokens at a time, so that they stay in the cache. Tokens in `banned` count in
        the sum, unless it is to be renormalized, but not among the highest unless nothing else is left.
        """
        prepared = self.prepare(hidden)
        first, sums, values, tokens = 0, [], [], []
        for panel in self._panels_for(prepared):
            logits = panel(prepared).float()
            sums.append(logits.logsumexp(dim=-1))
            logits[:, [token - first for token in banned if first <= token < first + logits.shape[1]]] = -torch.inf
            if renormalize:
                sums[-1] = logits.logsumexp(dim=-1)
            best, places = logits.topk(min(count, logits.shape[1]))
            values.append(best)
            tokens.append(places + first)
            first += logits.shape[1]
        best, places = torch.cat(values, dim=1).topk(min(count, first))
        return best, torch.cat(tokens, dim=1).gather(1, places), torch.stack(sums).logsumexp(dim=0).unsqueeze(1)


def pool(hidden: Tensor, document_ids: Tensor | None, pooling: str) -> Tensor:
    """Pool the real tokens of each row into one vector: (B, T, W) → (B, W), or (B, 2 W) for mean-max."""
    if document_ids is None:
        document_ids = torch.ones(hidden.shape[:2], dtype=torch.long, device=hidden.device)
    real = document_ids != PADDING  # (B, T)
    count = real.sum(dim=1, keepdim=True).clamp(min=1)
    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "last":
        return hidden[torch.arange(hidden.shape[0], device=hidden.device), count.squeeze(1) - 1]
    outside = ~real.unsqueeze(-1)
    mean = hidden.masked_fill(outside, 0.0).sum(dim=1) / count
    if pooling == "mean":
        return mean
    highest = hidden.masked_fill(outside, torch.finfo(hidden.dtype).min).amax(dim=1)
    return torch.cat((mean, highest), dim=-1)


class PairHead(nn.Module):
    """Predict whether the second text of a pair follows the first, from the state of its [CLS]: (P, W) → (P, 2)."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.inner = nn.Linear(hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, 2)
        nn.init.normal_(self.inner.weight, std=hidden_size**-0.5)
        nn.init.normal_(self.out.weight, std=0.02)
        for linear in (self.inner, self.out):
            nn.init.zeros_(linear.bias)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return the logits of "from elsewhere" and "follows"."""
        out: Tensor = self.out(torch.tanh(self.inner(hidden)))
        return out


class MaskedHead(nn.Module):
    """The vocabulary head of a masked language model, with the head of next-sentence prediction (BERT)."""

    def __init__(self, vocabulary: VocabularyHead, pair: PairHead) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.pair = pair

    def forward(self, hidden: Tensor, document_ids: Tensor | None = None) -> Tensor:
        """Return the logits of every token of the vocabulary, position by position."""
        out: Tensor = self.vocabulary(hidden)
        return out


class ClassHead(nn.Module):
    """A score for each class from one vector a text: (B, T, W) → (B, C).

    `pooling` makes the vector: `last` takes each text's last real token, which in a causal body has seen all
    others; `cls` the first one, for bidirectional bodies; `mean` and `mean-max` use all tokens. Rows are padded
    on the right, and padding is ignored. With `concat_embeddings`, the model concatenates the token embeddings to
    the hidden states, a short path for what single words say. With `pooler_activation`, a linear layer and an
    activation follow the pooling, as in BERT's pooler, and with `pooler_norm` a LayerNorm follows these, as in
    ModernBERT's head.
    """

    ACTIVATIONS: ClassVar[dict[str, Callable[[Tensor], Tensor]]] = {
        "tanh": torch.tanh,
        "relu": F.relu,
        "gelu": F.gelu,
        "identity": nn.Identity(),
    }

    def __init__(self, hidden_size: int, classes: int, graft: Graft, norm_epsilon: float = 1e-5) -> None:
        super().__init__()
        self.pooling = graft.pooling
        self.concat_embeddings = graft.concat_embeddings
        self.dropout = nn.Dropout(graft.head_dropout)
        features = hidden_size * (1 + graft.concat_embeddings) * (2 if graft.pooling == "mean-max" else 1)
        self.out = nn.Linear(features, classes, bias=graft.class_bias)
        nn.init.normal_(self.out.weight, std=0.02)
        if graft.class_bias:
            nn.init.zeros_(self.out.bias)
        self.activation = self.ACTIVATIONS.get(graft.pooler_activation)
        self.inner = None if self.activation is None else nn.Linear(features, features, bias=graft.pooler_bias)
        if self.inner is not None:
            nn.init.normal_(self.inner.weight, std=features**-0.5)
            if graft.pooler_bias:
                nn.init.zeros_(self.inner.bias)
        self.norm = nn.LayerNorm(features, eps=norm_epsilon, bias=False) if graft.pooler_norm else nn.Identity()

    @classmethod
    def form(cls, hidden_size: int, graft: Graft) -> tuple[int, Graft]:
        """Return the width of what the head reads, and its settings as they take effect."""
        return hidden_size, graft

    @classmethod
    def reads(cls, graft: Graft) -> str:
        """Say what the head reads."""
        return graft.pooling

    def forward(self, hidden: Tensor, document_ids: Tensor | None = None) -> Tensor:
        """Return the logits of every class."""
        return self.classify(self.vectors(hidden, document_ids))

    def vectors(self, hidden: Tensor, document_ids: Tensor | None = None) -> Tensor:
        """Return the vector of each row: (B, T, W) → (B, features)."""
        return pool(hidden, document_ids, self.pooling)

    def classify(self, pooled: Tensor) -> Tensor:
        """Return the logits of every class from the vector of each text: (N, features) → (N, C)."""
        if self.inner is not None and self.activation is not None:
            pooled = self.norm(self.activation(self.inner(pooled)))
        out: Tensor = self.out(self.dropout(pooled))
        return out


class ContrastHead(nn.Module):
    """What a contrastive objective asks of the vector of a text; of use in pretraining only.

    Called, it gives the vector in the space in which texts are compared, (B, W) → (B, W); the vectors before it are the
    better ones for other tasks. `words` predicts the words of a text from the vector, (B, W) → (B, V).
    """

    def __init__(self, hidden_size: int, vocab_size: int) -> None:
        super().__init__()
        self.out = nn.Linear(hidden_size, hidden_size, bias=False)
        self.words = nn.Linear(hidden_size, vocab_size)
        nn.init.normal_(self.out.weight, std=hidden_size**-0.5)
        nn.init.normal_(self.words.weight, std=0.02)
        nn.init.zeros_(self.words.bias)

    def forward(self, pooled: Tensor, document_ids: Tensor | None = None) -> Tensor:
        """Project the pooled states of each text."""
        out: Tensor = self.out(pooled)
        return out


class NoHead(nn.Module):
    """Return the hidden states unchanged: for a body that was imported without a head."""

    def forward(self, hidden: Tensor, document_ids: Tensor | None = None) -> Tensor:
        """Return the hidden states."""
        return hidden
