"""Position encodings, and the similarity of positions by their distance."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from greffon.core.errors import UserError, out_of_range
from greffon.core.presets import PRESETS
from greffon.core.presets import preset as look_up
from greffon.core.shape import Shape
from greffon.inference.loading import load
from greffon.nn.encoder_decoder import EncoderDecoder
from greffon.nn.positions import Learned, NoPositions, Rotary, Sinusoidal, make_positions
from greffon.plots.style import LINES, dress, inks, shades, sheet
from greffon.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NOTES = {
    "sinusoidal": "Sines and cosines of increasing wavelengths, added to the embeddings; nothing is learned.",
    "learned": "A vector learned for each position, added to the embeddings; there is none beyond the last.",
    "rotary": "Cosines (left half) and sines (right half) of the angles by which queries and keys are rotated; "
    "nothing is learned.",
}


def positions_figure(
    run: str | Path | Run | None = None, *, preset: str | None = None, length: int | None = None
) -> "Figure":
    """Draw the position encoding of a run or a preset as a heat map, and its similarity against distance."""
    if run is not None and preset is not None:
        raise UserError("give a run or a preset, not both")
    shape, module, what = _of_preset(preset or "compact") if run is None else _of_run(Run.open(run))
    if shape.positions == "none":
        raise UserError(f"{what} has no positions to draw; give a run or a preset that has")
    longest = shape.context if shape.positions == "learned" else 4 * shape.context
    length = shape.context if length is None else length
    if not 2 <= length <= longest:
        raise out_of_range("length", length, f"choose from 2 to {longest:,}")
    table = encoding(module, length)
    figure = sheet(9.2, 4.0, f"Position encoding: {shape.positions}, {what}", _NOTES[shape.positions])
    heat, line = figure.subplots(1, 2, width_ratios=(1.25, 1))
    image = heat.imshow(table, aspect="auto", cmap=shades(), interpolation="nearest")
    dress(heat, grid=None)
    heat.set(xlabel="feature", ylabel="position")
    bar = figure.colorbar(image, ax=heat, pad=0.02, aspect=30)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, color=inks(dark=False)[1])
    distance, mean, low, high = similarity(table)
    dress(line)
    style = LINES[0].line(dark=False)
    line.fill_between(distance, low, high, color=style["color"], alpha=0.2, linewidth=0)
    line.plot(distance, mean, **style)
    line.axhline(0, color=inks(dark=False)[1], linewidth=0.8)
    line.set(xlabel="distance between two positions", ylabel="similarity (cosine)")
    line.title.set_text("how alike two positions are (band: all pairs)")
    return figure


def _of_preset(name: str) -> tuple[Shape, NoPositions, str]:
    known = PRESETS.get(name)
    shape = (known() if known is not None else look_up(name, "causal")).shape
    return shape, make_positions(shape), f"preset {name}"


def _of_run(run: Run) -> tuple[Shape, NoPositions, str]:
    body = load(run).body
    module = body.encoder.positions if isinstance(body, EncoderDecoder) else body.positions
    assert isinstance(module, NoPositions)
    return run.recipe.shape, module, run.name


@torch.no_grad()
def encoding(module: NoPositions, length: int) -> np.ndarray:
    """Return the encoding of the first positions, one per row; for rotary ones, the cosines and sines of the angles."""
    places = torch.arange(length).unsqueeze(0)
    if isinstance(module, Rotary):
        cosines, sines = module.rotation(places)[:, 0, 0]
        return torch.cat((cosines, sines), dim=-1).numpy()
    assert isinstance(module, Sinusoidal | Learned)
    width = module.table.shape[1]
    return module.add(torch.zeros(1, length, width), places)[0].numpy()


def similarity(table: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return distances, and the mean, lowest and highest cosine similarity of two positions at each distance.

    For rotary encodings it is the factor by which the dot product of an equal query and key shrinks.
    """
    unit = table / np.maximum(np.linalg.norm(table, axis=1, keepdims=True), 1e-12)
    cosines = unit @ unit.T
    # Far distances have too few pairs to be a mean of anything.
    distances = np.arange(max(2, 3 * len(table) // 4))
    diagonals = [np.diagonal(cosines, offset=d) for d in distances]
    mean, low, high = (np.array([of(diagonal) for diagonal in diagonals]) for of in (np.mean, np.min, np.max))
    return distances, mean, low, high
