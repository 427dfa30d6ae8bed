"""Figures of a comparison, drawn from `results.json` alone; the report and the command line share them.

Each takes `dark` and `width` (inches), because the report shows the same figure on a phone and on a
dark screen. How things look stands in `drawing.py`.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from greffon.comparison.baselines import frozen_name
from greffon.comparison.ensemble import TOGETHER
from greffon.comparison.verdict import is_scratch, shown
from greffon.plots.style import LINES, Name, Style, canvas, finish, inks, pad, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["accuracy_figure", "labels_figure", "save"]

_WIDE = 8.0
_LONGEST_NAME = 20
_SCRATCH = Style("#c4651a", "#f0a35e", "s", (0, (4, 1.6)))
_PRETRAINED = LINES[:4]
_TFIDF = Style("#4a4a46", "#c9c9c4", "P", (0, (5, 3)), weight=1.6)
_MAJORITY = Style("#83837e", "#98989a", "x", (0, (1, 2)), weight=1.1)


def accuracy_figure(results: dict[str, Any], dark: bool = False, width: float = _WIDE) -> "Figure":
    """Test accuracy against epoch: mean and range over seeds, with the baselines as lines."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = canvas(dark, width)
    arms = results["arms"]
    names, heights = [], []
    for name, style in _styles(arms):
        reported, curve = 100 * arms[name]["test_accuracy"]["mean"], arms[name]["curve"]
        if curve:
            _curve(axes, curve, set(arms[name]["chosen_epoch"]), style, dark)
            heights += [100 * edge for point in curve for edge in point["test_range"]]
        else:
            axes.axhline(reported, **style.line(dark))
            heights.append(reported)
        end = 100 * curve[-1]["test"] if curve else reported
        names.append(_name(name, style, dark, y=end, value=reported, marked=bool(curve)))
    pad(axes, min(heights), max(heights))
    curves = [arm["curve"] for arm in arms.values() if arm["curve"]]
    last = max((point["epoch"] for curve in curves for point in curve), default=1)
    axes.set_xlim(-0.02 * last, 1.015 * last)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    early = any(curve[-1]["seeds"] < curve[0]["seeds"] for curve in curves)
    axes.set_xlabel(f"epoch (0: before training{'; ended early: as it ended' if early else ''})")
    axes.set_ylabel("accuracy on test (%)")
    note = "Numbers: test accuracy at the epoch chosen on validation"
    finish(figure, axes, "Accuracy after each epoch", note, names, _key(arms, dark))
    return figure


def labels_figure(results: dict[str, Any], dark: bool = False, width: float = _WIDE) -> "Figure":
    """Test accuracy against the number of labels (log scale), with 95 % intervals, for every arm."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    figure, axes = canvas(dark, width)
    curves = results["label_curve"]
    shown = [(name, style) for name, style in _styles(results["arms"]) if curves.get(name)]
    axes.set_xscale("log")
    names, heights = [], []
    for rank, (name, style) in enumerate(shown):
        shift = 1.025 ** (rank - (len(shown) - 1) / 2)  # bars side by side, not on top of each other
        x = [point["labels"] * shift for point in curves[name]]
        y = [100 * point["mean"] for point in curves[name]]
        low, high = ([100 * point["interval"][side] for point in curves[name]] for side in (0, 1))
        axes.plot(x, y, **style.line(dark), marker=style.marker, markersize=5)
        axes.vlines(x, low, high, color=style.line(dark)["color"], alpha=0.55, linewidth=1.4)
        heights += [*low, *high]
        names.append(_name(name, style, dark, y=y[-1], value=y[-1], marked=True))
    pad(axes, min(heights), max(heights))
    ticks = sorted({point["labels"] for name, _ in shown for point in curves[name]})
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FixedFormatter([f"{tick:,}" for tick in ticks]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("labelled training texts (log scale)")
    axes.set_ylabel("accuracy on test (%)")
    note = "Bars: 95 % intervals. Numbers: accuracy with the most labels"
    finish(figure, axes, "Accuracy by number of labels", note, names, key=[])
    return figure


def _styles(arms: dict[str, Any]) -> Iterator[tuple[str, Style]]:
    """Arms with their styles, pretrained ones first: a lone `pretrained` always looks the same."""
    fresh = [name for name in arms if is_scratch(name)]
    fixed = {name: replace(_SCRATCH, marker=marker) for name, marker in zip(fresh, itertools.cycle("sDv^"))}
    fixed |= {"tfidf": _TFIDF, "majority": _MAJORITY}
    bodies = [name for name, arm in arms.items() if arm["kind"] == "neural" and name not in fixed]
    for index, name in enumerate(bodies):
        style = _PRETRAINED[index % len(_PRETRAINED)]
        yield name, style
        # A frozen body is drawn as its own, thin and dotted.
        if (still := frozen_name(name)) in arms:
            yield still, replace(style, marker=".", dashes=(0, (1, 2.5)), weight=1.1)
        if (both := name + TOGETHER) in arms:  # its colour, and the dashes of TF-IDF
            yield both, replace(style, marker=_TFIDF.marker, dashes=_TFIDF.dashes, weight=_TFIDF.weight)
    yield from ((name, style) for name, style in fixed.items() if name in arms)


def _curve(axes: "Axes", curve: Sequence[dict[str, Any]], chosen: set[int], style: Style, dark: bool) -> None:
    line = style.line(dark)
    x = [point["epoch"] for point in curve]
    low, high = ([100 * point["test_range"][side] for point in curve] for side in (0, 1))
    axes.fill_between(x, low, high, color=line["color"], alpha=0.24 if dark else 0.17, linewidth=0)
    axes.plot(x, [100 * point["test"] for point in curve], **line, marker=style.marker, markersize=4)
    marked = [(point["epoch"], 100 * point["test"]) for point in curve if point["epoch"] in chosen]
    if marked:
        axes.plot(*zip(*marked, strict=True), **_ring(line["color"]), zorder=5, clip_on=False)


def _ring(colour: str) -> dict[str, Any]:
    ring = {"marker": "o", "markersize": 10, "markerfacecolor": "none", "markeredgecolor": colour}
    return {**ring, "linestyle": "none", "markeredgewidth": 1.3}


def _name(name: str, style: Style, dark: bool, y: float, value: float, marked: bool) -> Name:
    from matplotlib.lines import Line2D

    text = f"{_shorten(shown(name))}  {value:.1f} %"
    marker = style.marker if marked else ""
    return Name(y, text, Line2D([], [], **style.line(dark), marker=marker, markersize=4, label=text))


def _key(arms: dict[str, Any], dark: bool) -> list[Any]:
    """What line, band and ring mean; the arms' names stand beside their lines."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    soft = inks(dark)[1]
    seeds = max((len(arm["test_accuracy"]["by_seed"]) for arm in arms.values()), default=1)
    if seeds == 1:
        return [Line2D([], [], **_ring(soft), label="epoch chosen on validation")]
    return [
        Line2D([], [], color=soft, linewidth=2, label=f"mean of {seeds} seeds"),
        Patch(color=soft, alpha=0.35, linewidth=0, label="band: range over seeds"),
        Line2D([], [], **_ring(soft), label="epoch chosen on validation"),
    ]


def _shorten(name: str) -> str:
    """Keep both ends of a long name: runs often differ in their endings."""
    if len(name) <= _LONGEST_NAME:
        return name
    keep = (_LONGEST_NAME - 1) // 2
    return f"{name[:keep]}…{name[-keep:]}"
