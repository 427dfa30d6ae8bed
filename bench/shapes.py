"""The shape of Greffon's contestants: that of the preset `lab`, in the size of a contest."""

from dataclasses import replace
from typing import Any


def lab_shape(size: Any) -> Any:
    """Cut the preset `lab` to the sizes of a contest."""
    from greffon.core.own_presets import lab

    sizes = {name: getattr(size, name) for name in ("layers", "hidden_size", "heads", "context")}
    return replace(lab().shape, **sizes, intermediate_size=size.intermediate_size)
