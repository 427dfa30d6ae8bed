"""Gather and distribute sharded tensors (DTensor, from FSDP).

A plain tensor passes through unchanged, so that saving and loading need not tell them apart; nothing here
imports torch.distributed unless there is a tensor to shard.
"""

from typing import Any

from torch import Tensor


def whole(tensor: Tensor) -> Tensor:
    """Return the full tensor; if it is sharded, every process must call this and every process gets it."""
    gather = getattr(tensor, "full_tensor", None)
    made: Tensor = tensor if gather is None else gather()
    return made


def gathered(tensor: Tensor) -> Tensor:
    """Return the full tensor to the main process; the others must call this too, and get an empty one."""
    mesh: Any = getattr(tensor, "device_mesh", None)
    if mesh is None:
        return tensor
    made = whole(tensor)
    return made.cpu() if mesh.get_rank() == 0 else made.new_empty(0)


def cut_like(tensor: Tensor, model: Tensor) -> Tensor:
    """Shard a full tensor as `model` is sharded, on its device."""
    mesh: Any = getattr(model, "device_mesh", None)
    if mesh is None or tensor.shape != model.shape:  # an optimizer's step count is not sharded
        return tensor.to(model.device)
    from torch.distributed.tensor import distribute_tensor

    placements: Any = getattr(model, "placements", None)
    return distribute_tensor(tensor.to(model.device), mesh, placements, src_data_rank=None)
