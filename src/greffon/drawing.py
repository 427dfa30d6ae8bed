"""The house style of figures: a canvas without pyplot, colours for light and dark, names beside lines.

Knows nothing of what is drawn. matplotlib is imported when needed (`greffon[compare]`); sizes are in
inches and points, so that text keeps its size whatever the width of the figure.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from greffon.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Without these the files would hold a date or a version, and the same results another file.
_METADATA: dict[str, dict[str, Any]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
_PLOT, _TOP, _AXIS, _ROW = 3.1, 0.72, 0.64, 0.2  # inches: plot height, heading, x axis, a legend row
_NARROW = 6.0  # below this width names go under the plot, because beside it they would squeeze it
_SIZE = 9.0  # points


@dataclass(frozen=True)
class Style:
    """How one line is drawn; marker and dashes tell lines apart without colour."""

    light: str
    dark: str
    marker: str
    dashes: Any
    weight: float = 2.0

    def line(self, dark: bool) -> dict[str, Any]:
        """The keywords that matplotlib takes for a line in this style."""
        colour = self.dark if dark else self.light
        return {"color": colour, "linestyle": self.dashes, "linewidth": self.weight}


@dataclass(frozen=True)
class Name:
    """A line's name and value, and the height at which the line ends."""

    y: float
    text: str
    handle: Any


def inks(dark: bool) -> tuple[str, str, str]:
    """Ink, softer ink and paper; the report's page has the same."""
    return ("#e8e6e1", "#98989a", "#1b1c1e") if dark else ("#26282b", "#6d6d70", "#ffffff")


def canvas(dark: bool, width: float) -> tuple["Figure", "Axes"]:
    """An empty figure with one pair of axes."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise UserError("drawing a figure needs matplotlib; install it with: pip install 'greffon[compare]'") from error
    ink, soft, paper = inks(dark)
    figure = Figure(figsize=(width, _PLOT + _TOP + _AXIS), facecolor=paper)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(facecolor=paper)
    axes.grid(axis="y", color=soft, alpha=0.25, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(soft)
    axes.tick_params(axis="both", colors=ink, labelsize=_SIZE, length=0, pad=5)
    axes.tick_params(axis="x", length=3, color=soft)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set(color=ink, fontsize=_SIZE)
    return figure, axes


def pad(axes: "Axes", low: float, high: float) -> None:
    """A little air above and below percentages, without pretending that there is anything beyond 100."""
    margin = max(1.5, 0.06 * (high - low))
    axes.set_ylim(max(-0.8, low - margin), min(100.8, high + margin))


def finish(figure: "Figure", axes: "Axes", title: str, note: str, names: Sequence[Name], key: Sequence[Any]) -> None:
    """Heading, names of the lines, the key that explains the signs, and room for them all."""
    width = figure.get_figwidth()
    ink, soft = axes.yaxis.label.get_color(), axes.spines["bottom"].get_edgecolor()
    wide = width >= _NARROW
    rows = (1 if key else 0) if wide else len(names) + len(key)
    height = _TOP + _PLOT + _AXIS + rows * _ROW
    figure.set_figheight(height)
    longest = max((_text_width(name.text) for name in names), default=0.0)
    figure.subplots_adjust(
        left=0.62 / width,
        right=1 - (longest + 0.46 if wide else 0.2) / width,
        top=1 - _TOP / height,
        bottom=(_AXIS + rows * _ROW) / height,
    )
    figure.text(0.14 / width, 1 - 0.13 / height, title, color=ink, fontsize=12, fontweight="bold", va="top")
    figure.text(0.14 / width, 1 - 0.40 / height, note, color=soft, fontsize=8.3, va="top")
    if wide:
        _names_beside(axes, names)
    handles = list(key) if wide else [*(name.handle for name in names), *key]
    if handles:
        figure.legend(
            handles=handles,
            loc="lower left",
            bbox_to_anchor=(0.5 / width, 0.04 / height),
            ncols=len(handles) if wide else 1,
            frameon=False,
            fontsize=8.6,
            labelcolor=ink,
            handlelength=3.2,
            borderpad=0,
            columnspacing=1.8,
            labelspacing=0.55,
        )


def _text_width(text: str) -> float:
    """Inches that a bold name takes."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    path = TextPath((0, 0), text, prop=FontProperties(weight="bold", size=_SIZE))
    return float(path.get_extents().width) / 72


def _names_beside(axes: "Axes", names: Sequence[Name]) -> None:
    """Write the names at the right, pushed apart where they would touch, each tied to its line."""
    bottom, top = axes.get_ylim()
    gap = (top - bottom) * 1.4 * _SIZE / 72 / _PLOT
    places = spread([name.y for name in names], gap, bottom, top)
    inch = 1 / (axes.get_position().width * axes.get_figure(root=True).get_figwidth())  # type: ignore[union-attr]
    for name, y in zip(names, places, strict=True):
        colour = name.handle.get_color()
        tie = ([1 + 0.03 * inch, 1 + 0.22 * inch], [name.y, y])
        across = axes.get_yaxis_transform()  # x in widths of the axes, y in data
        axes.plot(*tie, transform=across, color=colour, linewidth=0.9, clip_on=False, scalex=False, scaley=False)
        axes.text(
            1 + 0.28 * inch,
            y,
            name.text,
            transform=across,
            color=colour,
            fontsize=_SIZE,
            fontweight="bold",
            va="center_baseline",
        )


def spread(values: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places as near the values as can be, at least `gap` apart, between `low` and `high` if they fit.

    >>> spread([5.0, 5.0], 2.0, 0.0, 10.0)
    [4.0, 6.0]
    """
    blocks: list[list[int]] = []  # neighbours that touch, from below; each block is centred on its mean

    def centre(block: list[int]) -> float:
        half = gap * (len(block) - 1) / 2
        mean = sum(values[index] for index in block) / len(block)
        return max(min(mean, high - half), low + half)

    for index in sorted(range(len(values)), key=lambda index: values[index]):
        block = [index]
        while blocks and centre(block) - centre(blocks[-1]) < gap * (len(block) + len(blocks[-1])) / 2:
            block = blocks.pop() + block
        blocks.append(block)
    places = [0.0] * len(values)
    for block in blocks:
        for rank, index in enumerate(block):
            places[index] = centre(block) + gap * (rank - (len(block) - 1) / 2)
    return places


def save(figure: "Figure", path: Path | str, dpi: int = 180) -> Path:
    """Write the figure whole or not at all; the same figure gives the same bytes."""
    from matplotlib import rc_context

    path = Path(path)
    if path.suffix not in _METADATA:
        raise UserError(f"cannot draw {path}: choose a name that ends in {', '.join(_METADATA)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with rc_context({"svg.hashsalt": "greffon"}):
            figure.savefig(beside, format=path.suffix[1:], dpi=dpi, metadata=_METADATA[path.suffix])
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return path
