"""Reading on: what a body was pretrained by, kept beside the classes that it learns (GPT's auxiliary objective).

A body that looks both ways sees the texts with some tokens hidden, and tells them; one that reads forward tells
what comes next. Texts are then harder to learn by heart, and what the body knew is not so soon forgotten.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from greffon.nn.heads import MaskedHead
from greffon.nn.masks import PADDING
from greffon.objectives.batch import IGNORE, Batch, Beside
from greffon.objectives.masked import Masked, gist_loss
from greffon.objectives.vocabulary import vocabulary_loss


@dataclass(frozen=True)
class Reading:
    """Batches of texts in, with what is to be read off them; the loss of it out, times `weight`."""

    weight: float
    masked: Masked | None  # what hides tokens; None: the body reads forward

    def prepare(self, batch: Batch, random: np.random.Generator) -> Batch:
        """Say what is to be told of a batch of texts, and hide it from a body that looks both ways."""
        documents = torch.ones_like(batch.tokens) if batch.documents is None else batch.documents
        if self.masked is not None:
            tokens = batch.tokens.numpy()
            read = self.masked.hide(tokens, documents.numpy(), np.zeros_like(tokens), None, random)
            return replace(batch, tokens=read.tokens, reading=read.targets)
        following = torch.full_like(batch.tokens, IGNORE)
        following[:, :-1] = batch.tokens[:, 1:].masked_fill(documents[:, 1:] == PADDING, IGNORE)
        return replace(batch, reading=following)

    def score(self, head: nn.Module, hidden: Tensor, batch: Batch) -> Beside:
        """Sum the loss over the tokens to be told."""
        assert batch.reading is not None
        read = replace(batch, targets=batch.reading, count=batch.beside)
        loss = torch.zeros(())
        if isinstance(head, MaskedHead):
            if head.gist is not None:
                loss = gist_loss(head.gist, head.vocabulary.weight, hidden, read)
            head = head.vocabulary
        loss = loss + vocabulary_loss(head, hidden, read)
        return Beside(self.weight * loss, read.count, ("class_loss", "reading_loss"))
