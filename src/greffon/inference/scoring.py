"""Scores on held-out text. Nothing here changes a model."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from greffon.core.answering import Search
from greffon.core.rng import generator
from greffon.data.tokenizer import Tokenizer
from greffon.inference.beam import search_all
from greffon.inference.bleu import bleu
from greffon.inference.vocabulary import vocabulary_of
from greffon.nn.model import Model
from greffon.objectives.batch import IGNORE, AuxiliaryLoss, Batch
from greffon.objectives.contrastive import NAMES, Contrastive
from greffon.objectives.protocol import Objective


@dataclass(frozen=True, eq=False)
class BatchLoss:
    """Loss of one batch, as sums."""

    nats: float
    targets: int
    """Number of tokens that were predicted."""
    bytes: int
    """Number of bytes of these tokens."""
    auxiliary: AuxiliaryLoss | None


@torch.no_grad()
def held_out_contrast(model: Model, objective: Contrastive, batches: Sequence[Batch]) -> dict[str, float]:
    """Return the mean losses of a view, their sum, and the share of contrasted views whose partner is the nearest.

    Copies of one text are not contrasted: where all views are such, there is no such share.
    """
    device = next(model.parameters()).device
    model.eval()
    contrast, words, found, count = 0.0, 0.0, 0, 0
    contrasted = contrasted_views(batches)
    for batch in batches:
        moved = batch.to(device)
        pooled = objective.pooled(model, moved)
        vectors = objective.project(model, pooled)
        contrast += objective.losses(vectors, moved.targets).sum().item()
        words += objective.word_losses(model, pooled, moved).sum().item()
        found, count = found + objective.found(vectors, moved.targets), count + batch.count
    means = dict(zip(NAMES, (contrast / count, words / count), strict=True))
    return {"loss": sum(means.values()), **means, **({"accuracy": found / contrasted} if contrasted else {})}


def contrasted_views(batches: Sequence[Batch]) -> int:
    """Count the views that are told from others: all but copies of one text."""
    return sum(int((batch.targets != IGNORE).sum()) for batch in batches)


@torch.no_grad()
def batch_losses(model: Model, objective: Objective, batches: Iterable[Batch]) -> list[BatchLoss]:
    """Return the loss of each batch."""
    device = next(model.parameters()).device
    model.eval()
    losses = []
    for batch in batches:
        score = objective.score(model, batch.to(device))
        losses.append(BatchLoss(score.loss.item(), batch.count, batch.bytes, score.auxiliary))
    return losses


def held_out_loss(model: Model, objective: Objective, batches: Iterable[Batch]) -> dict[str, float]:
    """Return nats per token, bits per byte (comparable across vocabularies), and the auxiliary losses by name."""
    return mean_losses(batch_losses(model, objective, batches))


def mean_losses(losses: Sequence[BatchLoss]) -> dict[str, float]:
    """Return the means over all batches, as `held_out_loss` does."""
    nats, targets, text_bytes = 0.0, 0, 0
    for loss in losses:  # not `sum`: since Python 3.12 it rounds differently
        nats, targets, text_bytes = nats + loss.nats, targets + loss.targets, text_bytes + loss.bytes
    others = [loss.auxiliary for loss in losses if loss.auxiliary is not None]
    scores = {"loss": nats / max(targets, 1), "bits_per_byte": nats / math.log(2) / max(text_bytes, 1)}
    if others and (count := sum(other.count for other in others)):
        name = others[0].names[1]
        scores[name] = sum(other.loss.item() for other in others) / count
        if others[0].right is not None:
            scores[name.replace("loss", "accuracy")] = sum(other.right or 0 for other in others) / count
    return scores


def loss_interval(losses: Sequence[BatchLoss], seed: int = 0, resamples: int = 1000) -> tuple[float, float] | None:
    """95 % percentile bootstrap interval of nats per token, resampling batches; None of fewer than two batches."""
    count = len(losses)
    if count < 2:
        return None
    nats, targets = np.array([[loss.nats, loss.targets] for loss in losses]).T
    weights = generator(seed, "bootstrap").multinomial(count, np.full(count, 1 / count), size=resamples)  # (R, N)
    low, high = np.percentile(weights @ nats / np.maximum(weights @ targets, 1), [2.5, 97.5])
    return float(low), float(high)


def longest_target(source: int, context: int) -> int:
    """Return the greatest number of tokens of a translation, from the length of its source alone."""
    return min(context, 2 * source + 10)


def held_out_bleu(
    model: Model, tokenizer: Tokenizer, sources: Sequence[np.ndarray], references: Sequence[str], context: int
) -> float:
    """Return the BLEU of greedy translations."""
    limits = [longest_target(len(source), context) for source in sources]
    words = vocabulary_of(tokenizer, model.body.vocab_size)
    found = search_all(model, sources, limits, Search(beam_size=1), words)
    return bleu([tokenizer.decode(best[0].tokens) for best in found], references)
