"""The reliability diagram: of the answers of each probability, how many are right?"""

from typing import TYPE_CHECKING

from greffon.comparison.arm_styles import arm_styles, minor_arms
from greffon.comparison.epoch_figure import WIDE, arm_name, best_first
from greffon.comparison.names import MAJORITY
from greffon.comparison.results import Results
from greffon.comparison.task_results import TaskResults
from greffon.inference.calibration import calibration_error
from greffon.plots.style import canvas, finish, inks, pad

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LARGEST = 160.0  # area of the sign of a bin that holds all answers, in points


def reliability_figure(results: Results | TaskResults, dark: bool = False, width: float = WIDE) -> "Figure":
    """Draw the share of right answers against their probability, in ten bins, for every arm with probabilities."""
    figure, axes = canvas(dark, width)
    minor = {MAJORITY} if isinstance(results, TaskResults) else minor_arms(results) | {MAJORITY}
    names, heights, sides = [], [], []
    for name, style in arm_styles(results).items():
        bins = results.arms[name].reliability
        if name in minor or not bins:
            continue
        x, y = [100 * each.probability for each in bins], [100 * each.right for each in bins]
        line = style.line(dark)
        axes.plot(x, y, **line)
        sizes = [6 + _LARGEST * each.share for each in bins]
        axes.scatter(x, y, sizes, color=line["color"], marker=style.marker, zorder=3, clip_on=False)
        names.append(arm_name(name, style, dark, y[-1], f"{calibration_error(bins):.3f}"))
        heights += y
        sides += x
    low, high = min(heights + sides), max(heights + sides)
    axes.plot([low, high], [low, high], color=inks(dark)[1], linewidth=1.0, linestyle=(0, (1, 2)), zorder=0)
    pad(axes, low, high)
    axes.set_xlim(axes.get_ylim())
    several = isinstance(results, TaskResults) and results.task == "multilabel"
    axes.set_xlabel("probability of a label (%)" if several else "probability of the given label (%)")
    axes.set_ylabel("texts that have it (%)" if several else "right (%)")
    note = "Numbers: calibration error; large signs: many answers"
    finish(figure, axes, "How far probabilities can be believed", note, best_first(names), key=[])
    return figure
