"""Optimizers. They see parameters and a step number, nothing else.

Matrices inside the blocks, and that of a head's transform, can be trained by Muon, which replaces a gradient's
singular values by ones: every direction of the matrix learns at the same rate. Everything else (embeddings, heads,
norms, biases) is AdamW's.
"""

import inspect
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from greffon.core.training import Training
from greffon.nn.model import Model
from greffon.nn.sharding import cut_like, gathered, whole
from greffon.training.schedule import Schedule

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of a quintic iteration, chosen by Jordan et al. (Muon, 2024) to raise small singular values fastest."""
ITERATIONS = 5
"""Newton–Schulz iterations, as in Muon: singular values then lie between about 0.7 and 1.2, which is enough."""
NORM_EPSILON = 1e-7
"""Added to the norm that a gradient is divided by, as in Muon: a gradient of zeros stays one."""
MUON_MOMENTUM = 0.95
"""Muon's own default (Jordan et al., 2024), with Nesterov's look ahead."""
ADAMW_RMS = 0.2
"""Typical root mean square of an AdamW update, to which Muon's is scaled (Liu et al., "Muon is scalable", 2025)."""
ADAMW_BETAS = (0.9, 0.95)
"""As GPT-3's (Brown et al., 2020): second moments over some 20 steps, where PyTorch's 0.999 averages over 1,000."""


@torch.no_grad()
def orthogonalize(matrix: Tensor, iterations: int = ITERATIONS) -> Tensor:
    """Return the matrix with its singular values near one, by Newton–Schulz in its own precision."""
    a, b, c = NEWTON_SCHULZ
    tall = matrix.shape[-2] > matrix.shape[-1]
    x = matrix.mT if tall else matrix
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + NORM_EPSILON)
    for _ in range(iterations):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    out: Tensor = x.mT if tall else x
    return out


class _Uncompiled(torch.optim.Optimizer):
    """PyTorch's optimizer without its hooks for `torch.compile`, which is not used here.

    The hooks import the whole compiler before the first step: 70 MB of memory, and seconds.
    """

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)


ROWS = 4096
"""Rows of an embedding that are updated at once: their gradient stays in the cache."""


class AdamW(_Uncompiled, torch.optim.AdamW):
    """`torch.optim.AdamW`, fused, which also takes the sparse gradient of an embedding.

    The rows that a batch did not look up are updated too, with a gradient of zero, as in the dense optimizer. The
    dense gradient is written out for `ROWS` rows at a time.
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


LARGE_EMBEDDING = 1 << 20
"""Embeddings of at least this many numbers get sparse gradients, where they can: smaller ones gain nothing."""


def _use_sparse_gradients(model: Model, training: Training) -> None:
    """Let large embeddings have sparse gradients.

    The gradient stays dense where a head is tied to the matrix, in a process group, on a GPU, and where the gradients
    of several batches are summed, since sparse ones would only be concatenated. The micro-batches of one batch look
    up no more rows than the batch.
    """
    owners: Counter[Tensor] = Counter(p for _, p in model.named_parameters(remove_duplicate=False))
    group = torch.distributed.is_available() and torch.distributed.is_initialized()
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            p = module.weight
            large = p.device.type == "cpu" and p.numel() >= LARGE_EMBEDDING
            module.sparse = large and owners[p] == 1 and training.gradient_accumulation == 1 and not group


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> Tensor:
    """Scale all gradients down until their norm is at most `max_norm`; return the norm before."""
    return torch.nn.utils.clip_grad_norm_([_dense_gradient(p) for p in parameters], max_norm)


def _dense_gradient(p: nn.Parameter) -> Tensor:
    """Return a tensor with a dense gradient: the parameter itself, or one that shares the values of a sparse one."""
    if p.grad is None or not p.grad.is_sparse:
        return p
    p.grad = p.grad.coalesce()
    values = p.grad.values()
    stand_in = torch.empty_like(values)
    stand_in.grad = values
    return stand_in


class Muon(_Uncompiled):
    """Orthogonalised momentum, in fp32 (`torch.optim.Muon` computes in bf16, which is slow on most CPUs)."""

    def __init__(
        self, params: Iterable[Any], lr: float, momentum: float = MUON_MOMENTUM, weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take one step; matrices of the same shape go through Newton–Schulz together."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[tuple[nn.Parameter, Tensor]]] = {}
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                momentum = state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                update = whole(p.grad.lerp(momentum, group["momentum"]))  # singular values are those of all of it
                shapes.setdefault(p.shape, []).append((p, update))
            for shape, members in shapes.items():
                updates = orthogonalize(torch.stack([update for _, update in members]))
                # Entries of an orthogonal update have a root mean square of 1 / √(longer side), whatever the shape.
                scale = ADAMW_RMS * math.sqrt(max(shape))
                for (p, _), update in zip(members, updates, strict=True):
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(cut_like(update, p), alpha=-group["lr"] * scale)


AUXILIARY_HEADS = ("head.pair.",)
"""Prefixes of the parameters of heads for auxiliary losses."""
AUXILIARY_RATE = 0.3
"""Share of AdamW's learning rate for auxiliary heads: the rate that suits embeddings makes small matrices diverge."""


def make_optimizers(model: Model, training: Training) -> list[torch.optim.Optimizer]:
    """Give the matrices of the blocks and of a head's transform to Muon, and all other parameters to AdamW.

    Parameters of one depth form a group; the depth decides its learning rate and the step at which it is unfrozen.
    """
    _use_sparse_gradients(model, training)
    layers = model.body.shape.layers
    top = layers + 1
    shares: dict[bool, dict[tuple[int, float], list[nn.Parameter]]] = {False: {}, True: {}}
    for name, p in model.named_parameters():
        if p.requires_grad:
            by_muon = training.optimizer == "muon" and p.ndim == 2 and (".blocks." in name or ".transform." in name)
            factor = AUXILIARY_RATE if name.startswith(AUXILIARY_HEADS) else 1.0
            shares[by_muon].setdefault((depth(name, layers), factor), []).append(p)
    groups = {
        by_muon: [
            {
                "params": members,
                "share": factor * training.layer_decay ** (top - d),
                "from": training.unfreeze_every * (top - d),
            }
            for (d, factor), members in sorted(share.items(), key=lambda item: item[0])
        ]
        for by_muon, share in shares.items()
    }
    optimizers: list[torch.optim.Optimizer] = []
    if groups[False]:
        optimizers.append(
            AdamW(
                groups[False],
                lr=training.learning_rate,
                betas=ADAMW_BETAS,
                weight_decay=training.weight_decay,
                fused=True,
            )
        )
    if groups[True]:
        optimizers.append(Muon(groups[True], lr=training.muon_learning_rate, weight_decay=training.weight_decay))
    return optimizers


def depth(name: str, layers: int) -> int:
    """Return the depth of a parameter: embeddings 0, blocks 1, 2, …, final norm and head layers + 1.

    >>> [depth(name, 4) for name in ("body.embedding.weight", "body.blocks.0.attention.out.weight", "head.bias")]
    [0, 1, 5]
    """
    parts = name.split(".")
    if "blocks" in parts:
        return 1 + int(parts[parts.index("blocks") + 1])
    return 0 if {"embedding", "segments", "positions", "embedding_norm"} & {*parts} else layers + 1


def set_learning_rates(optimizers: list[torch.optim.Optimizer], step: int, schedule: Schedule) -> float:
    """Set the learning rate of every parameter group for this step; return AdamW's."""
    share, training = schedule.lr_multiplier(step), schedule.training
    for optimizer in optimizers:
        full = training.muon_learning_rate if isinstance(optimizer, Muon) else training.learning_rate
        for group in optimizer.param_groups:
            group["lr"] = full * share * group["share"] if step >= group["from"] else 0.0
    return training.learning_rate * share


def state_tensors(model: nn.Module, optimizers: list[torch.optim.Optimizer]) -> dict[str, Tensor]:
    """Return the state of the optimizers by name: `{"body.norm.weight/exp_avg": …}`."""
    names: dict[Tensor, str] = {p: name for name, p in model.named_parameters()}
    return {
        f"{names[p]}/{key}": gathered(value)
        for optimizer in optimizers
        for p, state in optimizer.state.items()
        for key, value in state.items()
    }


def load_state_tensors(model: nn.Module, optimizers: list[torch.optim.Optimizer], tensors: dict[str, Tensor]) -> None:
    """Restore the state that `state_tensors` returned."""
    owner = {p: o for o in optimizers for group in o.param_groups for p in group["params"]}
    parameters = dict(model.named_parameters())
    for key, value in tensors.items():
        name, _, what = key.rpartition("/")
        p = parameters[name]
        owner[p].state[p][what] = cut_like(value, p).clone()  # it may be a view of the file, which must not stay mapped
