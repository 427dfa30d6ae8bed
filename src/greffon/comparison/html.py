"""A self-contained HTML page: its style and its few building blocks.

Text is escaped unless it is already `Html`, so forgetting to escape is not possible. No script, nothing
from the network; light and dark follow the reader's system.
"""

import base64
import html
from collections.abc import Sequence

STYLE = """
:root { color-scheme: light dark; --ink: #26282b; --soft: #5f6064; --paper: #fff; --page: #f4f3ef;
  --line: #dddcd6; --accent: #0a5c7a; --good: #2f7a3d; --bad: #b3372f; --warn: #8a5a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e6e1; --soft: #a9a9a6; --paper: #1b1c1e;
  --page: #121314; --line: #36383b; --accent: #5cc3e8; --good: #84cf8f; --bad: #f2928a; --warn: #e6b75a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 900px; margin: 0 auto; padding: 2rem 1rem 4rem; }
h1 { font-size: 1.1rem; font-weight: 600; color: var(--soft); margin: 0 0 .6rem; }
h2 { font-size: 1.2rem; margin: 0 0 .7rem; line-height: 1.3; }
h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 10px;
  padding: 1.3rem 1.4rem; margin: 1.1rem 0; }
p { margin: .5rem 0; overflow-wrap: anywhere; } .note { color: var(--soft); font-size: .88rem; }
.verdict { font-size: 1.22rem; line-height: 1.5; border-left: 5px solid var(--accent); }
.verdict.above { border-left-color: var(--good); } .verdict.below { border-left-color: var(--bad); }
.verdict p { margin: .35rem 0; } .verdict p:first-child { font-weight: 650; }
.verdict p + p { font-size: 1.02rem; }
figure { margin: 0; } img { display: block; width: 100%; height: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); font-size: .82rem; vertical-align: bottom; }
th, td { padding: .45rem .6rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { padding-left: 0; }
tr:last-child td { border-bottom: 0; }
td:first-child { font-weight: 600; overflow-wrap: break-word; } td + td { white-space: nowrap; }
small { color: var(--soft); }
.confusion { width: auto; margin-top: .3rem; } .confusion td, .confusion th { text-align: right; }
.confusion td { background: color-mix(in srgb, var(--accent) calc(var(--share, 0) * .55), transparent); }
.confusion td:first-child { text-align: left; white-space: nowrap; padding-left: 0; background: none; }
.forest { width: 150px; height: 18px; vertical-align: middle; color: var(--accent); }
.forest .zero { stroke: var(--soft); stroke-dasharray: 2 2; }
details { border-top: 1px solid var(--line); padding: .5rem 0; }
summary { cursor: pointer; font-weight: 600; }
blockquote { margin: .8rem 0; padding: 0 0 0 .8rem; border-left: 3px solid var(--line); }
.pair { display: flex; flex-wrap: wrap; gap: 1rem 2.4rem; } .pair > div { flex: 1 1 300px; min-width: 0; }
.error { color: var(--bad); } .warning { color: var(--warn); } li { margin: .3rem 0; }
@media (max-width: 620px) {
  th, td { padding: .45rem .4rem; }
  main { padding: 1rem .6rem 3rem; } section { padding: 1rem .9rem; } .verdict { font-size: 1.1rem; }
  .cards thead { display: none; } .cards tr { display: block; padding: .6rem 0;
    border-bottom: 1px solid var(--line); } .cards tr:last-child { border-bottom: 0; }
  .cards td { display: flex; justify-content: space-between; gap: 1rem; border: 0; padding: .12rem 0;
    text-align: right; } .cards td:first-child { font-size: 1.02rem; text-align: left; }
  .cards td[data-label]:not(:first-child)::before { content: attr(data-label); color: var(--soft);
    text-align: left; } }
@media print { body { background: none; } section { break-inside: avoid; } }
"""


class Html(str):
    """Markup that needs no escaping."""


def text(value: object) -> Html:
    """Return the value as markup: escaped, unless it already is `Html`.

    >>> text("<b>")
    '&lt;b&gt;'
    """
    return value if isinstance(value, Html) else Html(html.escape(str(value)))


def join(parts: Sequence[object], between: str = "") -> Html:
    """Join several pieces of markup."""
    return Html(text(between).join(text(part) for part in parts))


def tag(name: str, *children: object, kind: str = "") -> Html:
    """Make an element with an optional class."""
    attribute = f' class="{html.escape(kind)}"' if kind else ""
    return Html(f"<{name}{attribute}>{join(children)}</{name}>")


def section(title: str, *children: object) -> Html:
    """Make a section with a title."""
    return tag("section", tag("h2", title), *children)


def table(headers: Sequence[object], rows: Sequence[Sequence[object]]) -> Html:
    """Make a table that scrolls where it is wider than the screen."""
    head = tag("thead", tag("tr", *(tag("th", header) for header in headers)))
    body = [tag("tr", *(tag("td", cell) for cell in row)) for row in rows]
    return tag("div", tag("table", head, tag("tbody", *body)), kind="scroll")


def cards(headers: Sequence[object], rows: Sequence[Sequence[object]]) -> Html:
    """Make a table of many columns, which turns into a stack of cards on a phone."""
    head = tag("thead", tag("tr", *(tag("th", header) for header in headers)))
    body = []
    for row in rows:
        cells = [
            Html(f'<td data-label="{html.escape(str(header))}">{tag("span", cell)}</td>')
            for header, cell in zip(headers, row, strict=True)
        ]
        body.append(tag("tr", *cells))
    return tag("div", tag("table", head, tag("tbody", *body), kind="cards"), kind="scroll")


def confusion_table(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> Html:
    """Make a confusion matrix, true labels by predicted labels; a cell is darker the larger its share of the row."""
    head = tag("tr", tag("th", "gold ↓  predicted →"), *(tag("th", label) for label in labels))
    rows = []
    for label, row in zip(labels, counts, strict=True):
        total = max(sum(row), 1)
        cells = [Html(f'<td style="--share:{100 * n / total:.0f}%">{n:,}</td>') for n in row]
        rows.append(tag("tr", tag("td", label), *cells))
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows), kind="confusion"), kind="scroll")


def forest(mean: float, low: float, high: float, limit: float) -> Html:
    """Draw a dot with its interval on an axis from −limit to +limit, with zero dashed in the middle."""

    def x(value: float) -> str:
        return f"{75 + 70 * value / limit:.1f}" if limit else "75"

    return Html(
        '<svg class="forest" viewBox="0 0 150 18" aria-hidden="true">'
        '<line class="zero" x1="75" x2="75" y1="1" y2="17"/>'
        f'<line x1="{x(low)}" x2="{x(high)}" y1="9" y2="9" stroke="currentColor" stroke-width="2"/>'
        f'<circle cx="{x(mean)}" cy="9" r="4" fill="currentColor"/></svg>'
    )


def picture(alt: str, wide: tuple[bytes, bytes], narrow: tuple[bytes, bytes]) -> Html:
    """Show one figure in four PNGs, each pair (light, dark); the browser picks one for its screen."""
    dark, phone = "(prefers-color-scheme: dark)", "(max-width: 620px)"
    sources = [(f"{phone} and {dark}", narrow[1]), (phone, narrow[0]), (dark, wide[1])]
    markup = [f'<source media="{media}" srcset="{_data_uri(png)}">' for media, png in sources]
    image = f'<img alt="{html.escape(alt)}" src="{_data_uri(wide[0])}">'
    return Html(f"<figure><picture>{''.join(markup)}{image}</picture></figure>")


def _data_uri(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def page(title: str, *children: object) -> str:
    """Make the whole document."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><main>{join(children, chr(10))}</main></body></html>\n"
    )
