"""Maps that no longer change, laid out in memory once: a few rows of states then meet them fast.

PyTorch's own product lays the matrix out anew each time it is called; between a whole vocabulary and a few
rows, that takes longer than the product. oneDNN, which comes with PyTorch for most CPUs, can do it beforehand.
Where it is missing, and on other devices, a map stays as it is.
"""

import torch
from torch import Tensor, nn

ROWS = 64
"""For how many rows at a time the layout is chosen; others are multiplied just as rightly."""
LARGE = 1 << 17
"""Below so many numbers, the layout costs about as much as it saves."""


def can_pack(weight: Tensor) -> bool:
    """Whether a matrix can be laid out beforehand here, and is worth it."""
    if weight.device.type != "cpu" or weight.dtype != torch.float32 or weight.numel() < LARGE:
        return False
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return available and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class Packed(nn.Module):
    """`nn.Linear` for reading alone: (…, W) → (…, V)."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.matrix = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), ROWS)
        self.bias = None if bias is None else bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        """Map states, as `F.linear` does."""
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.matrix, self.bias, "none", [], "")
        return out


def pack_maps(module: nn.Module) -> None:
    """Lay out all large maps inside a module; it cannot be trained or saved afterwards."""
    for part in module.modules():
        for name, child in part.named_children():
            if isinstance(child, nn.Linear) and can_pack(child.weight):
                setattr(part, name, Packed(child.weight, child.bias))
