"""THE training loop; there is exactly one. It logs nothing, saves nothing and draws nothing.

    for step in fit(model, objective, batches, optimizers, training):
        print(step.number, step.loss)

What a step sees depends on (seed, step) only: its batches, and the random numbers of dropout.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from greffon.core.config import Training
from greffon.core.rng import derive
from greffon.nn.cross_entropy import MicroBatch
from greffon.nn.heads import MaskedHead, VocabularyHead
from greffon.nn.model import Model
from greffon.nn.sharding import whole
from greffon.objectives.batch import Batch, Score
from greffon.objectives.protocol import Objective
from greffon.training.distributed.base import SINGLE_PROCESS, ProcessGroup
from greffon.training.optim import clip_gradients, set_learning_rates
from greffon.training.spikes import SpikeDetector

VAST = 4
"""A vocabulary head of this many times the blocks' parameters is most of the work,"""
PASS = 512
"""and a CPU then reads a batch in passes of about as many targets."""


@dataclass(frozen=True)
class Step:
    """What one optimizer step did."""

    number: int  # steps done so far, this one included
    loss: float  # mean over real targets; with what is learnt beside them, both means summed
    learning_rate: float
    grad_norm: float  # norm before clipping
    targets: int
    tokens: int  # positions computed, padding included
    bytes: int
    padding: float  # the share of positions that are padding
    seconds: float
    parts: Mapping[str, float] = field(default_factory=dict)  # what the loss is the sum of, if of several
    skipped: str = ""  # why the step changed nothing, if so


def fit(
    model: Model,
    objective: Objective,
    batches: Callable[[int], Sequence[Batch]],
    optimizers: list[torch.optim.Optimizer],
    training: Training,
    done: int = 0,
    health: SpikeDetector | None = None,
    group: ProcessGroup = SINGLE_PROCESS,
) -> Iterator[Step]:
    """Train from step `done` to the last, yielding after each step.

    `batches(step)` gives the batches of one step; their gradients are summed and divided by the
    number of real targets among them, so that N batches of one row equal one batch of N rows. With
    `health`, a step whose numbers went wrong changes no weight. A group shares the rows of each batch
    out, and nothing else changes.
    """
    device = next(model.parameters()).device
    most = _targets_a_pass(model)
    other, others = (None, []) if device.type == "cpu" else (device.type, [device])
    for number in range(done, training.steps):
        started = time.perf_counter()
        model.train()
        rate = set_learning_rates(optimizers, number, training)
        shown = batches(number)
        parts = _passes(shown, most) if group.size == 1 else shown
        targets = max(1, sum(part.count for part in parts))
        beside = sum(part.auxiliary_count for part in parts)
        loss = beside_loss = 0.0
        names = ("", "")
        own_targets = targets / group.size  # gradients are averaged over the group, losses are summed
        for i, part in enumerate(parts):
            own = group.shard_batch(part).to(device)
            place = (number, i) if group.is_main else (number, i, group.rank)
            # Dropout draws from the global generator: lend it a seed of this place, then give it back.
            with torch.random.fork_rng(others, device_type=other):
                torch.manual_seed(derive(training.seed, "dropout", *place))
                score = group.forward(model, partial(_score, objective, own), last=i + 1 == len(parts))[-1]
            share = score.loss / own_targets
            # In a group every weight takes part in every step, even the pair head's where there is no pair.
            if score.auxiliary is not None and (beside or group.size > 1):
                names = score.auxiliary.names
                beside_share = score.auxiliary.loss / max(1, beside)
                beside_loss += beside_share.item()
                share = share + beside_share * group.size
            share.backward()  # type: ignore[no-untyped-call]
            loss += score.loss.item() / targets
        loss, beside_loss = group.all_reduce(loss, beside_loss)
        gradient = whole(clip_gradients(model.parameters(), training.max_grad_norm)).item()
        wrong = "" if health is None else health.judge(loss + beside_loss, gradient, training)
        for optimizer in optimizers:
            if not wrong:
                optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        yield Step(
            number=number + 1,
            loss=loss + beside_loss,
            learning_rate=rate,
            grad_norm=gradient,
            targets=targets,
            tokens=sum(batch.num_positions for batch in shown),
            bytes=sum(batch.bytes for batch in shown),
            padding=sum(batch.padded for batch in shown) / sum(batch.num_positions for batch in shown),
            seconds=time.perf_counter() - started,
            parts=dict(zip(names, (loss, beside_loss), strict=True)) if beside and any(names) else {},
            skipped=wrong,
        )


def _targets_a_pass(model: Model) -> int | None:
    """Say how many targets are computed at once; None: all of a batch.

    Where the vocabulary head is most of the work, the body reads some rows at a time: it remembers a fraction
    of what it would for all of them, and loses next to nothing.
    """
    head = model.head.vocabulary if isinstance(model.head, MaskedHead) else model.head
    if not isinstance(head, VocabularyHead) or head.weight.device.type != "cpu":
        return None
    blocks = sum(p.numel() for name, p in model.named_parameters() if ".blocks." in name)
    return PASS if head.weight.numel() >= VAST * blocks else None


def _passes(batches: Sequence[Batch], most: int | None) -> Sequence[Batch]:
    """Cut the batches of a step into what is computed at once, and number them."""
    parts = batches if most is None else [piece for batch in batches for piece in batch.pieces(most)]
    return [replace(part, micro_batch=MicroBatch(i, len(parts))) for i, part in enumerate(parts)]


def _score(objective: Objective, batch: Batch, model: Model) -> tuple[Tensor, Tensor | None, Score]:
    """Score a batch; the losses stand beside the score, where whoever wraps the model finds them."""
    score = objective.score(model, batch)
    return score.loss, None if score.auxiliary is None else score.auxiliary.loss, score
