"""Text classification: one label per text."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from greffon.core.cancellation import raise_if_cancelled
from greffon.nn.body import Body
from greffon.nn.heads import pool
from greffon.nn.masks import PADDING
from greffon.nn.model import Model
from greffon.objectives.batch import Batch, Score, pad


@dataclass(frozen=True)
class Classify:
    """Batches of texts, padded on the right, and their cross-entropy over the classes.

    With `adversarial_epsilon`, training is adversarial (Miyato et al., 2017): the loss is the mean over each text as
    it is and with a perturbation of its embeddings along the gradient of the loss. The norm of the perturbation is
    `adversarial_epsilon` times the mean norm of an embedding.
    """

    padding: int
    adversarial_epsilon: float = 0.0

    def batch(self, texts: Sequence[np.ndarray], labels: Sequence[int]) -> Batch:
        """Build a batch from texts and their classes."""
        tokens = pad(texts, self.padding)
        lengths = np.array([len(text) for text in texts])
        document_ids = np.where(np.arange(tokens.shape[1]) < lengths[:, None], 1, PADDING)
        return Batch(
            torch.from_numpy(tokens),
            None if (document_ids != PADDING).all() else torch.from_numpy(document_ids),
            None,
            torch.tensor(labels, dtype=torch.long),
            count=len(texts),
        )

    def score(self, model: Model, batch: Batch) -> Score:
        """Sum the loss over the texts of the batch."""
        if not (self.adversarial_epsilon and model.training):
            return Score(self._loss(model, batch), batch.count)
        body = model.body
        assert isinstance(body, Body)
        start = body.embedding.weight.new_zeros((*batch.tokens.shape, body.hidden_size)).requires_grad_()
        loss = self._loss(model, batch, start)
        (gradient,) = torch.autograd.grad(loss, start, retain_graph=True)
        norm = gradient.flatten(1).norm(dim=1, keepdim=True).clamp(min=torch.finfo(gradient.dtype).tiny)  # (B, 1)
        with torch.no_grad():
            lengths = body.token_embeddings(batch.tokens).norm(dim=-1, keepdim=True)  # (B, T, 1)
        perturbation = gradient * (
            self.adversarial_epsilon * pool(lengths, batch.document_ids, "mean") / norm
        ).unsqueeze(-1)
        return Score((loss + self._loss(model, batch, perturbation)) / 2, batch.count)

    def _loss(self, model: Model, batch: Batch, perturbation: Tensor | None = None) -> Tensor:
        logits = model(batch.tokens, batch.document_ids, batch.positions, perturbation)
        return F.cross_entropy(logits, batch.targets, reduction="sum")


@torch.no_grad()  # not inference_mode: FSDP gathers weights into buffers that training uses again
def class_probabilities(model: Model, batches: Sequence[Batch]) -> Tensor:
    """Return each text's probability of each class, batch after batch: (N, C)."""
    device = next(model.parameters()).device
    model.eval()
    found = []
    for batch in batches:
        raise_if_cancelled()
        moved = batch.to(device)
        found.append(model(moved.tokens, moved.document_ids, moved.positions).softmax(dim=-1).cpu())
    return torch.cat(found)
