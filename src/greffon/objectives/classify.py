"""Text classification: one label a text."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from greffon.nn.masks import PADDING
from greffon.nn.model import Model
from greffon.objectives.batch import Batch, Score, pad
from greffon.stopping import go_on


@dataclass(frozen=True)
class Classify:
    """Texts of token ids in, padded on the right; cross-entropy over the classes out."""

    padding: int

    def batch(self, texts: Sequence[np.ndarray], labels: Sequence[int]) -> Batch:
        """Lay texts and their classes side by side."""
        tokens = pad(texts, self.padding)
        lengths = np.array([len(text) for text in texts])
        documents = np.where(np.arange(tokens.shape[1]) < lengths[:, None], 1, PADDING)
        return Batch(
            torch.from_numpy(tokens),
            None if (documents != PADDING).all() else torch.from_numpy(documents),
            None,
            torch.tensor(labels, dtype=torch.long),
            count=len(texts),
        )

    def score(self, model: Model, batch: Batch) -> Score:
        """Sum the loss over the texts of the batch."""
        logits = model(batch.tokens, batch.documents, batch.positions)
        return Score(F.cross_entropy(logits, batch.targets, reduction="sum"), batch.count)


@torch.inference_mode()
def class_probabilities(model: Model, batches: Sequence[Batch]) -> Tensor:
    """Return each text's probability of each class, batch after batch: (N, C)."""
    device = next(model.parameters()).device
    model.eval()
    found = []
    for batch in batches:
        go_on()
        moved = batch.to(device)
        found.append(model(moved.tokens, moved.documents, moved.positions).softmax(dim=-1).cpu())
    return torch.cat(found)
