"""Tensors of which each process holds a share (DTensor, from FSDP): made whole, and cut again.

A plain tensor passes through unchanged, so that whoever saves or loads need not know; nothing here
imports torch.distributed unless there is something to cut.
"""

from typing import Any

from torch import Tensor


def whole(tensor: Tensor) -> Tensor:
    """Return all of a tensor; if it is cut, every process takes part and every process gets it."""
    gather = getattr(tensor, "full_tensor", None)
    made: Tensor = tensor if gather is None else gather()
    return made


def gathered(tensor: Tensor) -> Tensor:
    """Return all of a tensor for the one process that writes; the others take part, and keep nothing."""
    mesh: Any = getattr(tensor, "device_mesh", None)
    if mesh is None:
        return tensor
    made = whole(tensor)
    return made.cpu() if mesh.get_rank() == 0 else made.new_empty(0)


def cut_like(tensor: Tensor, model: Tensor) -> Tensor:
    """Cut a tensor that every process holds whole, as another one of its shape is cut, on its device."""
    mesh: Any = getattr(model, "device_mesh", None)
    if mesh is None or tensor.shape != model.shape:  # an optimizer's count of steps is never cut
        return tensor.to(model.device)
    from torch.distributed.tensor import distribute_tensor

    placements: Any = getattr(model, "placements", None)
    return distribute_tensor(tensor.to(model.device), mesh, placements, src_data_rank=None)
