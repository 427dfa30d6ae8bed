"""Translation: predict each token of the target from the source and the tokens before it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from greffon.nn.masks import PADDING
from greffon.nn.model import Model
from greffon.objectives.batch import IGNORE, Batch, Score, pad
from greffon.objectives.lm_loss import vocabulary_loss

Pair = tuple[np.ndarray, np.ndarray]
"""The token ids of a source and of its target, without start and end."""


@dataclass(frozen=True, kw_only=True)
class PairBatch(Batch):
    """A batch of sources and targets; `tokens` are the targets."""

    source: Tensor  # (B, S)
    source_document_ids: Tensor | None  # (B, S), PADDING for padding; None: there is none

    @property
    def num_positions(self) -> int:
        """Number of positions that are computed, on both sides."""
        return self.source.numel() + self.tokens.numel()

    @property
    def padded(self) -> int:
        """Number of positions that are padding, on both sides."""
        own = super().padded
        return own if self.source_document_ids is None else own + int((self.source_document_ids == PADDING).sum())


@dataclass(frozen=True)
class Seq2Seq:
    """Batches of pairs, padded on the right, and the loss of the targets, with label smoothing during training."""

    padding: int
    start: int
    end: int
    byte_lengths: np.ndarray
    smoothing: float = 0.0

    def batch(self, pairs: Sequence[Pair]) -> PairBatch:
        """Build a batch from pairs: `source </s>` → `<s> target`, which predicts `target </s>`."""
        source, source_document_ids = padded_sources([source for source, _ in pairs], self.end, self.padding)
        targets = pad([np.append(target, self.end) for _, target in pairs], IGNORE)
        tokens = np.full_like(targets, self.padding)
        tokens[:, 0] = self.start
        tokens[:, 1:] = np.where(targets[:, :-1] == IGNORE, self.padding, targets[:, :-1])
        real = targets[targets != IGNORE]
        document_ids = np.where(targets == IGNORE, PADDING, 1)
        return PairBatch(
            torch.from_numpy(tokens),
            torch.from_numpy(document_ids),
            None,
            torch.from_numpy(targets),
            count=len(real),
            bytes=int(self.byte_lengths[real].sum()),
            source=source,
            source_document_ids=source_document_ids,
        )

    def score(self, model: Model, batch: Batch) -> Score:
        """Sum the loss over all real targets of the batch."""
        assert isinstance(batch, PairBatch)
        hidden = model.body(batch.source, batch.tokens, batch.source_document_ids)
        smoothing = self.smoothing if model.training else 0.0
        return Score(vocabulary_loss(model.head, hidden, batch, smoothing), batch.count)


def padded_sources(sources: Sequence[np.ndarray], end: int, padding: int) -> tuple[Tensor, Tensor | None]:
    """Stack sources, each with its end token: (B, S) tokens, and document numbers if there is padding."""
    tokens = pad([np.append(source, end) for source in sources], padding)
    lengths = np.array([len(source) + 1 for source in sources])
    document_ids = np.where(np.arange(tokens.shape[1]) < lengths[:, None], 1, PADDING)
    return torch.from_numpy(tokens), None if (document_ids != PADDING).all() else torch.from_numpy(document_ids)
