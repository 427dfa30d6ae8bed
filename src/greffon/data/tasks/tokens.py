"""Marked spans of a text: `.conll` (a word and its tag a line) or JSONL with `text` and `spans`.

Whatever the file, spans are character offsets into a text, `[[start, end, label], …]`. A text is cut into words, runs
of letters and digits, and single signs; a span is a sequence of words, and a head marks words as IOB2 tags.
"""

import itertools
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from greffon.core.errors import UserError
from greffon.core.recipe import Data
from greffon.data.corpora import Labelled, string_cell, texts_of
from greffon.data.lint import Finding, lint, see, typos, unseen
from greffon.data.readers import lines, rows
from greffon.data.tasks.base import Counts, Parts, columns_of, label_column, no_weights, unknown_label

SUFFIXES = (".conll", ".conll.gz", ".conll.xz")
OUTSIDE = "O"
_WORD = re.compile(r"\w+|[^\w\s]")
_BEGINS, _GOES_ON = ("B", "S", "U"), ("I", "E", "L")


class Span(NamedTuple):
    """A part of a text, from one character up to, not including, another, and its label."""

    start: int
    end: int
    label: str


class Tokens:
    """The form of files for marking spans."""

    paired: bool = False

    def sign(self, path: Path, data: Data) -> str:
        """The name of the file, or a column `spans`."""
        if path.name.endswith(SUFFIXES):
            return "the name of the file"
        named = data.label_column in (None, "spans")
        return "the column 'spans'" if named and "spans" in columns_of(path) else ""

    def read(self, path: Path, data: Data) -> list[Labelled]:
        """Return the texts, each with its spans."""
        if path.name.endswith(SUFFIXES):
            return list(_sentences(path))
        column, found = label_column(path, data, "spans"), []
        for line, (cell, marked) in rows(path, {"text": data.text_column, "label": column}):
            text = string_cell(cell, path, line, data.text_column)
            spans = _spans_of_cell(marked, f"{path}:{line}: {column!r}", text)
            found.append(Labelled(text, spelling(spans), line))
        return found

    def inputs(self, path: Path, data: Data) -> list[Labelled]:
        """Return the texts; in a .conll file, the first column has the words."""
        if path.name.endswith(SUFFIXES):
            return [replace(example, label="[]") for example in _sentences(path, tagged=False)]
        return [Labelled(text, "[]", line) for line, text in enumerate(texts_of(path, data.text_column), start=1)]

    def labels(self, examples: Sequence[Labelled]) -> tuple[str, ...]:
        """Return the IOB2 tags of all labels."""
        names = sorted({span.label for example in examples for span in spans_of(example.label)})
        return (OUTSIDE, *(f"{place}-{name}" for name in names for place in "BI"))

    def unknown(self, example: Labelled, labels: Sequence[str]) -> str:
        """Name what of the label is unknown."""
        known = sorted({tag.partition("-")[2] for tag in labels} - {""})
        return unknown_label([span.label for span in spans_of(example.label)], known)

    def strata(self, examples: Sequence[Labelled]) -> list[str]:
        """Return the rarest label of each text, so that rare labels are in both parts."""
        counts = Counter(span.label for example in examples for span in spans_of(example.label))
        return [
            min((span.label for span in spans_of(example.label)), key=lambda label: (counts[label], label), default="")
            for example in examples
        ]

    def weights(self, examples: Sequence[Labelled]) -> tuple[float, ...]:
        """Refuse."""
        raise no_weights("spans")

    def lint(self, parts: Parts, counts: Counts | None = None, context: int | None = None) -> list[Finding]:
        """Check texts and spans."""
        return lint(parts, counts, context, own=(_marked, _unseen, _typos, _inside_words))


def spans_of(label: str) -> list[Span]:
    """Read the spans of one text, as `spelling` writes them."""
    return [Span(start, end, name) for start, end, name in json.loads(label or "[]")]


def spelling(spans: Sequence[Span]) -> str:
    """Write the spans of one text."""
    return json.dumps(sorted(spans), ensure_ascii=False)


def words_of(text: str) -> list[tuple[int, int]]:
    """Return where the words and the single signs of a text begin and end.

    >>> words_of("L'été, à Pau")
    [(0, 1), (1, 2), (2, 5), (5, 6), (7, 8), (9, 12)]
    """
    found: list[tuple[int, int]] = []
    for match in _WORD.finditer(text):
        begin, end = match.span()
        if found and found[-1][1] == begin and _belong_together(text[begin - 1], text[begin]):
            found[-1] = found[-1][0], end
        else:
            found.append((begin, end))
    return found


def _belong_together(before: str, after: str) -> bool:
    """Whether two signs are parts of one word: a vowel sign or an accent of its own, and the letters beside it."""
    marks = [unicodedata.category(sign)[0] == "M" for sign in (before, after)]
    return marks[1] or (marks[0] and after.isalnum())


def tags_of_spans(words: Sequence[tuple[int, int]], spans: Sequence[Span]) -> list[str]:
    """Return the IOB2 tag of each word; a span takes every word that it touches and that none has taken before.

    >>> tags_of_spans([(0, 4), (5, 9), (10, 15)], [Span(5, 15, "PER")])
    ['O', 'B-PER', 'I-PER']
    """
    tags = [OUTSIDE] * len(words)
    for span in sorted(spans):
        place = "B"
        for index, (begin, end) in enumerate(words):
            if begin < span.end and end > span.start and tags[index] == OUTSIDE:
                tags[index], place = f"{place}-{span.label}", "I"
    return tags


def spans_of_tags(words: Sequence[tuple[int, int]], tags: Sequence[str]) -> list[Span]:
    """Return the spans of tagged words; a tag that goes on where nothing of its label was begun begins a span.

    >>> spans_of_tags([(0, 4), (5, 9), (10, 15)], ["I-PER", "I-PER", "I-LOC"])
    [Span(start=0, end=9, label='PER'), Span(start=10, end=15, label='LOC')]
    """
    spans: list[Span] = []
    opened = ""
    for (begin, end), tag in zip(words, tags, strict=True):
        place, _, label = tag.partition("-")
        if place in _GOES_ON and opened == label and spans:
            spans[-1] = spans[-1]._replace(end=end)
        elif place != OUTSIDE:
            spans.append(Span(begin, end, label))
        opened = "" if place in (OUTSIDE, "E", "L", "S", "U") else label
    return spans


def _sentences(path: Path, *, tagged: bool = True) -> Iterator[Labelled]:
    """Yield the sentences of a .conll file: words joined by spaces, with their spans."""
    words: list[str] = []
    tags: list[str] = []
    first = 0
    for number, line in lines(path):
        cells = line.split()
        if not is_word(line):
            if words:
                yield _sentence(words, tags, first)
            words, tags = [], []
            continue
        if tagged and len(cells) < 2:
            raise UserError(f"{path}:{number}: {line.strip()!r} is a word without a tag; write them in two columns")
        if not words:
            first = number
        words.append(cells[0])
        tags.append(_tag(cells[-1], path, number) if tagged else OUTSIDE)
    if words:
        yield _sentence(words, tags, first)


def is_word(line: str) -> bool:
    """Whether a line of a .conll file holds a word, and not the end of a sentence or the beginning of a document."""
    return bool(line.strip()) and line.split()[0] != "-DOCSTART-"


def places_of(words: Sequence[str]) -> list[tuple[int, int]]:
    """Return where words begin and end in the sentence that they make, with a space between two.

    >>> places_of(["Anna", "left"])
    [(0, 4), (5, 9)]
    """
    places, end = [], -1
    for word in words:
        places.append((end + 1, end + 1 + len(word)))
        end = places[-1][1]
    return places


def _tag(tag: str, path: Path, line: int) -> str:
    """Return a tag that is IOB (or one of its relatives, with S and E, or U and L)."""
    place, dash, label = tag.partition("-")
    if tag != OUTSIDE and not (dash and label and place in (*_BEGINS, *_GOES_ON)):
        raise UserError(f"{path}:{line}: the tag {tag!r} is not IOB; write O, B-LABEL or I-LABEL")
    return tag


def _sentence(words: Sequence[str], tags: Sequence[str], line: int) -> Labelled:
    return Labelled(" ".join(words), spelling(spans_of_tags(places_of(words), tags)), line)


def _spans_of_cell(cell: object, where: str, text: str) -> list[Span]:
    """Read the spans of a JSON row, or of a cell that holds JSON; they must lie in the text, apart from each other."""
    if isinstance(cell, str):
        try:
            cell = json.loads(cell or "[]")
        except ValueError:
            raise UserError(f"{where} is not JSON; write [[start, end, label], …]") from None
    if not isinstance(cell, list) or not all(_is_span(item) for item in cell):
        raise UserError(f"{where} must be [[start, end, label], …], with two numbers and a name each")
    spans = sorted(Span(*item) for item in cell)
    for span in spans:
        if not 0 <= span.start < span.end <= len(text):
            raise UserError(f"{where}: {list(span)} does not lie in the text of {len(text)} characters; mend it")
    for one, other in itertools.pairwise(spans):
        if one.end > other.start:
            raise UserError(f"{where}: {list(one)} and {list(other)} overlap; leave one of them out")
    return spans


def _is_span(item: object) -> bool:
    return (
        isinstance(item, list | tuple)
        and len(item) == 3
        and all(isinstance(place, int) and not isinstance(place, bool) for place in item[:2])
        and isinstance(item[2], str)
        and bool(item[2].strip())
    )


def _exploded(parts: Parts) -> dict[str, list[Labelled]]:
    """Repeat each text for each of its spans, as if their labels were classes."""
    return {
        name: [replace(example, label=span.label) for example in part for span in spans_of(example.label)]
        for name, part in parts.items()
    }


def _unseen(parts: Parts) -> Iterator[Finding]:
    return unseen(_exploded(parts))


def _typos(parts: Parts) -> Iterator[Finding]:
    return typos(_exploded(parts))


def _marked(parts: Parts) -> Iterator[Finding]:
    for name, part in parts.items():
        if part and not any(spans_of(example.label) for example in part):
            severity = "error" if name == "train" else "warning"
            yield Finding(severity, "no-spans", f"None of the {len(part):,} texts in {name} has a marked span.")  # type: ignore[arg-type]


def _inside_words(parts: Parts) -> Iterator[Finding]:
    for name, part in parts.items():
        cut = []
        for example in part:
            spans, words = spans_of(example.label), words_of(example.text)
            if spans and spans_of_tags(words, tags_of_spans(words, spans)) != spans:
                cut.append(example)
        if cut:
            have = "has spans" if len(cut) == 1 else "have spans"
            message = (
                f"{len(cut):,} of the {len(part):,} texts in {name} {have} that begin or end inside a word or at a "
                f"space ({see(cut)}): whole words are marked there."
            )
            yield Finding("warning", "inside-word", message)
