"""Results as JSON: one definition of what `--json` prints and what the web page sends."""

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np


class JsonResult:
    """Mixin of the frozen dataclasses that public functions return: `greffon.generate(run, "Il").to_json()`."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name, as values that `json.dumps` accepts."""
        return _fields(self)


def to_json(result: Any) -> Any:
    """Convert a result, or a list of results, to values that `json.dumps` accepts.

    A number that is not finite becomes None: JSON has neither NaN nor infinity.

    >>> to_json({"edges": np.arange(3), "loss": float("nan")})
    {'edges': [0, 1, 2], 'loss': None}
    """
    if isinstance(result, JsonResult):
        return result.to_json()
    if is_dataclass(result) and not isinstance(result, type):
        return _fields(result)
    if isinstance(result, Mapping):
        return {str(name): to_json(value) for name, value in result.items()}
    if isinstance(result, list | tuple):
        return [to_json(value) for value in result]
    if isinstance(result, np.ndarray | np.generic):
        return to_json(result.tolist())
    if isinstance(result, float) and not math.isfinite(result):
        return None
    return str(result) if isinstance(result, Path) else result


def json_text(result: Any) -> str:
    """Return a result, or a list of results, as one line of JSON."""
    return json.dumps(to_json(result), ensure_ascii=False, allow_nan=False)


def _fields(result: Any) -> dict[str, Any]:
    return {field.name: to_json(getattr(result, field.name)) for field in fields(result)}
