"""THE training loop; there is exactly one. It logs nothing, saves nothing and draws nothing.

    for step in fit(model, objective, batches, optimizers, training):
        print(step.number, step.loss)

What a step sees depends on (seed, step) only: its batches, and the random numbers of dropout.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

import torch
from torch import Tensor

from greffon.core.rng import derive
from greffon.core.training import Training
from greffon.nn.cross_entropy import HeadGradients, MicroBatch
from greffon.nn.heads import MaskedHead, VocabularyHead
from greffon.nn.model import Model
from greffon.nn.sharding import whole
from greffon.objectives.batch import IGNORE, Batch, Score
from greffon.objectives.protocol import CrossBatchObjective, Objective
from greffon.training.distributed.base import SINGLE_PROCESS, ProcessGroup
from greffon.training.optim import clip_gradients, set_learning_rates
from greffon.training.schedule import Schedule
from greffon.training.spikes import SpikeDetector

LARGE_HEAD_RATIO = 4
"""A vocabulary head with this many times the parameters of the blocks is most of the work of a step."""
MICRO_BATCH_TARGETS = 512
"""Targets of a micro-batch, roughly, where the vocabulary head is most of the work: a chunk of the cross-entropy."""


@dataclass(frozen=True)
class Step:
    """What one optimizer step did."""

    number: int  # steps done so far, this one included
    loss: float  # mean over the targets, plus the mean auxiliary loss if there is one
    learning_rate: float
    grad_norm: float  # norm before clipping
    targets: int
    tokens: int  # positions computed, padding included
    bytes: int
    padding: float  # share of the positions that are padding
    seconds: float
    parts: Mapping[str, float] = field(default_factory=dict)  # main and auxiliary loss by name, if there are both
    skipped: str = ""  # why no weight was changed; empty if the weights were updated


def fit(
    model: Model,
    objective: Objective,
    batches: Callable[[int], Sequence[Batch]],
    optimizers: list[torch.optim.Optimizer],
    training: Training,
    schedule: Schedule | None = None,
    spikes: SpikeDetector | None = None,
    group: ProcessGroup = SINGLE_PROCESS,
) -> Iterator[Step]:
    """Train to the last step of the schedule (default: the steps of `training`), yielding after each step.

    `batches(step)` gives the batches of one step; their gradients are summed and divided by the
    number of real targets among them, so that N batches of one row equal one batch of N rows. With
    `spikes`, a step whose loss or gradient is not sound changes no weight. The processes of a group share
    the rows of each batch; everything else is the same. The schedule may be changed between two steps.
    """
    limit = _targets_per_micro_batch(model)
    schedule = schedule or Schedule(training)
    for number in count(schedule.done):
        if schedule.ends(number):
            return
        started = time.perf_counter()
        model.train()
        learning_rate = set_learning_rates(optimizers, number, schedule)
        shown = batches(number)
        parts = _micro_batches(shown, limit) if group.size == 1 else shown
        losses = _accumulate_gradients(model, objective, parts, (training.seed, number), group)
        grad_norm = whole(clip_gradients(model.parameters(), training.max_grad_norm)).item()
        skipped = "" if spikes is None else spikes.judge(losses.total, grad_norm, training)
        for optimizer in optimizers:
            if not skipped:
                optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        tokens = sum(batch.num_positions for batch in shown)
        yield Step(
            number=number + 1,
            loss=losses.total,
            learning_rate=learning_rate,
            grad_norm=grad_norm,
            targets=losses.targets,
            tokens=tokens,
            bytes=sum(batch.bytes for batch in shown),
            padding=sum(batch.padded for batch in shown) / tokens,
            seconds=time.perf_counter() - started,
            parts=losses.by_name,
            skipped=skipped,
        )


class _LossSums:
    """The main and the auxiliary loss of one step, each a mean over its targets in all batches of the step."""

    def __init__(self, batches: Sequence[Batch], group: ProcessGroup) -> None:
        self.group = group
        self.targets = max(1, sum(batch.count for batch in batches))
        self.auxiliary_targets = sum(batch.auxiliary_count for batch in batches)
        self.main = self.auxiliary = 0.0
        self.names = ("", "")

    def add(self, score: Score) -> Tensor:
        """Add the losses of one micro-batch, and return what of them is to be differentiated.

        The processes of a group average their gradients, while their losses are summed: hence the factor.
        """
        self.main += score.loss.item() / self.targets
        share = score.loss / (self.targets / self.group.size)
        # In a group every parameter takes part in every step, even the pair head's where there is no pair.
        if score.auxiliary is None or not (self.auxiliary_targets or self.group.size > 1):
            return share
        self.names = score.auxiliary.names
        auxiliary = score.auxiliary.loss / max(1, self.auxiliary_targets)
        self.auxiliary += auxiliary.item()
        return share + auxiliary * self.group.size

    def all_reduce(self) -> None:
        """Add the losses of all processes."""
        self.main, self.auxiliary = self.group.all_reduce(self.main, self.auxiliary)

    @property
    def total(self) -> float:
        """The loss of the step."""
        return self.main + self.auxiliary

    @property
    def by_name(self) -> dict[str, float]:
        """Both losses by name; empty where there is no auxiliary loss."""
        if not (self.auxiliary_targets and any(self.names)):
            return {}
        return dict(zip(self.names, (self.main, self.auxiliary), strict=True))


def _accumulate_gradients(
    model: Model, objective: Objective, batches: Sequence[Batch], place: tuple[int, int], group: ProcessGroup
) -> _LossSums:
    """Do the forward and backward pass of each batch of a step; `place` is (seed, step)."""
    seed, number = place
    losses = _LossSums(batches, group)
    seeds = [derive(seed, "dropout", number, i, *([] if group.is_main else [group.rank])) for i in range(len(batches))]
    objectives: Sequence[Objective] = [objective] * len(batches)
    if isinstance(objective, CrossBatchObjective) and (len(batches) > 1 or group.size > 1):
        objectives = _with_gradients(model, objective, batches, seeds, group)
    for i, batch in enumerate(batches):
        score = _forward(model, objectives[i], batch, seeds[i], group, last=i + 1 == len(batches))
        losses.add(score).backward()  # type: ignore[no-untyped-call]
    losses.all_reduce()
    return losses


@dataclass(frozen=True)
class _GivenGradients:
    """A cross-batch objective for one batch of a step, whose losses and gradients by its vectors are known."""

    objective: CrossBatchObjective
    losses: Tensor  # (B,)
    gradients: Tensor  # (B, P)

    def score(self, model: Model, batch: Batch) -> Score:
        """Return the loss that is known, with its gradient."""
        return self.objective.score_part(model, batch, self.losses, self.gradients)


def _with_gradients(
    model: Model,
    objective: CrossBatchObjective,
    batches: Sequence[Batch],
    seeds: Sequence[int],
    group: ProcessGroup,
) -> list[Objective]:
    """Compute the vectors of all batches of a step, of all processes, and what the loss of each batch then is.

    Each batch is computed once more for its backward pass, with the same dropout: exact, and only the activations of
    one batch are in memory at a time (GradCache, Gao et al., 2021).
    """
    collected, targets, owned, before = [], [], [], 0
    for batch, dropout_seed in zip(batches, seeds, strict=True):
        rows = len(batch.tokens)
        first, last = (rows * rank // group.size for rank in (group.rank, group.rank + 1))
        with torch.no_grad():
            own = _vectors(model, objective, batch, dropout_seed, group)[: last - first]
        collected.append(group.sum_rows(own, first, rows))
        targets.append(torch.where(batch.targets == IGNORE, IGNORE, batch.targets + before))
        owned.append(slice(first, last))
        before += rows
    losses, gradients = objective.gradients(torch.cat(collected), torch.cat(targets).to(collected[0].device))
    sizes = [len(batch.tokens) for batch in batches]
    parts = zip(torch.split(losses, sizes), torch.split(gradients, sizes), owned, strict=True)
    return [
        _GivenGradients(objective, *((loss[rows], gradient[rows]) if rows.stop > rows.start else _nothing(gradient)))
        for loss, gradient, rows in parts
    ]


def _nothing(like: Tensor) -> tuple[Tensor, Tensor]:
    """Return the loss and gradient of the one row that a process without rows computes: it changes nothing."""
    return like.new_zeros(1), like.new_zeros(1, like.shape[1])


def _vectors(
    model: Model, objective: CrossBatchObjective, batch: Batch, dropout_seed: int, group: ProcessGroup
) -> Tensor:
    """Compute the vectors of this process's share of a batch."""
    own = group.shard_batch(batch).to(next(model.parameters()).device)
    with _dropout_seeded(model, dropout_seed):
        return group.forward(model, lambda inner: objective.vectors(inner, own), last=False)


@contextmanager
def _dropout_seeded(model: Model, dropout_seed: int) -> Iterator[None]:
    """Seed the global generator, from which dropout draws, and restore it afterwards."""
    device = next(model.parameters()).device
    other, others = (None, []) if device.type == "cpu" else (device.type, [device])
    with torch.random.fork_rng(others, device_type=other):
        torch.manual_seed(dropout_seed)
        yield


def _forward(
    model: Model, objective: Objective, batch: Batch, dropout_seed: int, group: ProcessGroup, *, last: bool
) -> Score:
    """Score this process's share of a batch; in the backward pass of the `last` one, processes exchange gradients."""
    own = group.shard_batch(batch).to(next(model.parameters()).device)
    with _dropout_seeded(model, dropout_seed):
        return group.forward(model, partial(_score, objective, own), last=last)[-1]


def _score(objective: Objective, batch: Batch, model: Model) -> tuple[Tensor, Tensor | None, Score]:
    """Score a batch; the losses are also returned as tensors, where DDP and FSDP look for them."""
    score = objective.score(model, batch)
    return score.loss, None if score.auxiliary is None else score.auxiliary.loss, score


def _targets_per_micro_batch(model: Model) -> int | None:
    """Return the limit of targets that are computed at once; None: all of a batch.

    Where the vocabulary head is most of the work, the body computes some rows at a time: it keeps a fraction
    of the activations, and loses next to no speed.
    """
    head = model.head.vocabulary if isinstance(model.head, MaskedHead) else model.head
    if not isinstance(head, VocabularyHead) or head.weight.device.type != "cpu":
        return None
    blocks = sum(p.numel() for name, p in model.named_parameters() if ".blocks." in name)
    return MICRO_BATCH_TARGETS if head.weight.numel() >= LARGE_HEAD_RATIO * blocks else None


def _micro_batches(batches: Sequence[Batch], limit: int | None) -> Sequence[Batch]:
    """Cut the batches of a step into what is computed at once; they share the gradient of the vocabulary head."""
    parts = batches if limit is None else [piece for batch in batches for piece in batch.pieces(limit)]
    gradients = HeadGradients()
    last = len(parts) - 1
    return [replace(part, micro_batch=MicroBatch(gradients, is_last=i == last)) for i, part in enumerate(parts)]
