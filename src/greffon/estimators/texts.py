"""The input of an estimator: a list, array or series of texts."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def as_texts(given: Any, who: object) -> list[str]:
    """Return one text per sample; raise a `ValueError` or `TypeError`, as scikit-learn does, for anything else."""
    name = type(who).__name__
    if isinstance(given, str):
        raise ValueError(f"{name} takes a list or an array of texts, and got one text; put it into a list")
    if not hasattr(given, "__array__") and not isinstance(given, Sequence):
        raise TypeError(f"{name} takes a list or an array of texts, and got {type(given).__name__}")
    values = list(given) if isinstance(given, Sequence) else np.asarray(given)
    if isinstance(values, np.ndarray):
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]  # what a ColumnTransformer hands on for a list of one column
        if values.ndim != 1:
            raise ValueError(f"{name} takes a list or an array of texts, and got an array of shape {values.shape}")
        values = values.tolist()
    wrong = next((i for i, value in enumerate(values) if not isinstance(value, str)), None)
    if wrong is not None:
        raise ValueError(f"{name} takes texts, and sample {wrong} is {type(values[wrong]).__name__}; make it a string")
    if not values:
        raise ValueError(f"{name} got 0 samples; give at least one text")
    return [str(value) for value in values]
