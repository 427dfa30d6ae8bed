"""The style of all figures: a canvas without pyplot, colours for light and dark, names beside lines.

Knows nothing of what is drawn. matplotlib is imported when needed (`greffon[compare]`); sizes are in
inches and points, so that text keeps its size whatever the width of the figure.
"""

import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from greffon.core.errors import UserError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
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
_LINE = 1.4 * _SIZE / 72  # inches between two names beside the plot


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


LINES = (
    Style("#0a5c7a", "#5cc3e8", "o", "-"),
    Style("#7a3b8f", "#cf9be0", "^", (0, (7, 1.5, 1.5, 1.5))),
    Style("#3f7a2c", "#9fd488", "D", (0, (2, 1))),
    Style("#9c2f4d", "#f08fa8", "v", (0, (9, 2))),
    Style("#c4651a", "#f0a35e", "s", (0, (4, 1.6))),
    Style("#4a4a46", "#c9c9c4", "P", (0, (1, 1.2))),
)
"""Styles of lines, in the order in which they are used."""


@dataclass(frozen=True)
class Name:
    """A line's name and value, and the height at which the line ends."""

    y: float
    text: str
    handle: Any
    minor: bool = False
    """Whether the name is written in regular instead of bold letters."""


def inks(dark: bool) -> tuple[str, str, str]:
    """Return the colours of text, secondary text and background, as in the report."""
    return ("#e8e6e1", "#98989a", "#1b1c1e") if dark else ("#26282b", "#6d6d70", "#ffffff")


def canvas(dark: bool, width: float) -> tuple["Figure", "Axes"]:
    """Return an empty figure with one pair of axes."""
    figure = _blank(width, _PLOT + _TOP + _AXIS, inks(dark)[2])
    axes = figure.add_subplot()
    dress(axes, dark)
    axes.spines["left"].set_visible(False)
    return figure, axes


def _blank(width: float, height: float, paper: str) -> "Figure":
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise UserError("drawing a figure needs matplotlib; install it with: pip install 'greffon[compare]'") from error
    figure = Figure(figsize=(width, height), facecolor=paper)
    FigureCanvasAgg(figure)
    return figure


def dress(axes: "Axes", dark: bool = False, grid: Literal["x", "y", "both"] | None = "y") -> None:
    """Apply the colours, sizes and grid of the style to axes."""
    ink, soft, paper = inks(dark)
    axes.set_facecolor(paper)
    if grid is not None:
        axes.grid(axis=grid, color=soft, alpha=0.25, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color(soft)
    axes.tick_params(axis="both", colors=ink, labelsize=_SIZE, length=0, pad=5)
    axes.tick_params(axis="x", length=3, color=soft)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set(color=ink, fontsize=_SIZE)
    axes.title.set(color=ink, fontsize=_SIZE)


def sheet(width: float, height: float, title: str, note: str) -> "Figure":
    """Return an empty figure with a heading, whose layout adapts to the labels of its axes."""
    ink, soft, paper = inks(dark=False)
    figure = _blank(width, height, paper)
    width = max(width, text_width(title, 12) + 0.3)
    lines = textwrap.wrap(note, int(16 * width))
    top = 0.44 + 0.16 * len(lines)
    figure.set_size_inches(width, height + top)
    figure.set_layout_engine("constrained", rect=(0, 0, 1, height / (height + top)), w_pad=0.1, h_pad=0.1)
    head: dict[str, Any] = {"transform": figure.dpi_scale_trans, "va": "top", "in_layout": False}
    figure.text(0.14, height + top - 0.13, title, color=ink, fontsize=12, fontweight="bold", **head)
    figure.text(0.14, height + top - 0.40, "\n".join(lines), color=soft, fontsize=8.3, **head)
    return figure


def key_below(figure: "Figure", handles: Sequence[Any], columns: int) -> None:
    """Draw a legend below the axes."""
    figure.legend(
        handles=handles,
        loc="outside lower left",
        ncols=columns,
        frameon=False,
        fontsize=8.6,
        labelcolor=inks(dark=False)[0],
        handlelength=3.2,
        columnspacing=1.8,
    )


def shades() -> "Colormap":
    """Return the colour map: from white through blue to black, so that it also works in grey."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("greffon", ["#ffffff", "#8fc1d6", "#2f86a8", "#0a5c7a", "#04222e"])


def plain(text: str, longest: int = 18) -> str:
    """Return a token as a figure can show it: visible spaces, no characters that the font lacks, shortened.

    >>> plain(" chat"), plain("a\\n")
    ('␣chat', 'a↵')
    """
    from matplotlib.font_manager import FontProperties, findfont, get_font

    known = get_font(findfont(FontProperties())).get_charmap()
    text = text.replace(" ", "␣").replace("\n", "↵").replace("\t", "→")
    text = "".join(sign if ord(sign) in known else "□" for sign in text)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def pad(axes: "Axes", low: float, high: float) -> None:
    """Add a margin above and below percentages, without ticks beyond 100."""
    margin = max(1.5, 0.06 * (high - low))
    axes.set_ylim(max(-0.8, low - margin), min(100.8, high + margin))


def finish(figure: "Figure", axes: "Axes", title: str, note: str, names: Sequence[Name], key: Sequence[Any]) -> None:
    """Add heading, names of the lines and legend, and make room for them."""
    width = figure.get_figwidth()
    ink, soft = axes.yaxis.label.get_color(), axes.spines["bottom"].get_edgecolor()
    wide = width >= _NARROW
    plot = max(_PLOT, len(names) * _LINE) if wide else _PLOT
    rows = (1 if key else 0) if wide else len(names) + len(key)
    height = _TOP + plot + _AXIS + rows * _ROW
    figure.set_figheight(height)
    longest = max((text_width(name.text) for name in names), default=0.0)
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


def text_width(text: str, size: float = _SIZE, weight: str = "bold") -> float:
    """Return the width of a text in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    path = TextPath((0, 0), text, prop=FontProperties(weight=weight, size=size))
    return float(path.get_extents().width) / 72


def _names_beside(axes: "Axes", names: Sequence[Name]) -> None:
    """Write the names at the right, moved apart where they would overlap, each connected to its line."""
    bottom, top = axes.get_ylim()
    size = axes.get_window_extent().transformed(axes.get_figure(root=True).dpi_scale_trans.inverted())  # type: ignore[union-attr]
    places = spread([name.y for name in names], (top - bottom) * _LINE / size.height, bottom, top)
    inch = 1 / size.width
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
            fontweight="regular" if name.minor else "bold",
            va="center_baseline",
        )


def spread(values: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return positions close to the values, at least `gap` apart, between `low` and `high` if they fit.

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


def check_name(path: Path) -> Path:
    """Raise a `UserError` for a file name without a known suffix."""
    if path.suffix not in _METADATA:
        raise UserError(f"cannot draw {path}: choose a name that ends in {', '.join(_METADATA)}")
    return path


def save(figure: "Figure", path: Path | str, dpi: int = 180) -> Path:
    """Write the figure atomically; the same figure gives the same bytes."""
    from matplotlib import rc_context

    path = check_name(Path(path))
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with rc_context({"svg.hashsalt": "greffon"}):
            figure.savefig(beside, format=path.suffix[1:], dpi=dpi, metadata=_METADATA[path.suffix])
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    return path
