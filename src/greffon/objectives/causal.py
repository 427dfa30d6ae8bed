"""The causal language model: at each position, predict the next token."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from greffon.nn.model import Model
from greffon.objectives.batch import IGNORE, Batch, Score, documents_of, pad
from greffon.objectives.lm_loss import vocabulary_loss


@dataclass(frozen=True)
class Causal:
    """Batches of packed windows, and their next-token loss. No document attends to another one, or predicts it."""

    padding: int
    start: int
    length: int
    byte_lengths: np.ndarray

    def batch(self, windows: Sequence[np.ndarray]) -> Batch:
        """Build a batch from windows of up to `length` + 1 tokens each."""
        rows = pad(windows, self.padding, self.length + 1)
        tokens, targets = rows[:, :-1], rows[:, 1:].copy()
        lengths = [len(window) - 1 for window in windows]
        document_ids, positions = documents_of(tokens, lengths, self.start)
        # The end of a window has no next token, and the start of the next document is not predictable.
        targets[(document_ids == 0) | (targets == self.start)] = IGNORE
        real = targets[targets != IGNORE]
        return Batch(
            torch.from_numpy(tokens.copy()),
            torch.from_numpy(document_ids),
            torch.from_numpy(positions),
            torch.from_numpy(targets),
            count=len(real),
            bytes=int(self.byte_lengths[real].sum()),
        )

    def score(self, model: Model, batch: Batch) -> Score:
        """Sum the next-token loss over all real targets of the batch."""
        hidden = model.body(batch.tokens, batch.document_ids, batch.positions)
        return Score(vocabulary_loss(model.head, hidden, batch), batch.count)
