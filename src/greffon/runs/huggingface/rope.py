"""Rotary positions in `config.json`: their base, the share of features that turn, and their stretching."""

from collections.abc import Mapping
from typing import Any

from greffon.core.errors import UserError
from greffon.core.shape import Shape

_NAMES = {
    "factor": "rope_factor", "low_freq_factor": "rope_low_freq_factor", "high_freq_factor": "rope_high_freq_factor",
    "original_max_position_embeddings": "rope_original_context",
}  # fmt: skip
"""Names of the numbers that describe a stretching, there and in our shape."""
_NEEDED = {"none": (), "linear": ("factor",), "llama3": tuple(_NAMES)}


def read_rope(config: Mapping[str, Any], where: str, theta: float = 10_000.0, share: float = 1.0) -> dict[str, Any]:
    """Read the fields of a shape from either form of the settings: `rope_parameters`, or `rope_theta` and the like."""
    found = table_of(config.get("rope_parameters") or config.get("rope_scaling") or {}, where)
    old = {"rope_theta": ("rope_theta", "rotary_emb_base"), "partial_rotary_factor": ("rotary_pct",)}
    known = {name: config[other] for name, others in old.items() for other in others if config.get(other) is not None}
    return {
        "rope_theta": _number(found | known, "rope_theta", theta, where),
        "partial_rotary_factor": _number(known | found, "partial_rotary_factor", share, where),
        **stretching(found, where),
    }


def table_of(value: Any, where: str) -> dict[str, Any]:
    """Return a table of settings; raise a `UserError` for anything else."""
    if not isinstance(value, Mapping):
        raise UserError(f"{where}: the rope settings are no table; restore the file from a copy")
    return {str(name): setting for name, setting in value.items() if setting is not None}


def stretching(found: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Read how rotary positions are stretched."""
    kind = found.get("rope_type", found.get("type", "default"))
    kind = "none" if kind == "default" else kind
    if not isinstance(kind, str) or kind not in _NEEDED:
        raise UserError(f"{where}: rope_type {kind!r} is not supported; known are default, linear and llama3")
    read: dict[str, Any] = {"rope_scaling": kind}
    for theirs in _NEEDED[kind]:
        read[_NAMES[theirs]] = _number(found, theirs, None, where)
    if "rope_original_context" in read:
        read["rope_original_context"] = int(read["rope_original_context"])
    return read


def _number(found: Mapping[str, Any], name: str, default: float | None, where: str) -> float:
    value = found.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"{where}: {name} of the rope settings is {value!r}; restore the file from a copy")
    return float(value)


def write_rope(shape: Shape) -> dict[str, Any]:
    """Return the settings in both forms, so that older and newer readers understand them."""
    scaling: dict[str, Any] = {}
    if shape.rope_scaling != "none":
        scaling = {"rope_type": shape.rope_scaling}
        scaling |= {theirs: getattr(shape, _NAMES[theirs]) for theirs in _NEEDED[shape.rope_scaling]}
    parameters = {"rope_type": "default", "rope_theta": shape.rope_theta, **scaling}
    if shape.partial_rotary_factor != 1:
        parameters["partial_rotary_factor"] = shape.partial_rotary_factor
    return {"rope_theta": shape.rope_theta, "rope_scaling": scaling or None, "rope_parameters": parameters}
