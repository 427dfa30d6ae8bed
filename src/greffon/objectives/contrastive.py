"""Contrast of documents: two views of one document are told from the views of all others in the batch.

Each view is one vector: the mean of its states, through a linear projection that is thrown away afterwards
(SimCLR, DeCLUTR). Its partner must be the nearest of all other vectors by cosine (InfoNCE, both ways). The loss
of a view depends on every other view of the step; where a step is cut into several batches, or shared by several
processes, `gradients` gives the exact gradient of each vector, so that each batch can be read on its own (GradCache).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from greffon.data.spans import Views, without_shared
from greffon.data.tokenizer import Tokenizer
from greffon.nn.heads import pool
from greffon.nn.masks import PADDING
from greffon.nn.model import Model
from greffon.objectives.batch import IGNORE, Batch, Score, pad


@dataclass(frozen=True)
class Contrastive:
    """Pairs of views in; the loss of finding each view's partner among all others out."""

    padding: int
    cls: int
    sep: int
    temperature: float
    common: np.ndarray  # (V,): tokens so frequent that both views may hold them

    @classmethod
    def over(cls, tokenizer: Tokenizer, temperature: float, common: np.ndarray) -> "Contrastive":
        """Build the objective for a tokenizer's ids."""
        return cls(tokenizer.pad, tokenizer.cls, tokenizer.sep, temperature, common)

    def batch(self, rows: Sequence[Views], random: np.random.Generator) -> Batch:
        """Lay pairs of views below each other: rows 2 i and 2 i + 1 are the views of document i."""
        views = [without_shared(row, self.common, random) for row in rows]
        texts = [np.array([self.cls, *ids, self.sep]) for view in views for ids in (view.first, view.second)]
        tokens = pad(texts, self.padding)
        lengths = np.array([len(text) for text in texts])
        document_ids = np.where(np.arange(tokens.shape[1]) < lengths[:, None], 1, PADDING)
        return Batch(
            torch.from_numpy(tokens),
            None if (document_ids != PADDING).all() else torch.from_numpy(document_ids),
            None,
            torch.from_numpy(np.repeat(np.arange(len(rows)), 2)),
            count=len(texts),
        )

    def vectors(self, model: Model, batch: Batch) -> Tensor:
        """Return the projected vector of each view, of length one: (2 B, P)."""
        hidden = model.body(batch.tokens, batch.document_ids, batch.positions)
        projected: Tensor = model.head(pool(hidden, batch.document_ids, "mean"))
        return F.normalize(projected, dim=-1)

    def losses(self, vectors: Tensor, pairs: Tensor) -> Tensor:
        """Return each view's surprise at its partner among all other views: (N,); 0 where `pairs` is IGNORE."""
        logits = vectors @ vectors.T / self.temperature
        logits = logits.masked_fill(torch.eye(len(vectors), dtype=torch.bool, device=vectors.device), -torch.inf)
        real = pairs != IGNORE
        logits = logits.masked_fill(~real, -torch.inf)  # a view that stands for nothing is nobody's rival
        partner = (pairs.unsqueeze(0) == pairs.unsqueeze(1)).fill_diagonal_(False).int().argmax(dim=1)
        return torch.where(real, F.cross_entropy(logits, partner, reduction="none"), 0.0)

    def score(self, model: Model, batch: Batch) -> Score:
        """Sum the loss over the views of a batch that is all of a step."""
        vectors = self.vectors(model, batch)
        return Score(self.losses(vectors, batch.targets).sum(), batch.count)

    def gradients(self, vectors: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
        """Return each view's loss, and the gradient of their sum by each vector, for all views of a step."""
        with torch.enable_grad():
            leaf = vectors.detach().requires_grad_()
            losses = self.losses(leaf, pairs)
            (gradient,) = torch.autograd.grad(losses.sum(), leaf)
        return losses.detach(), gradient

    @torch.no_grad()
    def found(self, vectors: Tensor, pairs: Tensor) -> int:
        """Count the views whose partner is the nearest of all others."""
        cosines = (vectors @ vectors.T).fill_diagonal_(-2.0)
        return int((pairs[cosines.argmax(dim=1)] == pairs).sum())
