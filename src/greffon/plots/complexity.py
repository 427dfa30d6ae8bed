"""Cost of attention, recurrence and convolution: measured points, fitted and theoretical exponents."""

from collections.abc import Sequence
from math import log10
from typing import TYPE_CHECKING

from greffon.plots.layer_costs import (
    ATTENTION,
    CONVOLUTION,
    FUSED,
    QUICK,
    RECURRENCE,
    THEORY,
    Against,
    Cost,
    Sizes,
    What,
    exponents,
    layer_costs,
)
from greffon.plots.style import LINES, dress, key_below, sheet, spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLES = {ATTENTION: LINES[0], FUSED: LINES[1], RECURRENCE: LINES[4], CONVOLUTION: LINES[2]}
_SIGNS = {"o": "●", "^": "▲", "s": "■", "D": "◆"}  # so that numbers find their lines without colour
_AXES: dict[Against, str] = {"length": "length n", "width": "width d", "kernel": "kernel k"}
_UNITS: dict[What, tuple[str, float]] = {"time": ("time (ms)", 1e3), "memory": ("memory kept (MB)", 1e-6)}


def complexity_figure(costs: Sequence[Cost] | None = None, *, quick: bool = False) -> "Figure":
    """Draw time and memory against length, width and kernel size; without `costs`, `layer_costs` measures them."""
    from matplotlib.lines import Line2D

    costs = layer_costs(QUICK if quick else Sizes()) if costs is None else costs
    note = (
        "One pass forward on one core (processor time), and what training has to keep of it. Numbers: the exponent "
        "fitted to the upper half of the sizes, and in brackets that of the theory."
    )
    figure = sheet(10.4, 6.9, "What a layer costs, measured", note)
    grid = figure.subplots(2, 3)
    fitted = {(one.layer, one.against, one.what): one for one in exponents(costs)}
    for row, (what, (unit, scale)) in zip(grid, _UNITS.items(), strict=True):
        for axes, (against, name) in zip(row, _AXES.items(), strict=True):
            dress(axes, grid="both")
            ends = []
            for layer, style in _STYLES.items():
                points = [cost for cost in costs if (cost.layer, cost.against) == (layer, against)]
                if points:
                    values = [scale * (point.seconds if what == "time" else point.bytes) for point in points]
                    sizes = [point.size for point in points]
                    axes.plot(sizes, values, **style.line(dark=False), marker=style.marker, markersize=4)
                    one = fitted[layer, against, what]
                    said = f"{_SIGNS[style.marker]} {_short(one.measured)} ({_short(one.theory)})"
                    ends.append((values[-1], said, style.light))
            _scales(axes, sizes)
            _name_ends(axes, ends)
            axes.set(xlabel=f"{name} (log scale)", ylabel=f"{unit}, log scale")
            axes.title.set_text(_fixed(costs, against))
    key = [
        Line2D(
            [],
            [],
            **style.line(dark=False),
            marker=style.marker,
            markersize=4,
            label=f"{layer}: time {THEORY[layer].said['time']}, memory {THEORY[layer].said['memory']}",
        )
        for layer, style in _STYLES.items()
    ]
    key_below(figure, key, columns=2)
    return figure


def _scales(axes: "Axes", sizes: Sequence[int]) -> None:
    from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_locator(FixedLocator(sizes))
    axes.xaxis.set_major_formatter(FixedFormatter([f"{size:,}" for size in sizes]))
    axes.xaxis.set_minor_locator(NullLocator())
    low, high = axes.get_ylim()
    if high / low < 30:  # else a short axis has a single number, or none
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _name_ends(axes: "Axes", ends: Sequence[tuple[float, str, str]]) -> None:
    """Write the exponents at the ends of the lines, moved apart where they would overlap."""
    low, high = (log10(edge) for edge in axes.get_ylim())
    places = spread([log10(y) for y, _, _ in ends], 0.075 * (high - low), low, high)
    for (_, text, colour), y in zip(ends, places, strict=True):
        axes.annotate(
            text,
            (1.02, 10**y),
            xycoords=axes.get_yaxis_transform(),
            color=colour,
            fontsize=8,
            fontweight="bold",
            va="center",
            annotation_clip=False,
        )


def _short(exponent: float) -> str:
    return f"{round(exponent, 1) + 0.0:.1f}"  # no minus before a zero


def _fixed(costs: Sequence[Cost], against: Against) -> str:
    """Return the sizes that are constant while one varies, as text."""
    one = next(cost for cost in costs if cost.against == against and (against != "width" or cost.layer == CONVOLUTION))
    sizes = {"length": f"n = {one.length:,}", "width": f"d = {one.width:,}", "kernel": f"k = {one.kernel}"}
    return ", ".join(text for name, text in sizes.items() if name != against)


def exponents_table(costs: Sequence[Cost]) -> list[str]:
    """Return the exponents as lines of a table."""
    lines = [f"{'layer':<22} {'against':<8} {'what':<7} measured  theory"]
    lines += [
        f"{one.layer:<22} {one.against:<8} {one.what:<7} {_short(one.measured):>8}  {_short(one.theory):>6}"
        for one in exponents(costs)
    ]
    return lines
