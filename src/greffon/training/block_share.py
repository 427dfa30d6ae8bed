"""How much the blocks of a body add to its embeddings, and how that is made less."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from greffon.nn.body import Body
from greffon.nn.masks import PADDING
from greffon.nn.model import Model
from greffon.objectives.batch import Batch

ROUNDS = 3
"""Corrections until the share is as wanted: what a sublayer adds depends a little on what those before it add."""


@contextmanager
def with_block_share(model: Model, batch: Batch, share: float) -> Iterator[None]:
    """Scale the output layers of all sublayers, for as long as the `with` block lasts.

    What the blocks add then has `share` times the size of the embeddings, measured on a batch. A body that has
    contrasted the documents of a small text adds hundreds of times their size, and mostly what is true of these
    documents alone; a little of it makes the embeddings better (docs/findings.md).
    """
    assert isinstance(model.body, Body)
    blocks: list[nn.Module] = list(model.body.blocks)
    layers = [p for block in blocks for linear in block.output_linears for p in linear.parameters()]  # type: ignore[union-attr]
    before = [p.detach().clone() for p in layers]
    try:
        for _ in range(ROUNDS):
            _scale(layers, share / max(block_share(model.body, batch), torch.finfo(torch.float32).tiny))
        yield
    finally:
        with torch.no_grad():
            for p, value in zip(layers, before, strict=True):
                p.copy_(value)


@torch.no_grad()
def block_share(body: Body, batch: Batch) -> float:
    """Return the root mean square of what the blocks add to the embeddings, divided by that of the embeddings."""
    seen: dict[str, Tensor] = {}
    watched = [
        body.embedding_norm.register_forward_hook(lambda module, given, out: seen.update(embedded=out)),
        body.norm.register_forward_pre_hook(lambda module, given: seen.update(summed=given[0])),
    ]
    was_training, batch = body.training, batch.to(body.embedding.weight.device)
    body.eval()
    try:
        body(batch.tokens, batch.document_ids, batch.positions)
    finally:
        body.train(was_training)
        for hook in watched:
            hook.remove()
    real = ... if batch.document_ids is None else batch.document_ids != PADDING
    embedded, summed = seen["embedded"][real], seen["summed"][real]
    return float(((summed - embedded).square().mean() / embedded.square().mean()).sqrt())


@torch.no_grad()
def _scale(layers: list[nn.Parameter], factor: float) -> None:
    for p in layers:
        p.mul_(factor)
