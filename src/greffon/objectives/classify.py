"""Labels of whole texts: one vector a text, and the loss of what a head makes of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from greffon.core.cancellation import raise_if_cancelled
from greffon.nn.body import Body
from greffon.nn.heads import ClassHead, pool
from greffon.nn.masks import PADDING
from greffon.nn.model import Model
from greffon.nn.windows import TextWindows
from greffon.objectives.batch import Batch, Score, pad
from greffon.objectives.tasks.base import Targets
from greffon.objectives.tasks.classes import ClassTargets


@dataclass(frozen=True)
class Classify:
    """Batches of texts, padded on the right, and their loss: the cross-entropy over the classes, or a task's own.

    With `adversarial_epsilon`, training is adversarial (Miyato et al., 2017): the loss is the mean over each text as
    it is and with a perturbation of its embeddings along the gradient of the loss. The norm of the perturbation is
    `adversarial_epsilon` times the mean norm of an embedding; each window of a text has its own.
    """

    padding: int
    adversarial_epsilon: float = 0.0
    targets: Targets = field(default_factory=ClassTargets)

    def rows(self, texts: Sequence[np.ndarray]) -> Batch:
        """Build a batch of rows without targets."""
        tokens = pad(texts, self.padding)
        lengths = np.array([len(text) for text in texts])
        document_ids = np.where(np.arange(tokens.shape[1]) < lengths[:, None], 1, PADDING)
        return Batch(
            torch.from_numpy(tokens),
            None if (document_ids != PADDING).all() else torch.from_numpy(document_ids),
            None,
            torch.zeros(len(texts), dtype=torch.long),
            count=len(texts),
        )

    def batch(self, texts: Sequence[np.ndarray], labels: Sequence[Any], windows: TextWindows | None = None) -> Batch:
        """Build a batch from texts and their targets; with `windows`, each row is a part of a text."""
        targets = self.targets.stack(labels)
        return replace(self.rows(texts), targets=targets, count=targets.numel(), windows=windows)

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
        head = model.head
        assert isinstance(head, ClassHead)
        states = model.states(batch.tokens, batch.document_ids, batch.positions, perturbation, batch.segments)
        vectors = head.vectors(states, batch.document_ids)
        logits = head.classify(vectors if batch.windows is None else batch.windows.mean(vectors))
        return self.targets.loss(logits, batch.targets)


@dataclass(frozen=True)
class ScoringTexts:
    """Texts whose windows are computed in batches of bounded size, however long a text is."""

    batches: Sequence[Batch]
    """Windows of similar length together; their targets mean nothing."""
    row_numbers: Tensor
    """Number, among all rows of the batches, of the row of each window: (windows,)."""
    windows: TextWindows
    """The text of each window."""
    targets: Tensor
    """The target of each text: (N,), or (N, C) for several labels."""


@torch.no_grad()  # not inference_mode: FSDP gathers weights into buffers that training uses again
def text_vectors(model: Model, texts: ScoringTexts, vectors: Callable[[Batch], Tensor]) -> Tensor:
    """Return the vector of each text, (N, W), where `vectors` computes those of the rows of a batch."""
    device = next(model.parameters()).device
    model.eval()
    found = []
    for batch in texts.batches:
        raise_if_cancelled()
        found.append(vectors(batch.to(device)))
    return texts.windows.to(device).mean(torch.cat(found)[texts.row_numbers.to(device)])


def row_vectors(model: Model) -> Callable[[Batch], Tensor]:
    """Return the function that computes what a class head reads: the pooled states of each row."""
    head = model.head
    assert isinstance(head, ClassHead)

    def vectors(batch: Batch) -> Tensor:
        states = model.states(batch.tokens, batch.document_ids, batch.positions, segments=batch.segments)
        return head.vectors(states, batch.document_ids)

    return vectors


@torch.no_grad()
def text_logits(model: Model, texts: ScoringTexts) -> Tensor:
    """Return what the head makes of each text, or pair of texts: (N, C)."""
    head = model.head
    assert isinstance(head, ClassHead)
    return head.classify(text_vectors(model, texts, row_vectors(model))).cpu()


def class_probabilities(model: Model, texts: ScoringTexts) -> Tensor:
    """Return each text's probability of each class: (N, C)."""
    return text_logits(model, texts).softmax(dim=-1)
