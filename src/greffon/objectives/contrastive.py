"""Contrast of documents: two views of one document are told from the views of all others in the batch.

Each view is one vector, the mean of its states, of which two things are asked:

- Through a linear projection, its partner must be the nearest of all other vectors by cosine (InfoNCE, both ways;
  SimCLR, DeCLUTR). The loss of a view depends on every other view of the step; where a step is cut into several
  batches, or shared by several processes, `gradients` gives the exact gradient of each vector, so that each batch can
  be read on its own (GradCache).
- It must predict the words of its partner, each weighted by how few documents hold it (an auxiliary loss).

Two copies of one short text are told from others by their spelling alone, so they are not contrasted. Projection and
word predictor are thrown away afterwards.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from greffon.data.spans import Views, without_shared
from greffon.data.tokenizer import Tokenizer
from greffon.nn.heads import ContrastHead, pool
from greffon.nn.masks import PADDING
from greffon.nn.model import Model
from greffon.objectives.batch import IGNORE, AuxiliaryLoss, Batch, Score, pad

NAMES = ("contrast_loss", "words_loss")
"""Names of the two losses in metrics.jsonl."""


@dataclass(frozen=True)
class Contrastive:
    """Pairs of views in; the loss of finding each view's partner, and its words, out."""

    padding: int
    cls: int
    sep: int
    temperature: float
    common: np.ndarray  # (V,): tokens so frequent that both views may hold them
    words: np.ndarray  # (V,): weight of each token among the words to predict; 0 for those that say nothing

    @classmethod
    def over(cls, tokenizer: Tokenizer, temperature: float, common: np.ndarray, words: np.ndarray) -> "Contrastive":
        """Build the objective for a tokenizer's ids."""
        return cls(tokenizer.pad, tokenizer.cls, tokenizer.sep, temperature, common, words)

    def batch(self, rows: Sequence[Views], random: np.random.Generator) -> Batch:
        """Lay pairs of views below each other: rows 2 i and 2 i + 1 are the views of document i."""
        views = [without_shared(row, self.common, random) for row in rows]
        texts = [np.array([self.cls, *ids, self.sep]) for view in views for ids in (view.first, view.second)]
        tokens = pad(texts, self.padding)
        lengths = np.array([len(text) for text in texts])
        document_ids = np.where(np.arange(tokens.shape[1]) < lengths[:, None], 1, PADDING)
        targets = [IGNORE if view.copies else i for i, view in enumerate(views)]
        partners = np.arange(len(texts)) ^ 1
        return Batch(
            torch.from_numpy(tokens),
            None if (document_ids != PADDING).all() else torch.from_numpy(document_ids),
            None,
            torch.from_numpy(np.repeat(np.array(targets), 2)),
            count=len(texts),
            partners=torch.from_numpy(tokens[partners]),
        )

    def pooled(self, model: Model, batch: Batch) -> Tensor:
        """Return the vector of each view, (2 B, W)."""
        return pool(model.body(batch.tokens, batch.document_ids, batch.positions), batch.document_ids, "mean")

    def project(self, model: Model, pooled: Tensor) -> Tensor:
        """Return the vectors in the space in which they are compared, of length one: (2 B, W)."""
        projected: Tensor = model.head(pooled)
        return F.normalize(projected, dim=-1)

    def vectors(self, model: Model, batch: Batch) -> Tensor:
        """Return the projected vector of each view, of length one: (2 B, W)."""
        return self.project(model, self.pooled(model, batch))

    def losses(self, vectors: Tensor, pairs: Tensor) -> Tensor:
        """Return each view's surprise at its partner among all other views: (N,); 0 where `pairs` is IGNORE."""
        real = pairs != IGNORE
        kept, ids = vectors[real], pairs[real]
        if not len(kept):
            return vectors.sum(dim=1) * 0.0
        itself = torch.eye(len(kept), dtype=torch.bool, device=kept.device)
        logits = (kept @ kept.T / self.temperature).masked_fill(itself, -torch.inf)
        partner = ((ids.unsqueeze(0) == ids.unsqueeze(1)) & ~itself).int().argmax(dim=1)
        found = F.cross_entropy(logits, partner, reduction="none")
        return torch.zeros_like(vectors[:, 0]).masked_scatter(real, found)

    def word_losses(self, model: Model, pooled: Tensor, batch: Batch) -> Tensor:
        """Return each view's surprise at the words of its partner, of any order: (2 B,)."""
        assert isinstance(model.head, ContrastHead)
        assert batch.partners is not None
        log_probabilities = model.head.words(pooled).log_softmax(dim=-1)  # (2 B, V)
        counts = torch.zeros_like(log_probabilities)
        counts.scatter_add_(1, batch.partners, torch.ones_like(batch.partners, dtype=counts.dtype))
        weights = counts.log1p() * torch.from_numpy(self.words).to(counts)
        weights = weights / weights.sum(dim=1, keepdim=True).clamp(min=torch.finfo(counts.dtype).tiny)
        found: Tensor = -(weights * log_probabilities).sum(dim=1)
        return found

    def score(self, model: Model, batch: Batch) -> Score:
        """Sum the losses over the views of a batch that is all of a step."""
        pooled = self.pooled(model, batch)
        contrast = self.losses(self.project(model, pooled), batch.targets).sum()
        return self._score(model, batch, pooled, contrast)

    def score_part(self, model: Model, batch: Batch, losses: Tensor, gradients: Tensor) -> Score:
        """Score a batch that is a part of a step, whose losses, and gradients by its vectors, are known."""
        pooled = self.pooled(model, batch)
        passed_on = (self.project(model, pooled) * gradients).sum()
        return self._score(model, batch, pooled, passed_on + (losses.sum() - passed_on).detach())

    def _score(self, model: Model, batch: Batch, pooled: Tensor, contrast: Tensor) -> Score:
        # A process without rows of its own computes one, and it must not count.
        words = self.word_losses(model, pooled, batch).sum() * (1 if batch.count else 0)
        return Score(contrast, batch.count, AuxiliaryLoss(words, batch.count, NAMES))

    def gradients(self, vectors: Tensor, pairs: Tensor) -> tuple[Tensor, Tensor]:
        """Return each view's loss, and the gradient of their sum by each vector, for all views of a step."""
        with torch.enable_grad():
            leaf = vectors.detach().requires_grad_()
            losses = self.losses(leaf, pairs)
            (gradient,) = torch.autograd.grad(losses.sum(), leaf)
        return losses.detach(), gradient

    @torch.no_grad()
    def found(self, vectors: Tensor, pairs: Tensor) -> int:
        """Count the contrasted views whose partner, in the row below or above, is the nearest of all such views."""
        vectors = vectors[pairs != IGNORE]
        if not len(vectors):
            return 0
        nearest = (vectors @ vectors.T).fill_diagonal_(-2.0).argmax(dim=1)
        return int((nearest == torch.arange(len(vectors), device=nearest.device) ^ 1).sum())
