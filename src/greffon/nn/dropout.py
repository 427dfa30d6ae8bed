"""Dropout that draws one random byte for each feature: a fifth of the cost of drawing a float."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STEPS = 256
"""Probabilities are rounded to multiples of 1 / STEPS; the scale matches the rounded one."""


class _Keep(torch.autograd.Function):
    """x × kept × scale; one byte per feature is stored for the backward pass, not four."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, kept: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(kept)
        ctx.scale = scale
        return x * kept.to(x.dtype).mul_(scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (kept,) = ctx.saved_tensors
        return grads[0] * kept.to(grads[0].dtype).mul_(ctx.scale), None, None


class Dropout(nn.Module):
    """Set a share of the features to zero during training, and scale the others up.

    On a CPU, each 64-bit number of the global generator gives eight draws; other devices use PyTorch's dropout.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share
        self.hidden = max(1, min(STEPS - 1, round(STEPS * share))) if share else 0

    def forward(self, x: Tensor) -> Tensor:
        """Return the features, some of them zero."""
        if not (self.training and self.hidden):
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.share)
        numbers = torch.empty(-(-x.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
        kept = numbers.view(torch.uint8)[: x.numel()].view(x.shape) >= self.hidden
        out: Tensor = _Keep.apply(x, kept, STEPS / (STEPS - self.hidden))  # type: ignore[no-untyped-call]
        return out

    def extra_repr(self) -> str:
        """Show the share."""
        return f"share={self.share}"
