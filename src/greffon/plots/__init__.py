"""Figures of models and trainings: each is a function that returns a matplotlib figure.

The numbers come from other modules; the functions here only draw them.
"""

import importlib
import inspect
from typing import TYPE_CHECKING, Any

from greffon.core.config import check_keywords
from greffon.core.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = {
    "mask": "masks",
    "positions": "positions",
    "attention": "attention",
    "complexity": "complexity",
    "extrapolation": "extrapolation",
    "curves": "curves",
    "embeddings": "embeddings",
}
"""The module of each figure: `mask` is drawn by `mask_figure` in `masks`."""


def draw(figure: str, *what: Any, **how: Any) -> "Figure":
    """Draw a figure by its name: `draw("mask", length=10)` is `mask_figure(length=10)`."""
    if figure not in FIGURES:
        raise UserError(f"unknown figure {figure!r}{did_you_mean(figure, FIGURES)}")
    module = importlib.import_module(f"greffon.plots.{FIGURES[figure]}")
    drawn = getattr(module, f"{figure}_figure")
    check_keywords(inspect.signature(drawn), how)
    made: Figure = drawn(*what, **how)
    return made
