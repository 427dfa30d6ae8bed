"""Text classification: one label a text."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from greffon.nn.body import Body
from greffon.nn.heads import ClassHead, pool
from greffon.nn.masks import PADDING
from greffon.nn.model import Model
from greffon.objectives.batch import Batch, Score, pad
from greffon.objectives.reading import Reading
from greffon.stopping import go_on


@dataclass(frozen=True)
class Classify:
    """Texts of token ids in, padded on the right; cross-entropy over the classes out.

    With `adversarial`, training sees every text twice: as it is, and with its embeddings pushed, all of them
    together so many lengths of one, to where they mislead the head most (Miyato et al., 2017). What holds
    around a text is harder to learn by heart than the text. With `reading`, the body also goes on with what it
    was pretrained by, on the same texts.
    """

    padding: int
    adversarial: float = 0.0
    reading: Reading | None = None

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
        """Sum the loss over the texts of the batch; the mean of both, where they are seen twice."""
        body, head, start = model.body, model.head, None
        assert isinstance(body, Body)
        assert isinstance(head, ClassHead)
        if self.adversarial and model.training:
            start = body.embedding.weight.new_zeros((*batch.tokens.shape, body.width)).requires_grad_()
        hidden = model.read(batch.tokens, batch.documents, batch.positions, start)
        loss, beside = self._loss(head, hidden, batch), None
        if self.reading is not None and head.reading is not None and batch.reading is not None:
            beside = self.reading.score(head.reading, hidden[..., : body.width], batch)
        if start is None:
            return Score(loss, batch.count, beside)
        (uphill,) = torch.autograd.grad(loss, start, retain_graph=True)
        steepness = uphill.flatten(1).norm(dim=1, keepdim=True).clamp(min=torch.finfo(uphill.dtype).tiny)  # (B, 1)
        with torch.no_grad():
            lengths = body.words(batch.tokens).norm(dim=-1, keepdim=True)  # (B, T, 1)
        push = uphill * (self.adversarial * pool(lengths, batch.documents, "mean") / steepness).unsqueeze(-1)
        pushed = model.read(batch.tokens, batch.documents, batch.positions, push)
        return Score((loss + self._loss(head, pushed, batch)) / 2, batch.count, beside)

    def _loss(self, head: ClassHead, hidden: Tensor, batch: Batch) -> Tensor:
        return F.cross_entropy(head(hidden, batch.documents), batch.targets, reduction="sum")


@torch.no_grad()  # not inference_mode: a model in shares gathers its weights into buffers that training uses again
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
