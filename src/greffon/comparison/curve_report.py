"""The label curve in the report, and how the report shows a figure."""

import io
from collections.abc import Callable, Sequence
from typing import Any

from greffon.comparison.figures import train_sizes_figure
from greffon.comparison.html import Html, join, picture, section, table, tag
from greffon.comparison.names import shown
from greffon.comparison.phrases import percent
from greffon.comparison.results import Results, SizeResult
from greffon.comparison.task_results import TaskResults

_WIDE, _NARROW = 8.0, 4.1  # inches


def shown_figure(draw: Callable[..., Any], results: Results | TaskResults, alt: str) -> Html:
    """Draw a figure for wide and narrow, light and dark screens."""

    def png(width: float, dark: bool) -> bytes:
        buffer = io.BytesIO()
        draw(results, dark=dark, width=width).savefig(buffer, format="png", dpi=160, metadata={"Software": None})
        return buffer.getvalue()

    wide, narrow = ((png(width, False), png(width, True)) for width in (_WIDE, _NARROW))
    return picture(alt, wide, narrow)


def curve_section(results: Results) -> Html:
    """Return the section of the label curve; nothing without one."""
    sizes = results.train_sizes
    if not sizes:
        return Html("")
    names = list(dict.fromkeys(name for entry in sizes for name in entry.arms))
    rows = [
        [shown(name), *(_size_cell(entry.arms[name]) if name in entry.arms else "–" for entry in sizes)]
        for name in names
    ]
    note = (
        "Each draw of labels is stratified, part of the larger ones, and shared by all arms. All choices (epochs, C, "
        "weights of the ensemble) are made with these labels alone, by cross-validation; the test texts are read once."
    )
    return section(
        "With few labels",
        shown_figure(train_sizes_figure, results, "Test score against the number of labels"),
        table(["arm", *(f"{entry.size:,} labels" for entry in sizes)], rows),
        tag("p", note, kind="note"),
        *_savings(results),
        *_choices(results, names),
    )


def _size_cell(arm: SizeResult) -> Html:
    low, high = arm.interval
    return join([percent(arm.mean), Html("<br>"), tag("small", f"{100 * low:.1f} to {100 * high:.1f}")])


def _savings(results: Results) -> list[Html]:
    if not results.label_savings:
        return []
    rows = [
        [
            shown(each.arm),
            f"{each.size:,}",
            percent(each.score),
            "more than were drawn" if each.baseline_size is None else f"{each.baseline_size:,}",
        ]
        for each in results.label_savings
    ]
    return [tag("h3", "Labels saved"), table(["arm", "labels", "score", "labels that TF-IDF needs"], rows)]


def _choices(results: Results, names: Sequence[str]) -> list[Html]:
    """Show what was chosen with the labels of each draw."""
    rows = []
    for name in names:
        cells = [_chosen(entry.arms[name]) if name in entry.arms else "–" for entry in results.train_sizes]
        if any(cell != "–" for cell in cells):
            rows.append([shown(name), *cells])
    headers = ["arm", *(f"{entry.size:,} labels" for entry in results.train_sizes)]
    note = "Draw by draw: epochs of neural arms (0: the head as fitted, before training), C, body and TF-IDF weights."
    return [tag("details", tag("summary", "What was chosen"), table(headers, rows), tag("p", note, kind="note"))]


def _chosen(arm: SizeResult) -> str:
    if arm.chosen_epoch:
        return ", ".join(map(str, arm.chosen_epoch))
    if arm.strength:
        return ", ".join(f"{c:g}" for c in arm.strength)
    return ", ".join(f"{body:.1f}/{words:.1f}" for body, words in arm.weights) or "–"
