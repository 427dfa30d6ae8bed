"""Learning curves: training and validation loss of one run or several."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from greffon.core.errors import UserError, did_you_mean
from greffon.plots.style import LINES, Style, dress, key_below, sheet
from greffon.runs.run import Run, own_loss

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

By = Literal["step", "minutes"]
_POINTS = 60  # that a line of single steps is smoothed to
_SCORES = {
    "bits_per_byte": "held-out bits per byte",
    "accuracy": "held-out accuracy (%)",
    "bleu": "held-out BLEU",
    "micro_f1": "held-out micro F1",
    "mae": "held-out mean absolute error",
    "span_f1": "held-out F1 of spans",
}


def curves_figure(runs: Sequence[str | Path | Run] | str | Path | Run, *, by: By = "step") -> "Figure":
    """Draw the loss against steps or minutes, and in a second panel another validation score, if there is one."""
    opened = Run.open_all(runs)
    if not 1 <= len(opened) <= len(LINES):
        raise UserError(f"{len(opened)} runs to draw; give from 1 to {len(LINES)}")
    if by not in get_args(By):
        raise UserError(f"unknown axis {by!r}{did_you_mean(by, get_args(By))}")
    metrics = {run: run.metrics() for run in opened}
    for run, entries in metrics.items():
        if not entries:
            raise UserError(f"{run.path} has no metrics yet; train it with `greffon resume {run.path}`")
    scores = [name for name in _SCORES if any(name in entry.get("valid", {}) for m in metrics.values() for entry in m)]
    note = "Thin: training loss, smoothed. Thick, with markers: validation."
    figure = sheet(4.4 + 4.0 * bool(scores), 4.0, "Learning curves", note)
    grid = figure.subplots(1, 1 + bool(scores), squeeze=False)[0]
    for run, style in zip(opened, LINES, strict=False):
        _draw(grid, metrics[run], scores[-1:], style, by)
    for axes, label in zip(grid, [_loss(opened), *(_SCORES[name] for name in scores[-1:])], strict=True):
        dress(axes)
        axes.set(xlabel="step" if by == "step" else "minutes of training", ylabel=label)
        right = axes.get_xlim()[1]
        axes.set_xlim(-0.02 * right, right)
    _key(figure, opened)
    return figure


def _loss(runs: Sequence[Run]) -> str:
    """Name the loss with its unit, which is another one for scores."""
    squared = {run.recipe.objective == "classify" and run.recipe.answer == "regression" for run in runs}
    if len(squared) == 2:
        return "loss"
    return "squared error (standardised scores)" if squared == {True} else "loss (nats)"


def _draw(grid: Sequence["Axes"], entries: list[dict[str, Any]], scores: list[str], style: Style, by: By) -> None:
    line = style.line(dark=False)
    steps = [entry for entry in entries if "loss" in entry]
    x, y = smooth([_place(entry, by) for entry in steps], [own_loss(entry) for entry in steps])
    grid[0].plot(x, y, **{**line, "linewidth": 1.0}, alpha=0.8)
    for axes, name in zip(grid, ["loss", *scores], strict=True):
        held = [entry for entry in entries if name in entry.get("valid", {})]
        values = [entry["valid"][name] * (100 if name == "accuracy" else 1) for entry in held]
        axes.plot([_place(entry, by) for entry in held], values, **line, marker=style.marker, markersize=4.5)


def _place(entry: dict[str, Any], by: By) -> float:
    return float(entry["step"] if by == "step" else entry["seconds"] / 60)


def smooth(x: Sequence[float], y: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """Average neighbouring points until few are left.

    >>> smooth(range(4), [1, 1, 3, 3])[1].tolist()
    [1.0, 1.0, 3.0, 3.0]
    """
    groups = np.array_split(np.arange(len(x)), min(len(x), _POINTS)) if len(x) else []
    return (
        np.array([np.mean(np.asarray(x)[group]) for group in groups]),
        np.array([np.mean(np.asarray(y)[group]) for group in groups]),
    )


def _key(figure: "Figure", runs: Sequence[Run]) -> None:
    from matplotlib.lines import Line2D

    # Runs of a comparison are all called seed-0: their parents tell them apart.
    alike = len({run.name for run in runs}) < len(runs)
    told = [f"{run.path.resolve().parent.name}/{run.name}" if alike else run.name for run in runs]
    handles = []
    for run, name, style in zip(runs, told, LINES, strict=False):
        state = "" if run.finished else " (not finished)"
        handles.append(
            Line2D([], [], **style.line(dark=False), marker=style.marker, markersize=4.5, label=name + state)
        )
    key_below(figure, handles, columns=1 if len(handles) < 3 else 2)
