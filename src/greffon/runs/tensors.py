"""Tensors by name: of a model, and of a safetensors file."""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from greffon.core.errors import UserError
from greffon.core.files import sha256
from greffon.nn.sharding import cut_like, gathered


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """Return the parameters by name; a tied matrix appears once, in the body."""
    return {name: gathered(p.detach()).contiguous() for name, p in model.named_parameters()}


def fill(model: nn.Module, tensors: Mapping[str, Tensor], where: Path) -> None:
    """Copy tensors into the parameters of the same name; anything left over or missing is an error."""
    parameters = dict(model.named_parameters())
    missing, extra = sorted(parameters.keys() - tensors.keys()), sorted(tensors.keys() - parameters.keys())
    if missing or extra:
        raise UserError(
            f"{where} does not fit its recipe: missing {missing[:3] or 'nothing'}, unknown {extra[:3] or 'nothing'}; "
            "the run is damaged or was made by another version"
        )
    with torch.no_grad():
        for name, p in parameters.items():
            if p.shape != tensors[name].shape or p.dtype != tensors[name].dtype:
                raise UserError(
                    f"{where}: {name} is {tuple(tensors[name].shape)}, the recipe says {tuple(p.shape)}; "
                    "the run is damaged"
                )
            p.copy_(cut_like(tensors[name], p))


def load_tensors(path: Path, digest: str | None) -> dict[str, Tensor]:
    """Read a safetensors file, after checking its sha256 if it is known."""
    try:
        if digest is not None and sha256(path) != digest:
            raise UserError(f"{path} is damaged: its sha256 is not the one recorded; restore it from a copy")
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as problem:
        raise UserError(f"cannot read {path}: {problem}; restore it from a copy") from None
