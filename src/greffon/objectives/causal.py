"""The causal language model: at each position, predict the next token."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from greffon.nn.cross_entropy import summed_cross_entropy
from greffon.nn.heads import VocabularyHead
from greffon.nn.model import Model
from greffon.objectives.batch import IGNORE, Batch, Score, documents_of, pad


@dataclass(frozen=True)
class Causal:
    """Packed windows in, next-token loss out. A document never sees, nor predicts, another one."""

    padding: int
    start: int
    length: int
    byte_lengths: np.ndarray

    def batch(self, windows: Sequence[np.ndarray]) -> Batch:
        """Build a batch from windows of up to `length` + 1 tokens each."""
        rows = pad(windows, self.padding, self.length + 1)
        tokens, targets = rows[:, :-1], rows[:, 1:].copy()
        lengths = [len(window) - 1 for window in windows]
        documents, positions = documents_of(tokens, lengths, self.start)
        # A window's end has no next token, and the next document's start is not ours to guess.
        targets[(documents == 0) | (targets == self.start)] = IGNORE
        real = targets[targets != IGNORE]
        return Batch(
            torch.from_numpy(tokens.copy()),
            torch.from_numpy(documents),
            torch.from_numpy(positions),
            torch.from_numpy(targets),
            count=len(real),
            bytes=int(self.byte_lengths[real].sum()),
        )

    def score(self, model: Model, batch: Batch) -> Score:
        """Sum the next-token loss over all real targets of the batch."""
        head = model.head
        assert isinstance(head, VocabularyHead)
        hidden = model.body(batch.tokens, batch.documents, batch.positions).flatten(0, 1)  # (B × T, W)
        targets = batch.targets.flatten()
        if batch.count < len(targets):
            real = targets != IGNORE
            hidden, targets = hidden[real], targets[real]
        return Score(summed_cross_entropy(hidden, head.weight, head.bias, targets), batch.count)
