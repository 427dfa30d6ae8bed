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


def _worth_it(weight: Tensor, least: int) -> bool:
    """Whether a matrix is one of a CPU, in full precision, and has at least so many numbers."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and weight.numel() >= least


def can_pack(weight: Tensor) -> bool:
    """Whether a matrix can be laid out beforehand here, and is worth it."""
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return _worth_it(weight, LARGE) and available and hasattr(torch.ops.mkldnn, "_linear_pointwise")


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


FEW = 4
"""Rows up to which a large matrix costs its reading from memory, not the arithmetic."""
VAST = 1 << 22
"""Numbers of a matrix that no longer fits beside the rest in a core's cache."""
EXACT = 64
"""Tokens whose logits are computed in full, the highest ones."""
HALVING = ("x86", "fbgemm")
"""The parts of PyTorch that can read half precision as fast as its bytes come."""


def can_halve(weight: Tensor) -> bool:
    """Whether a matrix can be read in half precision here, and is worth it."""
    return _worth_it(weight, VAST) and torch.backends.quantized.engine in HALVING


class Halved(nn.Module):
    """A vocabulary's matrix for a few rows: read in half precision, and in full where it matters.

    Half the bytes are read in a fifth of the time. The highest logits are then computed from the matrix
    itself; the others, too low to be drawn but for their sum, are off by a thousandth.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.weight = weight.detach()
        self.bias = None if bias is None else bias.detach()
        self.rough = torch.ops.quantized.linear_prepack_fp16(self.weight, self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of all tokens: (B, W) → (B, V)."""
        logits: Tensor = torch.ops.quantized.linear_dynamic_fp16(x, self.rough)
        highest = logits.topk(min(EXACT, logits.shape[1])).indices  # (B, K)
        exact = torch.bmm(self.weight[highest], x.unsqueeze(2)).squeeze(2)
        return logits.scatter_(1, highest, exact if self.bias is None else exact + self.bias[highest])


def pack_maps(module: nn.Module) -> None:
    """Lay out all large maps inside a module; it cannot be trained or saved afterwards."""
    for part in module.modules():
        for name, child in part.named_children():
            if isinstance(child, nn.Linear) and can_pack(child.weight):
                setattr(part, name, Packed(child.weight, child.bias))
