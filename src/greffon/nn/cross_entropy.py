"""The vocabulary head and its cross-entropy in one pass, a few hundred rows at a time.

The full matrix of logits (tokens × vocabulary) is the largest thing a small language model makes,
and on a CPU most of its cost is the operating system handing out fresh memory. Here one small buffer
serves all chunks: each chunk's logits become its softmax, then its gradient, in place. The gradients
are therefore ready after the forward pass; the backward pass only scales them.

Where several micro-batches make one step, the gradient of the matrix is summed in one place (`HeadGradients`) and
handed to autograd with the last of them: autograd would allocate a new gradient for each, and add it.

With label smoothing ε the target has probability 1 − ε, and ε is spread evenly over the vocabulary.
"""

import threading
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK = 512
"""Maximum rows of a chunk."""
LARGEST = 13 * 2**20
"""Maximum numbers in the buffer: 52 MB, about 270 rows of a vocabulary of 50,000. It is kept from step to step."""
BLOCK = 16
"""Rows whose softmax is taken at once: few enough to stay in the cache while their maximum is searched."""
LINE = 64
"""Rows of the buffer begin at multiples of this: matrix products of odd vocabulary sizes are a quarter faster so."""
PANEL = 1024
"""Tokens whose logits are computed at once: their part of the matrix, and of the buffer, stays in the cache."""
FAR = -60.0
"""A log-probability below this is computed from the logits: as a probability it may have become zero."""


_kept = threading.local()


def _scratch(size: int, like: Tensor) -> Tensor:
    """Return the thread's buffer. It carries nothing from call to call; freed each time, it would leave holes."""
    buffer: Tensor | None = getattr(_kept, "buffer", None)
    if buffer is None or len(buffer) < size or buffer.device != like.device or buffer.dtype != like.dtype:
        buffer = _kept.buffer = like.new_empty(size)
    return buffer[:size]


@dataclass
class HeadGradients:
    """The gradients of a head's matrix and bias, summed over the micro-batches of one step."""

    weight: Tensor | None = None
    bias: Tensor | None = None

    def sums(self, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the sums of the micro-batches so far, to be added to in place; zeros for the first one."""
        if self.weight is None:
            self.weight = torch.zeros_like(weight)
            self.bias = None if bias is None else torch.zeros_like(bias)
        return self.weight, self.bias

    def release(self) -> None:
        """Drop the sums once they are handed over: autograd copies a gradient that anyone else holds."""
        self.weight = self.bias = None


@dataclass(frozen=True)
class MicroBatch:
    """The place of a batch among the micro-batches of one step, which share `gradients`."""

    gradients: HeadGradients = field(default_factory=HeadGradients)
    is_last: bool = True


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        smoothing: float,
        micro_batch: MicroBatch,
    ) -> Tensor:
        rows = len(targets)
        total = hidden.new_zeros(())
        grad_hidden = torch.empty_like(hidden)
        grad_weight, grad_bias = micro_batch.gradients.sums(weight, bias)
        line = -(-len(weight) // LINE) * LINE
        chunk = max(BLOCK, min(rows, CHUNK, LARGEST // line))
        buffer = _scratch(chunk * line, hidden).view(chunk, line)
        for start in range(0, rows, chunk):
            part, wanted = hidden[start : start + chunk], targets[start : start + chunk].unsqueeze(1)
            lines = buffer[: len(part)]
            logits = lines[:, : len(weight)]
            for first in range(0, len(weight), PANEL):
                tokens = slice(first, first + PANEL)
                if bias is None:
                    torch.mm(part, weight[tokens].T, out=logits[:, tokens])
                else:
                    torch.addmm(bias[tokens], part, weight[tokens].T, out=logits[:, tokens])
            picked = logits.gather(1, wanted)
            if smoothing:
                total += smoothing * (picked - logits.mean(1, keepdim=True)).sum()
            lines[:, len(weight) :] = -torch.inf  # the softmax of a line ends in zeros
            for block in torch.split(lines, BLOCK):
                torch.softmax(block, 1, out=block)
            lost = logits.gather(1, wanted).log()
            if (far := lost.squeeze(1) < FAR).any():
                lost[far] = picked[far] - F.linear(part[far], weight, bias).logsumexp(1, keepdim=True)
            total -= lost.sum()
            if smoothing:
                logits.sub_(smoothing / len(weight))
            logits.scatter_add_(1, wanted, torch.full_like(picked, smoothing - 1.0))  # now the gradient
            torch.mm(logits, weight, out=grad_hidden[start : start + chunk])
            grad_weight.addmm_(logits.T, part)
            if grad_bias is not None:
                grad_bias += logits.sum(0)
        ctx.gradients = (grad_hidden, grad_weight, grad_bias) if micro_batch.is_last else (grad_hidden, None, None)
        if micro_batch.is_last:
            micro_batch.gradients.release()
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        # They are handed over, not copied: each copy would be as large as the head itself.
        assert ctx.gradients is not None, "the gradients of a micro-batch are handed over once"
        found, ctx.gradients = ctx.gradients, None
        return *(None if gradient is None else gradient.mul_(grads[0]) for gradient in found), None, None, None


def summed_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    targets: Tensor,
    smoothing: float = 0.0,
    micro_batch: MicroBatch | None = None,
) -> Tensor:
    """Sum the cross-entropy of (N,) targets under `hidden @ weight.T + bias`; hidden is (N, W).

    The micro-batches of one step come one after another, each with its backward pass, all scaled alike: the last one
    hands over the gradients of matrix and bias. Without `micro_batch`, the call is the only one of its step.
    """
    loss: Tensor
    if torch.is_grad_enabled():
        loss = _ChunkedCrossEntropy.apply(hidden, weight, bias, targets, smoothing, micro_batch or MicroBatch())  # type: ignore[no-untyped-call]
        return loss
    loss = hidden.new_zeros(())
    for part, wanted in zip(torch.split(hidden, CHUNK), torch.split(targets, CHUNK), strict=True):
        logits = F.linear(part, weight, bias)
        loss += F.cross_entropy(logits, wanted, reduction="sum", label_smoothing=smoothing)
    return loss
