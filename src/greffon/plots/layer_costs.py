"""Measured time and memory of attention, recurrence and convolution, compared with the theory.

The theory is that of "Attention is all you need", table 1: self-attention n² d, recurrence n d²,
convolution k n d². As there, attention is the weighted sum alone, without the linear layers around it. Time
is processor time of one forward pass on one core; memory is what autograd keeps of that pass for the
backward pass, without parameters and input.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from greffon.core.json_results import JsonResult
from greffon.core.machine import keep_memory

Against = Literal["length", "width", "kernel"]
What = Literal["time", "memory"]
ATTENTION, FUSED, RECURRENCE, CONVOLUTION = "self-attention", "self-attention, fused", "recurrence", "convolution"


@dataclass(frozen=True)
class Theory:
    """Cost of a layer up to a constant factor, as a function of length n, width d and kernel size k."""

    time: Callable[[int, int, int], int]
    memory: Callable[[int, int, int], int]
    said: dict[What, str]
    against: tuple[Against, ...] = ("length", "width")


THEORY = {
    ATTENTION: Theory(lambda n, d, k: n * n * d, lambda n, d, k: n * n + n * d, {"time": "n² d", "memory": "n² + n d"}),
    # A fused kernel computes as much, and stores no weights.
    FUSED: Theory(lambda n, d, k: n * n * d, lambda n, d, k: n * d, {"time": "n² d", "memory": "n d"}),
    RECURRENCE: Theory(lambda n, d, k: n * d * d, lambda n, d, k: n * d, {"time": "n d²", "memory": "n d"}),
    CONVOLUTION: Theory(
        lambda n, d, k: k * n * d * d,
        lambda n, d, k: n * d,
        {"time": "k n d²", "memory": "n d"},
        ("length", "width", "kernel"),
    ),
}


@dataclass(frozen=True)
class Sizes:
    """Sizes to measure; while one varies, the others keep their default."""

    lengths: tuple[int, ...] = (256, 512, 1024, 2048, 4096)
    widths: tuple[int, ...] = (48, 96, 192, 384, 768)
    kernels: tuple[int, ...] = (1, 3, 9, 27, 81)
    length: int = 512
    width: int = 96
    kernel: int = 3
    rounds: int = 3
    """Number of rounds over all points; the fastest pass of each point counts."""
    seconds: float = 0.05
    """Minimum time for which a point is repeated in a round."""
    patience: float = 30.0
    """Seconds after which no further round begins."""


QUICK = Sizes((128, 256, 512), (32, 64, 128), (1, 3, 9), length=64, width=16, rounds=1, seconds=0.002)
"""Small sizes, for a first look and for tests."""


@dataclass(frozen=True)
class Cost(JsonResult):
    """One measured point."""

    layer: str
    """Kind of layer."""
    against: Against
    """What varies: length, width or kernel."""
    length: int
    """Length of the sequence, in tokens."""
    width: int
    """Width of the hidden states."""
    kernel: int
    """Width of the kernel of a convolution."""
    seconds: float
    """Time of one pass."""
    bytes: int
    """Memory at the peak."""

    @property
    def size(self) -> int:
        """The size that varies."""
        return {"length": self.length, "width": self.width, "kernel": self.kernel}[self.against]


@dataclass(frozen=True)
class Exponent(JsonResult):
    """Exponent of a cost: cost ∝ size ** measured."""

    layer: str
    against: Against
    what: What
    measured: float
    theory: float


def layer_costs(sizes: Sizes | None = None) -> list[Cost]:
    """Measure all layers at all sizes, on one core: under a minute by default."""
    sizes = Sizes() if sizes is None else sizes
    keep_memory()
    plan: dict[Against, Sequence[int]] = {"length": sizes.lengths, "width": sizes.widths, "kernel": sizes.kernels}
    probes = [
        Probe(layer, against, size, sizes)
        for against, values in plan.items()
        for layer, theory in THEORY.items()
        if against in theory.against
        for size in values
    ]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        # In rounds, because what else a machine does comes and goes; on a busy one, in fewer.
        begin = time.monotonic()
        for done in range(sizes.rounds):
            if done and time.monotonic() - begin > sizes.patience:
                break
            for probe in probes:
                probe.repeat(sizes.seconds)
        return [probe.cost() for probe in probes]
    finally:
        torch.set_num_threads(threads)


def exponents(costs: Sequence[Cost]) -> list[Exponent]:
    """Fit exponents to the upper half of the sizes, where the constant overhead of a call matters least."""
    found = []
    for layer, against in dict.fromkeys((cost.layer, cost.against) for cost in costs):
        points = sorted((c for c in costs if (c.layer, c.against) == (layer, against)), key=lambda c: c.size)
        upper = points[len(points) // 2 :] if len(points) > 2 else points
        theory = THEORY[layer]
        places = [(point.length, point.width, point.kernel) for point in upper]
        sizes = [point.size for point in upper]
        time = slope(sizes, [point.seconds for point in upper]), slope(sizes, [theory.time(*at) for at in places])
        memory = slope(sizes, [point.bytes for point in upper]), slope(sizes, [theory.memory(*at) for at in places])
        found += [Exponent(layer, against, "time", *time), Exponent(layer, against, "memory", *memory)]
    return found


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Fit the exponent of a power law.

    >>> round(slope([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


class Probe:
    """One layer at one size, and the fastest pass so far."""

    def __init__(self, layer: str, against: Against, size: int, sizes: Sizes) -> None:
        self.layer, self.against = layer, against
        usual = {"length": sizes.length, "width": sizes.width, "kernel": sizes.kernel}
        self.length, self.width, self.kernel = {**usual, against: size}.values()
        self.seconds = float("inf")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.module = LAYERS[layer](self.width, self.kernel)
            self.x = torch.randn(1, self.length, self.width)

    @torch.no_grad()
    def repeat(self, least: float) -> None:
        """Repeat the forward pass for at least this many seconds and keep the fastest time."""
        self.module(self.x)
        spent = 0.0
        while spent < least:
            begin = time.thread_time()  # the processor's time: what else the machine does is left out
            self.module(self.x)
            took = time.thread_time() - begin
            self.seconds = min(self.seconds, took)
            spent += took

    def cost(self) -> Cost:
        """Return the measured cost."""
        kept = _kept(self.module, self.x)
        return Cost(self.layer, self.against, self.length, self.width, self.kernel, self.seconds, kept)


class Weighing(nn.Module):
    """Attention without a fused kernel: all weights are stored."""

    def forward(self, x: Tensor) -> Tensor:
        """Mix the positions of x (1, n, d) by how alike they are."""
        weights: Tensor = (x @ x.mT / x.shape[-1] ** 0.5).softmax(dim=-1)
        return weights @ x


class FusedWeighing(nn.Module):
    """Attention in one fused kernel, block by block: the weights are never all stored."""

    def forward(self, x: Tensor) -> Tensor:
        """Mix the positions of x (1, n, d) by how alike they are."""
        alone = x.unsqueeze(1)  # (1, 1, n, d): one head
        return F.scaled_dot_product_attention(alone, alone, alone)


class Convolution(nn.Conv1d):
    """A convolution over positions."""

    def forward(self, x: Tensor) -> Tensor:
        """Mix each position of x (1, n, d) with its neighbours."""
        return super().forward(x.mT)


LAYERS: dict[str, Callable[[int, int], nn.Module]] = {
    ATTENTION: lambda width, kernel: Weighing(),
    FUSED: lambda width, kernel: FusedWeighing(),
    RECURRENCE: lambda width, kernel: nn.GRU(width, width, batch_first=True),
    CONVOLUTION: lambda width, kernel: Convolution(width, width, kernel, padding="same"),
}


def _kept(run: nn.Module, x: Tensor) -> int:
    """Return the bytes that the backward pass needs of a forward pass, each storage counted once, output included."""
    x = x.clone().requires_grad_()
    kept: list[Tensor] = []  # they stay alive, so that no two have the same address

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        out = run(x)
    kept += out if isinstance(out, tuple) else (out,)
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in kept}
    for known in (x, *run.parameters()):
        storages.pop(known.untyped_storage().data_ptr(), None)
    return sum(storages.values())
