"""Figures of a comparison, drawn from its `Results` alone; the report and the command line share them.

Each takes `dark` and `width` (inches), because the report shows the same figure on a phone and on a
dark screen. Colours and layout are those of `plots/style.py`.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from greffon.comparison.names import MAJORITY, TFIDF, is_scratch, shown
from greffon.comparison.results import ArmResult, CurvePoint, Results
from greffon.plots.style import LINES, Name, Style, canvas, finish, inks, pad, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["accuracy_figure", "save", "train_sizes_figure"]

_WIDE = 8.0
_LONGEST_NAME = 20
_SCRATCH = Style("#c4651a", "#f0a35e", "s", (0, (4, 1.6)))
_PRETRAINED = LINES[:4]
_TFIDF = Style("#4a4a46", "#c9c9c4", "P", (0, (5, 3)), weight=1.6)
_MAJORITY = Style("#83837e", "#98989a", "x", (0, (1, 2)), weight=1.1)
_MINOR = Style("#8d8d92", "#86868a", "", "-", weight=0.9)
_FAR = 0.1  # an arm so far below all others is left out of the label curve
_CROWDED = 6  # with more arms than this, the less important ones are drawn thin and grey


def accuracy_figure(results: Results, dark: bool = False, width: float = _WIDE) -> "Figure":
    """Test accuracy against epoch: mean and range over seeds, with the baselines as lines."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = canvas(dark, width)
    minor = _minor_arms(results)
    names, heights = [], []
    for name, style in _styles(results).items():
        arm = results.arms[name]
        reported = 100 * arm.test_accuracy.mean
        if arm.curve:
            _curve(axes, arm.curve, set(arm.chosen_epoch), style, dark)
            heights += [100 * edge for point in arm.curve for edge in point.test_range]
        else:
            axes.axhline(reported, **style.line(dark))
            heights.append(reported)
        end = 100 * arm.curve[-1].test if arm.curve else reported
        marked = style if arm.curve else replace(style, marker="")
        names.append(_name(name, marked, dark, y=end, value=reported, minor=name in minor))
    pad(axes, min(heights), max(heights))
    curves = [arm.curve for arm in results.arms.values() if arm.curve]
    last = max((point.epoch for curve in curves for point in curve), default=1)
    axes.set_xlim(-0.02 * last, 1.015 * last)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    early = any(curve[-1].seeds < curve[0].seeds for curve in curves)
    axes.set_xlabel(f"epoch (0: before training{'; ended early: as it ended' if early else ''})")
    axes.set_ylabel("accuracy on test (%)")
    note = "Numbers: test accuracy at the epoch chosen on validation"
    finish(figure, axes, "Accuracy after each epoch", note, _best_first(names), _key(results.arms, dark))
    return figure


def train_sizes_figure(results: Results, dark: bool = False, width: float = _WIDE) -> "Figure":
    """The label curve: test score against the number of labels (log scale), with 95 % intervals, for every arm."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    figure, axes = canvas(dark, width)
    sizes = results.train_sizes
    left_out = _far_below(results)
    styles = {name: style for name, style in _curve_styles(results).items() if name != left_out}
    drawn = [(name, style) for name, style in styles.items() if all(name in size.arms for size in sizes)]
    axes.set_xscale("log")
    minor = _minor_arms(results)
    names, heights = [], []
    x = [size.size for size in sizes]
    for name, style in drawn:
        y = [100 * size.arms[name].mean for size in sizes]
        low, high = ([100 * size.arms[name].interval[side] for size in sizes] for side in (0, 1))
        line = style.line(dark)
        axes.plot(x, y, **line, marker=style.marker, markersize=5)
        if name not in minor and name != MAJORITY:
            axes.fill_between(x, low, high, color=line["color"], alpha=0.16 if dark else 0.11, linewidth=0)
        heights += [*low, *high] if name not in minor and name != MAJORITY else y
        names.append(_name(name, style, dark, y=y[-1], value=y[-1], minor=name in minor))
    pad(axes, min(heights), max(heights))
    axes.xaxis.set_major_locator(FixedLocator(x))
    axes.xaxis.set_major_formatter(FixedFormatter([f"{size:,}" for size in x]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("labels (log scale)")
    metric = results.metric.replace("_", " ")
    axes.set_ylabel(f"{metric} on test (%)")
    draws = len(next(iter(sizes[-1].arms.values())).by_draw)
    note = f"{draws} draws of labels; bands: 95 % intervals" if draws > 1 else "Bands: 95 % intervals"
    if left_out is not None:
        note += f"; not drawn: {shown(left_out)}, {100 * sizes[-1].arms[left_out].mean:.1f} %"
    finish(figure, axes, f"{metric.capitalize()} by number of labels", note, _best_first(names), key=[])
    return figure


def _curve_styles(results: Results) -> dict[str, Style]:
    """Choose styles as for the other figure; where there is one body, its three arms have colours of their own."""
    styles = _styles(results)
    if len(results.scratch) != 1:
        return styles
    for name, arm in results.arms.items():
        if name in styles and arm.body is not None:
            own = LINES[2] if arm.is_frozen else LINES[1]
            styles[name] = replace(styles[name], light=own.light, dark=own.dark)
    return styles


def _far_below(results: Results) -> str | None:
    """Name the majority arm if it would take much of the figure's height from the others."""
    lowest = [min(size.arms[name].mean for size in results.train_sizes) for name in results.train_sizes[0].arms]
    others = [value for name, value in zip(results.train_sizes[0].arms, lowest, strict=True) if name != MAJORITY]
    if MAJORITY not in results.train_sizes[0].arms or not others:
        return None
    return MAJORITY if min(others) - max(size.arms[MAJORITY].mean for size in results.train_sizes) > _FAR else None


def _styles(results: Results) -> dict[str, Style]:
    """Choose a style for each arm, in the order of drawing; a lone `pretrained` always looks the same.

    An ensemble has the colour of its body and the dashes of TF-IDF; a frozen body is thin and dotted.
    """
    pretrained = dict(zip(results.scratch, itertools.cycle(_PRETRAINED)))
    markers = itertools.cycle("sDv^")
    styles: dict[str, Style] = {}
    for name, style in pretrained.items():
        styles[name] = style
        for other, arm in results.arms.items():
            if arm.body == name and arm.is_frozen:
                styles[other] = replace(style, marker=".", dashes=(0, (1, 2.5)), weight=1.1)
            elif arm.body == name:
                styles[other] = replace(style, marker=_TFIDF.marker, dashes=_TFIDF.dashes, weight=_TFIDF.weight)
    styles |= {name: replace(_SCRATCH, marker=next(markers)) for name in results.arms if is_scratch(name)}
    styles |= {TFIDF: _TFIDF, MAJORITY: _MAJORITY}
    minor = _minor_arms(results)
    thin = {name: replace(_MINOR, dashes=styles[name].dashes) for name in styles if name in minor}
    return thin | {name: style for name, style in styles.items() if name in results.arms and name not in minor}


def _minor_arms(results: Results) -> set[str]:
    """Name the arms that a crowded figure draws thin and grey.

    These are the frozen bodies, the majority baseline, and all ensembles but the best on validation.
    """
    if len(results.arms) <= _CROWDED:
        return set()
    ensembles = results.arms_of("ensemble")
    best = max(ensembles, key=lambda name: ensembles[name].valid_accuracy.mean, default=None)
    frozen = {name for name, arm in results.arms.items() if arm.is_frozen}
    return frozen | {MAJORITY} | (ensembles.keys() - {best})


def _curve(axes: "Axes", curve: Sequence[CurvePoint], chosen: set[int], style: Style, dark: bool) -> None:
    line = style.line(dark)
    x = [point.epoch for point in curve]
    low, high = ([100 * point.test_range[side] for point in curve] for side in (0, 1))
    axes.fill_between(x, low, high, color=line["color"], alpha=0.24 if dark else 0.17, linewidth=0)
    axes.plot(x, [100 * point.test for point in curve], **line, marker=style.marker, markersize=4)
    marked = [(point.epoch, 100 * point.test) for point in curve if point.epoch in chosen]
    if marked:
        axes.plot(*zip(*marked, strict=True), **_ring(line["color"]), zorder=5, clip_on=False)


def _ring(colour: str) -> dict[str, Any]:
    ring = {"marker": "o", "markersize": 10, "markerfacecolor": "none", "markeredgecolor": colour}
    return {**ring, "linestyle": "none", "markeredgewidth": 1.3}


def _name(name: str, style: Style, dark: bool, y: float, value: float, minor: bool) -> Name:
    from matplotlib.lines import Line2D

    text = f"{_shorten(shown(name))}  {value:.1f} %"
    handle = Line2D([], [], **style.line(dark), marker=style.marker, markersize=4, label=text)
    return Name(y, text, handle, minor)


def _best_first(names: Sequence[Name]) -> list[Name]:
    """Sort the names as their lines end, from the top, so that a legend has the order of the plot."""
    return sorted(names, key=lambda name: -name.y)


def _key(arms: Mapping[str, ArmResult], dark: bool) -> list[Any]:
    """Explain line, band and ring; the arms are named beside their lines."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    soft = inks(dark)[1]
    seeds = max((len(arm.test_accuracy.by_seed) for arm in arms.values()), default=1)
    if seeds == 1:
        return [Line2D([], [], **_ring(soft), label="epoch chosen on validation")]
    return [
        Line2D([], [], color=soft, linewidth=2, label=f"mean of {seeds} seeds"),
        Patch(color=soft, alpha=0.35, linewidth=0, label="band: range over seeds"),
        Line2D([], [], **_ring(soft), label="epoch chosen on validation"),
    ]


def _shorten(name: str) -> str:
    """Shorten a long name in its middle: runs often differ in their endings."""
    if len(name) <= _LONGEST_NAME:
        return name
    keep = (_LONGEST_NAME - 1) // 2
    return f"{name[:keep]}…{name[-keep:]}"
