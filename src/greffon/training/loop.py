"""THE training loop; there is exactly one. It logs nothing, saves nothing and draws nothing.

    for step in fit(model, objective, batches, optimisers, training):
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
from greffon.nn.cross_entropy import Turn
from greffon.nn.heads import MaskedHead, VocabularyHead
from greffon.nn.model import Model
from greffon.nn.sharding import whole
from greffon.objectives.batch import Batch, Score
from greffon.objectives.protocol import Objective
from greffon.training.distributed.base import ALONE, Crew
from greffon.training.optim import clip, set_rates
from greffon.training.spikes import Health

VAST = 4
"""A vocabulary head of this many times the blocks' parameters is most of the work,"""
PASS = 512
"""and a CPU then reads a batch in passes of about as many targets."""


@dataclass(frozen=True)
class Step:
    """What one optimiser step did."""

    number: int  # steps done so far, this one included
    loss: float  # mean over real targets; with what is learnt beside them, both means summed
    rate: float
    gradient: float  # norm before clipping
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
    optimisers: list[torch.optim.Optimizer],
    training: Training,
    done: int = 0,
    health: Health | None = None,
    crew: Crew = ALONE,
) -> Iterator[Step]:
    """Train from step `done` to the last, yielding after each step.

    `batches(step)` gives the batches of one step; their gradients are summed and divided by the
    number of real targets among them, so that N batches of one row equal one batch of N rows. With
    `health`, a step whose numbers went wrong changes no weight. A crew shares the rows of each batch
    out, and nothing else changes.
    """
    device = next(model.parameters()).device
    most = _targets_a_pass(model)
    other, others = (None, []) if device.type == "cpu" else (device.type, [device])
    for number in range(done, training.steps):
        started = time.perf_counter()
        model.train()
        rate = set_rates(optimisers, number, training)
        shown = batches(number)
        parts = _passes(shown, most) if crew.size == 1 else shown
        targets = max(1, sum(part.count for part in parts))
        beside = sum(part.beside for part in parts)
        loss = beside_loss = 0.0
        names = ("", "")
        own_targets = targets / crew.size  # gradients are averaged over the crew, losses are summed
        for i, part in enumerate(parts):
            own = crew.part(part).to(device)
            place = (number, i) if crew.leads else (number, i, crew.rank)
            # Dropout draws from the global generator: lend it a seed of this place, then give it back.
            with torch.random.fork_rng(others, device_type=other):
                torch.manual_seed(derive(training.seed, "dropout", *place))
                score = crew.within(model, partial(_score, objective, own), last=i + 1 == len(parts))[-1]
            share = score.loss / own_targets
            # In a crew every weight takes part in every step, even the pair head's where there is no pair.
            if score.beside is not None and (beside or crew.size > 1):
                names = score.beside.names
                beside_share = score.beside.loss / max(1, beside)
                beside_loss += beside_share.item()
                share = share + beside_share * crew.size
            share.backward()  # type: ignore[no-untyped-call]
            loss += score.loss.item() / targets
        loss, beside_loss = crew.total(loss, beside_loss)
        gradient = whole(clip(model.parameters(), training.clip)).item()
        wrong = "" if health is None else health.judge(loss + beside_loss, gradient, training)
        for optimiser in optimisers:
            if not wrong:
                optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        yield Step(
            number=number + 1,
            loss=loss + beside_loss,
            rate=rate,
            gradient=gradient,
            targets=targets,
            tokens=sum(batch.places for batch in shown),
            bytes=sum(batch.bytes for batch in shown),
            padding=sum(batch.padded for batch in shown) / sum(batch.places for batch in shown),
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
    return [replace(part, turn=Turn(i, len(parts))) for i, part in enumerate(parts)]


def _score(objective: Objective, batch: Batch, model: Model) -> tuple[Tensor, Tensor | None, Score]:
    """Score a batch; the losses stand beside the score, where whoever wraps the model finds them."""
    score = objective.score(model, batch)
    return score.loss, None if score.beside is None else score.beside.loss, score
