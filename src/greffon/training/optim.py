"""Optimisers and the rate schedule. They see parameters and a step number, nothing else.

Matrices inside the blocks can be trained by Muon, which replaces a gradient's singular values by
ones: every direction of the matrix learns at the same pace. Everything else (embeddings, heads,
norms, biases) is AdamW's. The rate is a pure function of the step, so that there is no scheduler
state to save.
"""

import inspect
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from greffon.core.config import Training
from greffon.nn.model import Model
from greffon.nn.sharding import cut_like, gathered, whole

_NS = (3.4445, -4.7750, 2.0315)
"""Quintic coefficients that drive singular values towards one as fast as possible (Jordan, 2024)."""


@torch.no_grad()
def orthogonalize(matrix: Tensor, iterations: int = 5) -> Tensor:
    """Return the matrix with its singular values near one, by Newton–Schulz in its own precision."""
    a, b, c = _NS
    tall = matrix.shape[-2] > matrix.shape[-1]
    x = matrix.mT if tall else matrix
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(iterations):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    out: Tensor = x.mT if tall else x
    return out


class _Uncompiled(torch.optim.Optimizer):
    """PyTorch's optimizer without its ties to `torch.compile`, which is not used here.

    They import the whole compiler before the first step: 70 MB of memory, and seconds.
    """

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)


ROWS = 4096
"""Rows of an embedding that learn at once: their gradient stays in the cache."""


class AdamW(_Uncompiled, torch.optim.AdamW):
    """`torch.optim.AdamW`, fused; a gradient can also be sparse, that of the few rows a batch has looked up.

    The other rows learn just the same, from a gradient of zero: it is written out for some rows at a time.
    """

    _dense_step = inspect.unwrap(torch.optim.AdamW.step)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take one step."""
        found = [(group, p, p.grad) for group in self.param_groups for p in group["params"] if _by_rows(p)]
        for _, p, _ in found:
            p.grad = None
        self._dense_step()
        for group, p, grad in found:
            self._step_rows(group, p, grad)
            p.grad = grad

    def _step_rows(self, group: dict[str, Any], p: nn.Parameter, grad: Tensor) -> None:
        state = self.state[p]
        if not state:
            state |= {"step": torch.zeros(()), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
        grad = grad.coalesce()
        places, values = grad.indices()[0], grad.values()
        for first in range(0, len(p), ROWS):
            rows = slice(first, first + ROWS)
            some = slice(*torch.searchsorted(places, torch.tensor([first, first + ROWS])).tolist())
            part = torch.zeros_like(p[rows]).index_copy_(0, places[some] - first, values[some])
            adamw(
                [p[rows]],
                [part],
                [state["exp_avg"][rows]],
                [state["exp_avg_sq"][rows]],
                [],
                [state["step"].clone()],
                fused=True,
                amsgrad=False,
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=False,
            )
        state["step"] += 1


def _by_rows(p: nn.Parameter) -> bool:
    return p.grad is not None and p.grad.is_sparse


VAST = 1 << 20
"""Numbers of an embedding from which on its gradient is that of the rows looked up, where it can be."""


def _look_up_rows(model: Model, training: Training) -> None:
    """Let vast embeddings have sparse gradients: not where a head borrows the matrix, nor in a group, nor on a GPU.

    Nor where the gradients of several batches are summed: rows would only be put side by side. (The passes of one
    batch look up no more rows than the batch.)
    """
    owners: Counter[Tensor] = Counter(p for _, p in model.named_parameters(remove_duplicate=False))
    group = torch.distributed.is_available() and torch.distributed.is_initialized()
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            p = module.weight
            vast = p.device.type == "cpu" and p.numel() >= VAST
            module.sparse = vast and owners[p] == 1 and training.gradient_accumulation == 1 and not group


def clip_gradients(parameters: Iterable[nn.Parameter], most: float) -> Tensor:
    """Scale all gradients down until their norm is `most`; return the norm before."""
    return torch.nn.utils.clip_grad_norm_([_bearer(p) for p in parameters], most)


def _bearer(p: nn.Parameter) -> Tensor:
    """Whatever has the numbers of a gradient as its own: of rows, each row once."""
    if p.grad is None or not p.grad.is_sparse:
        return p
    p.grad = p.grad.coalesce()
    values = p.grad.values()
    bearer = torch.empty_like(values)
    bearer.grad = values
    return bearer


class Muon(_Uncompiled):
    """Momentum, orthogonalised, in fp32 (`torch.optim.Muon` computes in bf16, slow on most CPUs)."""

    def __init__(self, params: Iterable[Any], lr: float, momentum: float = 0.95, weight_decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take one step; matrices of the same form go through Newton–Schulz together."""
        for group in self.param_groups:
            forms: dict[torch.Size, list[tuple[nn.Parameter, Tensor]]] = {}
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                momentum = state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                update = whole(p.grad.lerp(momentum, group["momentum"]))  # singular values are those of all of it
                forms.setdefault(p.shape, []).append((p, update))
            for form, members in forms.items():
                updates = orthogonalize(torch.stack([update for _, update in members]))
                # A step moves each entry by about lr, whatever the form (0.2: AdamW's typical size).
                scale = 0.2 * math.sqrt(max(form))
                for (p, _), update in zip(members, updates, strict=True):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(cut_like(update, p), alpha=-group["lr"] * scale)


BESIDE = ("head.pair.", "head.gist.")
"""Heads beside the vocabulary's, and"""
BESIDE_PACE = 0.3
"""their share of AdamW's rate: what suits embeddings makes small matrices run wild."""


def make_optimizers(model: Model, training: Training) -> list[torch.optim.Optimizer]:
    """Share the trainable parameters out: matrices of the blocks to Muon, the rest to AdamW.

    Parameters of one depth form a group; the depth decides its rate and when it begins to learn.
    """
    _look_up_rows(model, training)
    layers = model.body.shape.layers
    top = layers + 1
    shares: dict[bool, dict[tuple[int, float], list[nn.Parameter]]] = {False: {}, True: {}}
    for name, p in model.named_parameters():
        if p.requires_grad:
            by_muon = training.optimizer == "muon" and ".blocks." in name and p.ndim == 2
            pace = BESIDE_PACE if name.startswith(BESIDE) else 1.0
            shares[by_muon].setdefault((depth(name, layers), pace), []).append(p)
    groups = {
        by_muon: [
            {
                "params": members,
                "share": pace * training.layer_decay ** (top - d),
                "from": training.unfreeze_every * (top - d),
            }
            for (d, pace), members in sorted(share.items(), key=lambda item: item[0])
        ]
        for by_muon, share in shares.items()
    }
    optimizers: list[torch.optim.Optimizer] = []
    if groups[False]:
        optimizers.append(
            AdamW(
                groups[False],
                lr=training.learning_rate,
                betas=(0.9, 0.95),
                weight_decay=training.weight_decay,
                fused=True,
            )
        )
    if groups[True]:
        optimizers.append(Muon(groups[True], lr=training.muon_learning_rate, weight_decay=training.weight_decay))
    return optimizers


def depth(name: str, layers: int) -> int:
    """Say how high above the tokens a parameter stands: embeddings 0, blocks 1, 2, …, norm and head on top.

    >>> [depth(name, 4) for name in ("body.embedding.weight", "body.blocks.0.attention.out.weight", "head.bias")]
    [0, 1, 5]
    """
    parts = name.split(".")
    if "blocks" in parts:
        return 1 + int(parts[parts.index("blocks") + 1])
    return 0 if {"embedding", "segments", "positions", "embedding_norm"} & {*parts} else layers + 1


def lr_multiplier(step: int, training: Training) -> float:
    """Return the share of the full rate at a step: a climb, then the decay, as a pure function."""
    # A short run must not spend all its steps climbing.
    warmup = min(training.warmup_steps, training.steps // 5)
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, training.steps - warmup)
    falls = {
        "linear": 1 - done,
        "cosine": (1 + math.cos(math.pi * done)) / 2,
        "inverse-sqrt": math.sqrt(max(1, warmup) / (step + 1)),  # Noam: the climb is what sets its pace
        "constant": 1.0,
    }
    return max(0.0, falls[training.lr_schedule])


def set_learning_rates(optimizers: list[torch.optim.Optimizer], step: int, training: Training) -> float:
    """Set every group's rate for this step; return AdamW's."""
    share = lr_multiplier(step, training)
    for optimizer in optimizers:
        full = training.muon_learning_rate if isinstance(optimizer, Muon) else training.learning_rate
        for group in optimizer.param_groups:
            group["lr"] = full * share * group["share"] if step >= group["from"] else 0.0
    return training.learning_rate * share


def state_tensors(model: nn.Module, optimizers: list[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """Name every tensor that the optimizers remember: `{"body.norm.weight/exp_avg": …}`."""
    names: dict[Tensor, str] = {p: name for name, p in model.named_parameters()}
    return {
        f"{names[p]}/{key}": gathered(value)
        for optimizer in optimizers
        for p, state in optimizer.state.items()
        for key, value in state.items()
    }


def load_state_tensors(model: nn.Module, optimizers: list[torch.optim.Optimizer], tensors: dict[str, Tensor]) -> None:
    """Give the optimizers back what `state_tensors` took."""
    owner = {p: o for o in optimizers for group in o.param_groups for p in group["params"]}
    parameters = dict(model.named_parameters())
    for key, value in tensors.items():
        name, _, what = key.rpartition("/")
        p = parameters[name]
        owner[p].state[p][what] = cut_like(value, p).clone()  # it may be a view of the file, which must not stay mapped
