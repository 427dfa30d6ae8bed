"""Loss by position beyond the trained length, of one run or several."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from greffon.core.conflicts import refuses
from greffon.core.errors import UserError
from greffon.inference.loss_by_position import COLUMN_RULES, PositionLoss, loss_by_position
from greffon.plots.style import LINES, dress, inks, key_below, sheet
from greffon.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@refuses(*COLUMN_RULES)
def extrapolation_figure(
    runs: Sequence[str | Path | Run] | str | Path | Run,
    file: str | Path | None = None,
    *,
    times: int = 4,
    texts: int = 64,
    text_column: str = "text",
) -> "Figure":
    """Draw the loss by position up to `times` the trained length, for one run or several."""
    opened = Run.open_all(runs)
    if not 1 <= len(opened) <= len(LINES):
        raise UserError(f"{len(opened)} runs to draw; give from 1 to {len(LINES)}")
    # The column is passed on only if one was chosen: beside plain text or no file, even its default would be refused.
    score = loss_by_position if text_column == "text" else partial(loss_by_position, text_column=text_column)
    return losses_figure([score(run, file, times=times, texts=texts) for run in opened])


def losses_figure(found: Sequence[PositionLoss]) -> "Figure":
    """Draw what `greffon.loss_by_position` returned."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MultipleLocator

    texts = sorted({one.texts for one in found})
    read = f"{texts[0]:,}" if len(texts) == 1 else f"{texts[0]:,} to {texts[-1]:,}"
    note = (
        f"Each point is the mean over an interval of positions in {read} text{'s' * (texts[-1] > 1)}, always the same. "
        "Positions right of the dashed line did not occur in training."
        if len({one.trained for one in found}) == 1
        else f"Each point is the mean over an interval of positions in {read} texts. Dashed lines: trained lengths."
    )
    figure = sheet(8.4, 4.2, "Beyond the trained length", note)
    axes = figure.subplots()
    dress(axes)
    for one, style in zip(found, LINES, strict=False):
        middles = (one.edges[:-1] + one.edges[1:]) / 2
        axes.plot(middles, one.bits_per_byte, **style.line(dark=False), marker=style.marker, markersize=4)
    for trained in sorted({one.trained for one in found}):
        axes.axvline(trained, color=inks(dark=False)[1], linewidth=1, linestyle=(0, (5, 3)))
        place = axes.get_xaxis_transform()
        axes.text(trained, 1.01, f"trained length {trained:,}", transform=place, ha="center", va="bottom", fontsize=8)
    axes.set_xlim(0, max(one.edges[-1] for one in found) * 1.01)
    axes.xaxis.set_major_locator(MultipleLocator(max(one.trained for one in found)))
    axes.set(xlabel="position in the text (tokens)", ylabel="loss (bits per byte)")
    for one, style in zip(found, LINES, strict=False):
        if one.stopped:
            _say_stopped(axes, one, style.light, (one.edges[-2] + one.edges[-1]) / 2)
    key = [
        Line2D([], [], **style.line(dark=False), marker=style.marker, markersize=4, label=f"{one.run}: {_said(one)}")
        for one, style in zip(found, LINES, strict=False)
    ]
    key_below(figure, key, columns=1 if len(key) == 1 else 2)
    return figure


def _said(one: PositionLoss) -> str:
    encoding = "no positions" if one.encoding == "none" else f"{one.encoding} positions"
    return f"{encoding}, which end at {one.trained:,}" if one.stopped else encoding


def _say_stopped(axes: "Axes", one: PositionLoss, colour: str, x: float) -> None:
    y = float(one.bits_per_byte[-1])
    low, high = axes.get_ylim()
    beside = -26 if (y - low) > (high - low) / 4 else 22  # where there is room for it
    axes.plot([x], [y], marker="x", markersize=11, markeredgewidth=2.2, color=colour)
    axes.annotate(
        "learned positions end here",
        (x, y),
        xytext=(14, beside),
        textcoords="offset points",
        color=colour,
        fontsize=8.5,
        arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.8},
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5},
        zorder=6,
    )
