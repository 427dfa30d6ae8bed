"""Linear layers for inference: prepacked, in half precision, or in 8-bit integers.

PyTorch's matrix product reorders the matrix in memory at each call; for a whole vocabulary and a few rows, that
takes longer than the product. oneDNN, which comes with PyTorch for most CPUs, can reorder it beforehand. Where it
is missing, and on other devices, a layer stays as it is.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

ROWS = 64
"""Number of rows that the layout is optimised for; any number is computed correctly."""
LARGE = 1 << 17
"""Smallest matrix that is prepacked, in numbers: below, it costs about as much as it saves."""


def _worth_it(weight: Tensor, least: int) -> bool:
    """Whether a matrix is on the CPU, in fp32, and has at least `least` numbers."""
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and weight.numel() >= least


def can_prepack(weight: Tensor) -> bool:
    """Whether a matrix can be prepacked here, and is large enough to gain from it."""
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return _worth_it(weight, LARGE) and available and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class PrepackedLinear(nn.Module):
    """A prepacked `nn.Linear` for inference: (…, W) → (…, V)."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.matrix = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), ROWS)
        self.bias = None if bias is None else bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        """Do what `F.linear` does."""
        out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.matrix, self.bias, "none", [], "")
        return out


FEW = 4
"""Maximum number of rows for which reading a large matrix from memory costs more than the arithmetic."""
VAST = 1 << 22
"""Smallest matrix that is read in half precision, in numbers: it no longer fits a core's cache."""
EXACT = 64
"""Number of highest logits that are computed again in full precision."""
ENGINES = ("x86", "fbgemm")
"""PyTorch's quantization engines with fast fp16 products."""


def can_use_fp16(weight: Tensor) -> bool:
    """Whether a matrix can be read in half precision here, and is large enough to gain from it."""
    return _worth_it(weight, VAST) and torch.backends.quantized.engine in ENGINES


class Fp16Linear(nn.Module):
    """A vocabulary's matrix for a few rows: in half precision, with the highest logits in full precision.

    Half the bytes are read in a fifth of the time. The highest logits are then computed again from the fp32 matrix;
    the others have an error of about a thousandth, and matter for their sum only.
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
    """`nn.Linear` in 8-bit integers, for inference: (…, W) → (…, V).

    Every row of the matrix and every state has its own scale, so that no text depends on others in its batch. The
    matrix uses half the range, because CPUs without VNNI instructions add two products in 16 bits.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.scales, whole = _quantized_rows(weight.detach(), 63)  # (V, 1), (V, W)
        self.matrix = whole.T.clone(memory_format=torch.contiguous_format)
        self.bias = None if bias is None else bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        """Do approximately what `F.linear` does."""
        scales, whole = _quantized_rows(x.flatten(0, -2), 127)
        out: Tensor = torch._int_mm(whole, self.matrix).float().mul_(scales).mul_(self.scales.T)
        if self.bias is not None:
            out += self.bias
        return out.view(*x.shape[:-1], -1)


def _quantized_rows(rows: Tensor, largest: int) -> tuple[Tensor, Tensor]:
    """Quantize rows to integers up to ± `largest`, with a scale for each row: (N, W) → (N, 1), (N, W)."""
    scales = rows.abs().amax(dim=1, keepdim=True).clamp_(min=1e-30).div_(largest)
    return scales, (rows / scales).round_().to(torch.int8)


def can_quantize_int8() -> bool:
    """Whether PyTorch can multiply 8-bit integers by oneDNN here; without it, they are slower than fp32."""
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return available and hasattr(torch, "_int_mm")


def prepack_linears(module: nn.Module) -> None:
    """Prepack all large linear layers of a module; it cannot be trained or saved afterwards."""
    _replace_linears(module, lambda old: PrepackedLinear(old.weight, old.bias) if can_prepack(old.weight) else old)


def quantize_linears_int8(module: nn.Module) -> None:
    """Quantize all linear layers of a module to 8-bit integers; it cannot be trained or saved afterwards."""
    _replace_linears(module, lambda old: Int8Linear(old.weight, old.bias))


def _replace_linears(module: nn.Module, change: Callable[[nn.Linear], nn.Module]) -> None:
    for part in module.modules():
        for name, child in part.named_children():
            if isinstance(child, nn.Linear):
                setattr(part, name, change(child))
