"""The interface of what a task makes of one vector a text: a target, a loss, and an output."""

from collections.abc import Sequence
from typing import Any, Protocol

from torch import Tensor

from greffon.data.corpora import Labelled


class Targets(Protocol):
    """The targets of one kind of label."""

    def of(self, example: Labelled) -> Any:
        """Return the target of a text; any target for a text without a label."""
        ...

    def stack(self, targets: Sequence[Any]) -> Tensor:
        """Return the targets of a batch as a tensor, whose first dimension is the texts."""
        ...

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Sum the loss over all targets; those that are IGNORE count nothing."""
        ...

    def outputs(self, logits: Tensor) -> Tensor:
        """Return what the logits mean: probabilities, or scores as they are in the file: (N, C)."""
        ...
