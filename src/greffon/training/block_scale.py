"""What the blocks of a body add to its embeddings, made a smaller addition."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from greffon.nn.blocks import Block
from greffon.nn.model import Model


@contextmanager
def scaled_blocks(model: Model, factor: float) -> Iterator[None]:
    """Multiply the output layers of all sublayers by a factor, for as long as the `with` block lasts.

    A body trained by contrast on a small text adds much more to its embeddings than what they say, and what it adds
    is about the documents it has seen. Made small, it is worth having beside the embeddings (docs/findings.md).
    """
    if factor == 1.0:
        yield
        return
    blocks = [module for module in model.modules() if isinstance(module, Block)]
    layers = [p for block in blocks for linear in block.output_linears for p in linear.parameters()]
    before = [p.detach().clone() for p in layers]
    with torch.no_grad():
        for p in layers:
            p.mul_(factor)
    try:
        yield
    finally:
        with torch.no_grad():
            for p, value in zip(layers, before, strict=True):
                p.copy_(value)
