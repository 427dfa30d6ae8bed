"""Attention weights between the tokens of a text, one panel per head."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from greffon.inference.attention import AttentionWeights, HeadHabits, Kind, attention
from greffon.plots.style import dress, inks, plain, shades, sheet, text_width
from greffon.runs.run import Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TITLES = {
    "self": "Attention weights by head",
    "source": "Self-attention of the source by head",
    "target": "Self-attention of the target by head",
    "cross": "Cross-attention, target to source, by head",
}
_ROOM = 7.2  # inches that the panels of one row share
_LEAST, _WIDEST = 1.35, 0.3  # a panel's least width, a cell's greatest
_SMALLEST, _LARGEST = 5.5, 9.0  # points of a token's name
_CAPTION, _GAP = 0.42, 0.16


def attention_figure(
    run: str | Path | Run,
    text: str,
    to: str | None = None,
    *,
    kind: Kind | None = None,
    layer: int | None = None,
    head: int | None = None,
) -> "Figure":
    """Draw the attention weights of a run on a text; layers are rows and heads columns, both counted from 1."""
    run = Run.open(run)
    return weights_figure(attention(run, text, to, kind=kind), layer=layer, head=head, name=run.name)


def weights_figure(
    found: AttentionWeights, *, layer: int | None = None, head: int | None = None, name: str = ""
) -> "Figure":
    """Draw weights that `greffon.attention` returned."""
    from matplotlib.colors import PowerNorm

    chosen = found.chosen(layer, head)
    queries, keys = [plain(token) for token in found.queries], [plain(token) for token in found.keys]
    columns = len({j for _, j in chosen})
    grid = _Grid.of(queries, keys, columns, len(chosen) // columns)
    note = "A row shares a weight of 1 among the tokens it may see. “␣” is the space before a word."
    who = "token being written" if found.kind == "cross" else "token that looks"
    title = f"{_TITLES[found.kind]}{name and f' ({name})'}"
    figure = sheet(grid.width, grid.height, title, note)
    figure.set_layout_engine("none")
    norm = PowerNorm(0.6, vmin=0, vmax=max(float(found.of(i, j).max()) for i, j in chosen))
    habits = {(one.layer, one.head): one for one in found.habits()}
    for place, pair in enumerate(chosen):
        axes = figure.add_axes(grid.panel(figure, place))
        image = axes.imshow(found.of(*pair), cmap=shades(), norm=norm, aspect="auto", interpolation="nearest")
        _name_tokens(axes, queries, keys, grid, place, who)
        axes.set_title(_caption(habits[pair]), fontsize=7.6, pad=4, linespacing=1.25)
    bar = figure.colorbar(image, cax=figure.add_axes(grid.bar(figure)))
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=7.5, length=2)
    bar.set_label("weight", fontsize=8, color=inks(dark=False)[0])
    return figure


@dataclass(frozen=True)
class _Grid:
    """Layout of the panels, in inches; tokens are written at the left and at the bottom only."""

    columns: int
    rows: int
    across: float
    down: float
    left: float
    bottom: float
    size: float

    @classmethod
    def of(cls, queries: list[str], keys: list[str], columns: int, rows: int) -> "_Grid":
        cell = min(_WIDEST, _ROOM / columns / len(keys))
        cell = max(cell, _LEAST / len(keys))
        size = min(_LARGEST, max(_SMALLEST, 0.72 * 72 * min(cell, _WIDEST)))
        longest = [max(text_width(name, size, "normal") for name in names) for names in (queries, keys)]
        return cls(columns, rows, cell * len(keys), cell * len(queries), longest[0] + 0.52, longest[1] + 0.5, size)

    @property
    def width(self) -> float:
        return max(5.8, self.left + self.columns * (self.across + _GAP) + 0.95)

    @property
    def height(self) -> float:
        return self.bottom + self.rows * (self.down + _CAPTION) + 0.05

    def panel(self, figure: "Figure", place: int) -> tuple[float, float, float, float]:
        row, column = divmod(place, self.columns)
        x = self.left + column * (self.across + _GAP)
        y = self.bottom + (self.rows - 1 - row) * (self.down + _CAPTION)
        width, height = figure.get_size_inches()
        return x / width, y / height, self.across / width, self.down / height

    def bar(self, figure: "Figure") -> tuple[float, float, float, float]:
        width, height = figure.get_size_inches()
        x = self.left + self.columns * (self.across + _GAP) + 0.06
        return x / width, self.bottom / height, 0.1 / width, min(self.down, 2.2) / height


def _name_tokens(axes: "Axes", queries: list[str], keys: list[str], grid: _Grid, place: int, who: str) -> None:
    row, column = divmod(place, grid.columns)
    dress(axes, grid=None)
    axes.spines[:].set_visible(True)
    axes.spines[:].set(color=inks(dark=False)[1], linewidth=0.5)
    axes.tick_params(length=0, pad=2)
    # Where names would touch, every second or third one stands for its neighbours.
    cells = grid.down / len(queries), grid.across / len(keys)
    leap = [math.ceil(1.4 * grid.size / (72 * cell)) for cell in cells]
    small: dict[str, Any] = {"fontsize": grid.size, "parse_math": False}
    axes.set_yticks(range(0, len(queries), leap[0]))
    axes.set_xticks(range(0, len(keys), leap[1]))
    axes.set_yticklabels(queries[:: leap[0]] if column == 0 else [], **small)
    axes.set_xticklabels(keys[:: leap[1]] if row == grid.rows - 1 else [], rotation=90, **small)
    if column == 0:
        axes.set_ylabel(who, fontsize=8)
    if row == grid.rows - 1:
        axes.set_xlabel("token looked at", fontsize=8)


def _caption(habits: HeadHabits) -> str:
    away = "" if habits.distance is None else f"{habits.distance:.1f} away, "
    return f"layer {habits.layer} · head {habits.head}\n{away}{habits.entropy:.1f} bits"


def habits_table(found: AttentionWeights, layer: int | None = None, head: int | None = None) -> list[str]:
    """Return the statistics of the heads as lines of a table."""

    def share(value: float | None) -> str:
        return "–" if value is None else f"{value:.0%}"

    lines = ["layer  head  distance  entropy  previous  first  itself"]
    chosen = set(found.chosen(layer, head))
    for one in found.habits():
        if (one.layer, one.head) in chosen:
            distance = "–" if one.distance is None else f"{one.distance:.1f}"
            lines.append(
                f"{one.layer:>5}  {one.head:>4}  {distance:>8}  {one.entropy:>7.2f}  {share(one.previous):>8}  "
                f"{share(one.first):>5}  {share(one.itself):>6}"
            )
    return lines
