"""RMSNorm, as PyTorch has it, in a form that can also be written as an ONNX graph."""

import torch
from torch import Tensor, nn


class RMSNorm(nn.RMSNorm):
    """`nn.RMSNorm`; an ONNX graph gets the operations that it consists of, because the exporter lacks it."""

    def forward(self, x: Tensor) -> Tensor:
        """Divide by the root of the mean of squares, and multiply by the weight."""
        if not torch.onnx.is_in_onnx_export():
            return super().forward(x)
        assert self.eps is not None
        return x * (x.square().mean(dim=-1, keepdim=True) + self.eps).rsqrt() * self.weight
