"""The interface of objectives for training and evaluation."""

from typing import Protocol, runtime_checkable

from torch import Tensor

from greffon.nn.model import Model
from greffon.objectives.batch import Batch, Score


class Objective(Protocol):
    """An objective: it computes the loss of a batch."""

    def score(self, model: Model, batch: Batch) -> Score:
        """Sum the loss over the real targets of the batch."""
        ...


@runtime_checkable
class CrossBatchObjective(Objective, Protocol):
    """An objective whose loss of one row depends on all rows of a step, in whichever batch or process they are."""

    def vectors(self, model: Model, batch: Batch) -> Tensor:
        """Return what the loss is computed from: one vector for each row, (B, P)."""
        ...

    def gradients(self, vectors: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of each row of a step, (N,), and the gradient of their sum by each vector, (N, P)."""
        ...

    def score_part(self, model: Model, batch: Batch, losses: Tensor, gradients: Tensor) -> Score:
        """Sum the loss of a batch that is a part of a step, from what `gradients` returned for its rows."""
        ...
