"""Held-out scores. Nothing here changes a model."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import torch

from greffon.data.tokenizer import Tokenizer
from greffon.inference.beam import Search, Vocabulary, search_all
from greffon.inference.bleu import bleu
from greffon.nn.model import Model
from greffon.objectives.batch import AuxiliaryLoss, Batch
from greffon.objectives.classify import class_probabilities
from greffon.objectives.protocol import Objective

MIN_PROBABILITY = 1e-12
"""Lower bound of a probability in a loss: one that is 0 in fp32 would make the mean over all texts infinite."""


@torch.no_grad()
def held_out_loss(model: Model, objective: Objective, batches: Iterable[Batch]) -> dict[str, float]:
    """Return nats a token, and bits per byte, which compare across vocabularies; what is learnt beside, apart."""
    device = next(model.parameters()).device
    model.eval()
    nats, targets, text_bytes = 0.0, 0, 0
    others: list[AuxiliaryLoss] = []
    for batch in batches:
        score = objective.score(model, batch.to(device))
        nats += score.loss.item()
        targets, text_bytes = targets + batch.count, text_bytes + batch.bytes
        if score.auxiliary is not None:
            others.append(score.auxiliary)
    scores = {"loss": nats / max(targets, 1), "bits_per_byte": nats / math.log(2) / max(text_bytes, 1)}
    if others and (count := sum(other.count for other in others)):
        name = others[0].names[1]
        scores[name] = sum(other.loss.item() for other in others) / count
        if others[0].right is not None:
            scores[name.replace("loss", "accuracy")] = sum(other.right or 0 for other in others) / count
    return scores


def held_out_accuracy(model: Model, batches: Sequence[Batch]) -> dict[str, float]:
    """Return the share of texts given their right class, and the mean loss."""
    probabilities = class_probabilities(model, batches)
    targets = torch.cat([batch.targets for batch in batches])
    right = (probabilities.argmax(dim=-1) == targets).double().mean().item()
    loss = torch.nn.functional.nll_loss(probabilities.clamp(min=MIN_PROBABILITY).log(), targets.clamp(min=0)).item()
    return {"accuracy": right, "loss": loss}


def translation_vocabulary(tokenizer: Tokenizer, vocabulary: int) -> Vocabulary:
    """Name the roles that a search must know; none of them but the end is ever written, nor ids without a token."""
    roles = {tokenizer.pad, tokenizer.start, tokenizer.cls, tokenizer.sep, tokenizer.mask} - {tokenizer.end}
    roles |= {*range(tokenizer.size, vocabulary)}
    return Vocabulary(tokenizer.pad, tokenizer.start, tokenizer.end, tuple(sorted(roles)))


def longest_target(source: int, context: int) -> int:
    """Say how many tokens a translation may have: it depends on its own source alone."""
    return min(context, 2 * source + 10)


def held_out_bleu(
    model: Model, tokenizer: Tokenizer, sources: Sequence[np.ndarray], references: Sequence[str], context: int
) -> float:
    """Return the BLEU of greedy translations."""
    limits = [longest_target(len(source), context) for source in sources]
    found = search_all(
        model, sources, limits, Search(beam_size=1), translation_vocabulary(tokenizer, model.body.vocab_size)
    )
    return bleu([tokenizer.decode(best[0].tokens) for best in found], references)
