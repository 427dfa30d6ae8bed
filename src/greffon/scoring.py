"""Held-out scores. Nothing here changes a model."""

import math
from collections.abc import Iterable, Sequence

import torch

from greffon.fit import Objective
from greffon.nn.model import Model
from greffon.objectives.batch import Batch
from greffon.objectives.classify import class_probabilities


@torch.no_grad()
def held_out_loss(model: Model, objective: Objective, batches: Iterable[Batch]) -> dict[str, float]:
    """Return nats a token, and bits per byte, which compare across vocabularies."""
    device = next(model.parameters()).device
    model.eval()
    nats, targets, text_bytes = 0.0, 0, 0
    for batch in batches:
        nats += objective.score(model, batch.to(device)).loss.item()
        targets, text_bytes = targets + batch.count, text_bytes + batch.bytes
    return {"loss": nats / max(targets, 1), "bits_per_byte": nats / math.log(2) / max(text_bytes, 1)}


def held_out_accuracy(model: Model, batches: Sequence[Batch]) -> dict[str, float]:
    """Return the share of texts given their right class, and the mean loss."""
    chances = class_probabilities(model, batches)
    targets = torch.cat([batch.targets for batch in batches])
    right = (chances.argmax(dim=-1) == targets).double().mean().item()
    loss = torch.nn.functional.nll_loss(chances.clamp(min=1e-12).log(), targets.clamp(min=0)).item()
    return {"accuracy": right, "loss": loss}
