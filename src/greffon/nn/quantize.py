"""Maps that no longer change, laid out in memory once or rounded: states then meet them fast.

PyTorch's own product lays the matrix out anew each time it is called; between a whole vocabulary and a few
rows, that takes longer than the product. oneDNN, which comes with PyTorch for most CPUs, can do it beforehand.
Where it is missing, and on other devices, a map stays as it is.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

ROWS = 64
"""For how many rows at a time the layout is chosen; others are multiplied just as rightly."""
LARGE = 1 << 17
"""Below so many numbers, the layout costs about as much as it saves."""


def _worth_it(weight: Tensor, least: int) -> bool:
    """Whether a matrix is one of a CPU, in full precision, and has at least so many numbers."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and weight.numel() >= least


def can_prepack(weight: Tensor) -> bool:
    """Whether a matrix can be laid out beforehand here, and is worth it."""
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return _worth_it(weight, LARGE) and available and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class PrepackedLinear(nn.Module):
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
ENGINES = ("x86", "fbgemm")
"""The parts of PyTorch that can compute with fewer bits as fast as their bytes come."""


def can_use_fp16(weight: Tensor) -> bool:
    """Whether a matrix can be read in half precision here, and is worth it."""
    return _worth_it(weight, VAST) and torch.backends.quantized.engine in ENGINES


class Fp16Linear(nn.Module):
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


class Int8Linear(nn.Module):
    """`nn.Linear` in 8-bit integers, for reading alone: (…, W) → (…, V).

    Every row of the matrix has a scale of its own, and so has every state: no text depends on those beside it. The
    matrix takes half the range, because CPUs without instructions made for this add two products in 16 bits.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.scales, whole = _quantized_rows(weight.detach(), 63)  # (V, 1), (V, W)
        self.matrix = whole.T.clone(memory_format=torch.contiguous_format)
        self.bias = None if bias is None else bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        """Map states, nearly as `F.linear` does."""
        scales, whole = _quantized_rows(x.flatten(0, -2), 127)
        out: Tensor = torch._int_mm(whole, self.matrix).float().mul_(scales).mul_(self.scales.T)
        if self.bias is not None:
            out += self.bias
        return out.view(*x.shape[:-1], -1)


def _quantized_rows(rows: Tensor, largest: int) -> tuple[Tensor, Tensor]:
    """Write rows as whole numbers up to ± `largest`, each times a scale: (N, W) → (N, 1), (N, W)."""
    scales = rows.abs().amax(dim=1, keepdim=True).clamp_(min=1e-30).div_(largest)
    return scales, (rows / scales).round_().to(torch.int8)


def can_quantize_int8() -> bool:
    """Whether PyTorch multiplies 8-bit integers here by oneDNN; without it, no machine is fast at it."""
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return available and hasattr(torch, "_int_mm")


def prepack_linears(module: nn.Module) -> None:
    """Lay out all large maps inside a module; it cannot be trained or saved afterwards."""
    _replace_linears(module, lambda map: PrepackedLinear(map.weight, map.bias) if can_prepack(map.weight) else map)


def quantize_linears_int8(module: nn.Module) -> None:
    """Turn all maps inside a module into 8-bit integers; it cannot be trained or saved afterwards."""
    _replace_linears(module, lambda map: Int8Linear(map.weight, map.bias))


def _replace_linears(module: nn.Module, change: Callable[[nn.Linear], nn.Module]) -> None:
    for part in module.modules():
        for name, child in part.named_children():
            if isinstance(child, nn.Linear):
                setattr(part, name, change(child))
