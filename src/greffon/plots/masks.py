"""Attention masks of the three kinds of bodies."""

from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch

from greffon.core.choices import PretrainingObjective
from greffon.core.errors import UserError, did_you_mean, out_of_range, setting
from greffon.nn.masks import PADDING, attention_mask
from greffon.plots.style import dress, inks, key_below, sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LENGTHS = range(2, 65)
"""Numbers of tokens that a grid can show."""
_SEEN, _HIDDEN, _HATCH = "#0a5c7a", "#eef1f3", "#6d6d70"
_PANELS = {
    "causal": ("each token and those before it",),
    "masked": ("each token and all others",),
    "seq2seq": ("self-attention of the source", "self-attention of the target", "cross-attention"),
}
_NOTES = {
    "causal": "A causal body: each token attends to itself and to the tokens before it, so it can learn to predict "
    "the next one.",
    "masked": "A masked body: each token attends to both sides; the tokens to predict are replaced by [MASK].",
    "seq2seq": "A translator: the source is encoded in both directions; the target is generated from left to right and "
    "attends to all of the source.",
}


def mask_figure(length: int = 10, objective: PretrainingObjective = "causal", padding: int = 0) -> "Figure":
    """Draw the attention mask of `length` tokens, the last `padding` of which are padding."""
    if objective not in _PANELS:
        raise UserError(f"unknown objective {objective!r}{did_you_mean(objective, get_args(PretrainingObjective))}")
    if length not in LENGTHS:
        raise out_of_range("length", length, f"choose from {LENGTHS[0]} to {LENGTHS[-1]}")
    if not 0 <= padding < length:
        raise UserError(f"{setting('padding')} is {padding} of {length} tokens; choose from 0 to {length - 1}")
    panels = _PANELS[objective]
    side = min(5.0, max(2.6, 0.3 * length))
    width = max(4.6, len(panels) * (side + 0.7))
    figure = sheet(width, side + 1.1, "Who may look at whom", _NOTES[objective])
    documents = torch.where(torch.arange(length) < length - padding, 1, PADDING).unsqueeze(0)
    for place, title in enumerate(panels):
        axes = figure.add_subplot(1, len(panels), place + 1)
        causal = objective == "causal" or (objective == "seq2seq" and place == 1)
        seen = attention_mask(documents, documents, causal=causal)[0, 0].numpy()
        _grid(axes, seen, padding)
        axes.title.set_text(title)
    _key(figure, padding)
    return figure


def _grid(axes: "Axes", seen: np.ndarray, padding: int) -> None:
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Rectangle

    length = len(seen)
    edges = np.arange(length + 1) + 0.5
    colours = ListedColormap([_HIDDEN, _SEEN])
    axes.pcolormesh(edges, edges, seen.astype(int), cmap=colours, vmin=0, vmax=1, edgecolor="white", linewidth=0.8)
    if padding:
        begin = length - padding + 0.5
        for corner, across, down in (((begin, 0.5), padding, begin - 0.5), ((0.5, begin), length, padding)):
            look: dict[str, Any] = {"facecolor": "white", "edgecolor": _HATCH, "hatch": "////", "linewidth": 0.6}
            axes.add_patch(Rectangle(corner, across, down, **look))
    dress(axes, grid=None)
    axes.set_aspect("equal")
    axes.invert_yaxis()
    step = max(1, round(length / 12))
    ticks = range(1, length + 1, step)
    axes.set(xticks=ticks, yticks=ticks, xlabel="token looked at", ylabel="token that looks")


def _key(figure: "Figure", padding: int) -> None:
    from matplotlib.patches import Patch

    soft = inks(dark=False)[1]
    key = [
        Patch(facecolor=_SEEN, edgecolor=soft, linewidth=0.5, label="may look"),
        Patch(facecolor=_HIDDEN, edgecolor=soft, linewidth=0.5, label="may not"),
    ]
    if padding:
        key.append(Patch(facecolor="white", edgecolor=_HATCH, hatch="////", linewidth=0.6, label="padding, never read"))
    key_below(figure, key, columns=len(key))
