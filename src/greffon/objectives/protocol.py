"""The interface of objectives for training and evaluation."""

from typing import Protocol

from greffon.nn.model import Model
from greffon.objectives.batch import Batch, Score


class Objective(Protocol):
    """An objective: it computes the loss of a batch."""

    def score(self, model: Model, batch: Batch) -> Score:
        """Sum the loss over the real targets of the batch."""
        ...
