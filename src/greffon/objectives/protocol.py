"""What the loop and the scorers need to know of an objective."""

from typing import Protocol

from greffon.nn.model import Model
from greffon.objectives.batch import Batch, Score


class Objective(Protocol):
    """What the loop needs to know of an objective."""

    def score(self, model: Model, batch: Batch) -> Score:
        """Sum the loss over the real targets of the batch."""
        ...
