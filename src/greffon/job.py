"""All that training needs beside the model; what it is for each objective stands in `jobs`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from greffon.fit import Objective
from greffon.nn.model import Model
from greffon.objectives.batch import Batch

HELD_OUT_SHARE = 0.01
SCORING_TOKENS = 8192
"""Padded tokens of a batch when texts are only scored: large enough to keep the cores busy."""


@dataclass(frozen=True)
class Job:
    """All that training needs beside the model."""

    objective: Objective
    batches: Callable[[int], Sequence[Batch]]  # the batches of a step
    evaluate: Callable[[Model], dict[str, float]]
    merit: Callable[[Mapping[str, float]], tuple[float, ...]]  # which scores are best: the highest
    digest: str  # the identity of the data
    summary: str  # one line about the data
    epoch: int = 0  # steps of one pass over the data, where training is counted in passes


def lowest_loss(scores: Mapping[str, float]) -> tuple[float, ...]:
    """Prefer the lowest held-out loss of tokens: pairs are too few to choose anything by."""
    return (-scores["loss"],)
