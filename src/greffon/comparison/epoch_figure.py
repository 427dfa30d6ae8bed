"""A score against epoch, with a line for each arm: what comparisons of classes and of other tasks both draw."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from greffon.comparison.arm_result import CurvePoint
from greffon.comparison.names import shown
from greffon.plots.style import Name, Style, canvas, finish, inks, pad

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDE = 8.0
"""Width of a figure in inches, where nothing else is asked for."""
_LONGEST_NAME = 20


@dataclass(frozen=True)
class ArmLine:
    """An arm as it is drawn."""

    name: str
    style: Style
    reported: float
    """Mean score on the test texts, at the epoch chosen on validation."""
    seeds: int
    curve: Sequence[CurvePoint] = ()
    """Empty for an arm that is not trained over epochs, which becomes a line across."""
    chosen: frozenset[int] = frozenset()
    """Epochs that were chosen on validation, which are ringed."""
    minor: bool = False


@dataclass(frozen=True)
class Scale:
    """What the vertical axis shows, and how it is written."""

    label: str
    title: str
    percent: bool = False
    """Whether the scores are shares, written as percentages."""

    def of(self, score: float) -> float:
        """Return where a score stands on the axis."""
        return 100 * score if self.percent else score

    def told(self, score: float) -> str:
        """Write a score."""
        return f"{100 * score:.1f} %" if self.percent else f"{score:.3f}"


def epoch_figure(lines: Sequence[ArmLine], scale: Scale, dark: bool, width: float) -> "Figure":
    """Draw the score on the test texts against epoch: mean and range over seeds, with other arms as lines across."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = canvas(dark, width)
    names, heights = [], []
    for line in lines:
        if line.curve:
            _curve(axes, line, scale, dark)
            heights += [scale.of(edge) for point in line.curve for edge in point.test_range]
        else:
            axes.axhline(scale.of(line.reported), **line.style.line(dark))
            heights.append(scale.of(line.reported))
        end = line.curve[-1].test if line.curve else line.reported
        marked = line.style if line.curve else replace(line.style, marker="")
        names.append(arm_name(line.name, marked, dark, scale.of(end), scale.told(line.reported), line.minor))
    if scale.percent:
        pad(axes, min(heights), max(heights))
    curves = [line.curve for line in lines if line.curve]
    last = max((point.epoch for curve in curves for point in curve), default=1)
    axes.set_xlim(-0.02 * last, 1.015 * last)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    early = any(curve[-1].seeds < curve[0].seeds for curve in curves)
    axes.set_xlabel(f"epoch (0: before training{'; ended early: as it ended' if early else ''})")
    axes.set_ylabel(scale.label)
    note = "Numbers: on test, at the epoch chosen on validation"
    heading = f"{scale.title[0].upper()}{scale.title[1:]} after each epoch"
    finish(figure, axes, heading, note, best_first(names), _key(lines, dark))
    return figure


def _curve(axes: "Axes", arm: ArmLine, scale: Scale, dark: bool) -> None:
    line = arm.style.line(dark)
    x = [point.epoch for point in arm.curve]
    low, high = ([scale.of(point.test_range[side]) for point in arm.curve] for side in (0, 1))
    axes.fill_between(x, low, high, color=line["color"], alpha=0.24 if dark else 0.17, linewidth=0)
    axes.plot(x, [scale.of(point.test) for point in arm.curve], **line, marker=arm.style.marker, markersize=4)
    marked = [(point.epoch, scale.of(point.test)) for point in arm.curve if point.epoch in arm.chosen]
    if marked:
        axes.plot(*zip(*marked, strict=True), **_ring(line["color"]), zorder=5, clip_on=False)


def _ring(colour: str) -> dict[str, Any]:
    ring = {"marker": "o", "markersize": 10, "markerfacecolor": "none", "markeredgecolor": colour}
    return {**ring, "linestyle": "none", "markeredgewidth": 1.3}


def arm_name(name: str, style: Style, dark: bool, y: float, told: str, minor: bool = False) -> Name:
    """Write an arm and its score beside the place where its line ends."""
    from matplotlib.lines import Line2D

    text = f"{_shorten(shown(name))}  {told}"
    handle = Line2D([], [], **style.line(dark), marker=style.marker, markersize=4, label=text)
    return Name(y, text, handle, minor)


def best_first(names: Sequence[Name]) -> list[Name]:
    """Sort the names as their lines end, from the top, so that a legend has the order of the plot."""
    return sorted(names, key=lambda name: -name.y)


def _key(lines: Sequence[ArmLine], dark: bool) -> list[Any]:
    """Explain line, band and ring; the arms are named beside their lines."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    soft = inks(dark)[1]
    seeds = max((line.seeds for line in lines), default=1)
    key: list[Any] = []
    if seeds > 1:
        key = [
            Line2D([], [], color=soft, linewidth=2, label=f"mean of {seeds} seeds"),
            Patch(color=soft, alpha=0.35, linewidth=0, label="band: range over seeds"),
        ]
    if any(line.chosen for line in lines):
        key.append(Line2D([], [], **_ring(soft), label="epoch chosen on validation"))
    return key


def _shorten(name: str) -> str:
    """Shorten a long name in its middle: runs often differ in their endings."""
    if len(name) <= _LONGEST_NAME:
        return name
    keep = (_LONGEST_NAME - 1) // 2
    return f"{name[:keep]}…{name[-keep:]}"
