"""The figure of a study: the score against the number of labels, chosen and random."""

from typing import TYPE_CHECKING

from greffon.plots.style import LINES, Name, canvas, finish, pad

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from greffon.labelling.study import LabelStudy


def study_figure(results: "LabelStudy", dark: bool = False, width: float = 8.0) -> "Figure":
    """Draw the mean score with 95 % intervals over the seeds, for chosen and random labels."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

    figure, axes = canvas(dark, width)
    axes.set_xscale("log")
    names, heights = [], []
    for place, ((name, points), style) in enumerate(zip(results.arms.items(), (LINES[0], LINES[4]), strict=True)):
        y = [100 * point.score.mean for point in points]
        low, high = ([100 * point.score.interval[side] for point in points] for side in (0, 1))
        x = [point.labels * 1.012 ** (1 - 2 * place) for point in points]  # bars side by side
        axes.plot(x, y, **style.line(dark), marker=style.marker, markersize=5)
        axes.vlines(x, low, high, color=style.line(dark)["color"], alpha=0.55, linewidth=1.4)
        heights += [*low, *high]
        text = f"{name}  {y[-1]:.1f} %"
        handle = Line2D([], [], **style.line(dark), marker=style.marker, markersize=4, label=text)
        names.append(Name(y[-1], text, handle))
    pad(axes, min(heights), max(heights))
    sizes = sorted({point.labels for point in next(iter(results.arms.values()))})
    axes.xaxis.set_major_locator(FixedLocator(sizes))
    axes.xaxis.set_major_formatter(FixedFormatter([f"{size:,}" for size in sizes]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("labels (log scale)")
    measure = results.metric.replace("_f1", " F1")
    axes.set_ylabel(f"{measure} (%)")
    note = f"Bars: 95 % intervals over {results.seeds} seeds. Numbers: {measure} with the most labels"
    finish(
        figure, axes, f"{measure[0].upper()}{measure[1:]} by number of labels, chosen and random", note, names, key=[]
    )
    return figure
