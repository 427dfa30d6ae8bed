"""The cross-entropy over the vocabulary, which all language models share."""

from torch import Tensor, nn

from greffon.nn.cross_entropy import summed_cross_entropy
from greffon.nn.heads import VocabularyHead
from greffon.objectives.batch import IGNORE, Batch


def vocabulary_loss(head: nn.Module, hidden: Tensor, batch: Batch, smoothing: float = 0.0) -> Tensor:
    """Sum the loss over all real targets; only their positions go through the vocabulary head."""
    assert isinstance(head, VocabularyHead)
    hidden, targets = hidden.flatten(0, 1), batch.targets.flatten()  # (B × T, W), (B × T)
    if batch.count < len(targets):
        real = targets != IGNORE
        hidden, targets = hidden[real], targets[real]
    return summed_cross_entropy(head.prepare(hidden), head.weight, head.bias, targets, smoothing, batch.micro_batch)
