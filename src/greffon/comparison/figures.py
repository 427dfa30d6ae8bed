"""Figures of a comparison, drawn from its results alone; the report and the command line share them.

Each takes `dark` and `width` (inches), because the report shows the same figure on a phone and on a
dark screen. Colours and layout are those of `plots/style.py`.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from greffon.comparison.arm_styles import arm_styles, minor_arms
from greffon.comparison.epoch_figure import WIDE, ArmLine, Scale, arm_name, best_first, epoch_figure
from greffon.comparison.names import MAJORITY, shown
from greffon.comparison.results import Results
from greffon.comparison.task_results import TaskResults
from greffon.plots.style import LINES, Style, canvas, finish, pad, save

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["accuracy_figure", "save", "score_figure", "train_sizes_figure"]

_FAR = 0.1  # an arm so far below all others is left out of the label curve


def accuracy_figure(results: Results, dark: bool = False, width: float = WIDE) -> "Figure":
    """Test accuracy against epoch: mean and range over seeds, with the baselines as lines."""
    minor, arms = minor_arms(results), results.arms
    lines = [
        ArmLine(
            name,
            style,
            reported=arms[name].test_accuracy.mean,
            seeds=len(arms[name].test_accuracy.by_seed),
            curve=arms[name].curve,
            chosen=frozenset(arms[name].chosen_epoch),
            minor=name in minor,
        )
        for name, style in arm_styles(results).items()
    ]
    return epoch_figure(lines, Scale("accuracy on test (%)", "accuracy", percent=True), dark, width)


def score_figure(results: TaskResults, dark: bool = False, width: float = WIDE) -> "Figure":
    """First measure of another task on the test texts against epoch, with the baseline as a line."""
    lines = [
        ArmLine(name, style, arm.test_score.mean, len(arm.test_score.by_seed), arm.mean_curve())
        for name, style in arm_styles(results).items()
        for arm in [results.arms[name]]
    ]
    lower = "" if results.higher_is_better else " (lower is better)"
    return epoch_figure(lines, Scale(f"{results.metric_name} on test{lower}", results.metric_name), dark, width)


def train_sizes_figure(results: Results, dark: bool = False, width: float = WIDE) -> "Figure":
    """The label curve: test score against the number of labels (log scale), with 95 % intervals, for every arm."""
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    figure, axes = canvas(dark, width)
    sizes = results.train_sizes
    left_out = _far_below(results)
    styles = {name: style for name, style in _curve_styles(results).items() if name != left_out}
    drawn = [(name, style) for name, style in styles.items() if all(name in size.arms for size in sizes)]
    axes.set_xscale("log")
    minor = minor_arms(results)
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
        names.append(arm_name(name, style, dark, y[-1], f"{y[-1]:.1f} %", name in minor))
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
    finish(figure, axes, f"{metric.capitalize()} by number of labels", note, best_first(names), key=[])
    return figure


def _curve_styles(results: Results) -> dict[str, Style]:
    """Choose styles as for the other figure; where there is one body, its three arms have colours of their own."""
    styles = arm_styles(results)
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
