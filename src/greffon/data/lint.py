"""Check labelled data before training, and report likely problems in full sentences.

`lint` never changes the data and never raises: the caller decides what to do with an "error". It knows
texts, labels and where they stand, and reads no files.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import combinations
from typing import Any, Literal, Protocol

from greffon.data.corpora import normal

_IMBALANCED = 0.8  # share of the majority class above which accuracy alone misleads
_RARE = 0.05  # a label this rare beside its neighbour is a suspected typo of it;
_NAMED = 3  # examples named in one sentence
_LESS = 0.5  # one this much rarer only if a single letter differs
SHARED = "shared-text"


class Example(Protocol):
    """One labelled text and its line."""

    @property
    def text(self) -> str:
        """The text as it is in the file."""

    @property
    def label(self) -> str:
        """The label as it is in the file."""

    @property
    def line(self) -> int:
        """The line in the file, counted from 1."""

    @property
    def file(self) -> str:
        """The name of the file; empty if it is not known."""


@dataclass(frozen=True)
class Finding:
    """One problem: a sentence with a count and a line of the file."""

    severity: Literal["error", "warning"]
    """An error ends the matter, a warning does not."""
    code: str
    """Short name of the kind of problem."""
    message: str
    """The problem in one sentence."""

    def __str__(self) -> str:
        """Return severity and message; that of an overlap is in capitals, as it makes every score doubtful."""
        return f"{self.severity.upper() if self.code == SHARED else self.severity}: {self.message}"


Splits = Mapping[str, Sequence[Example]]
Check = Callable[[Any], Iterator[Finding]]


def lint(
    splits: Splits,
    token_counts: Mapping[str, Sequence[int]] | None = None,
    context: int | None = None,
    *,
    own: Sequence[Check] | None = None,
) -> list[Finding]:
    """Return all findings, errors first, then overlaps; `splits` maps `train`, `valid` and `test` to their examples.

    `own` are the checks of the task's labels; without any, labels are classes.
    """
    found = [
        *_empty(splits),
        *(finding for check in (CLASSES if own is None else own) for finding in check(splits)),
        *_shared(splits),
        *_duplicates(splits),
        *_truncated(token_counts or {}, context),
    ]
    # Stable: otherwise the order above.
    return sorted(found, key=lambda finding: (finding.severity != "error", finding.code != SHARED))


def overlap(a: Sequence[str], b: Sequence[str]) -> set[int]:
    """Return the indices in `b` of the texts that are also in `a`, ignoring case and spacing.

    >>> overlap(["A good  book"], ["a good book ", "another"])
    {0}
    """
    known = {normal(text) for text in a} - {""}
    return {index for index, text in enumerate(b) if normal(text) in known}


def _empty(splits: Splits) -> Iterator[Finding]:
    for name, examples in splits.items():
        if not examples:
            yield Finding("error", "no-examples", f"{name} holds no texts at all.")
        blank = [example for example in examples if not example.text.strip()]
        if blank and len(blank) == len(examples):
            yield Finding("error", "no-text", f"Every text in {name} is empty ({see(blank)}).")
        elif name == "train" and len(examples) > 1 and len({normal(example.text) for example in examples}) == 1:
            message = f"All {len(examples):,} texts to train on are equal ({see(examples)}): give different ones."
            yield Finding("error", "equal-texts", message)
        elif blank:
            yield Finding(
                "warning",
                "empty-text",
                f"{_of(len(blank), len(examples), 'text')} in {name} {_is(blank)} empty ({see(blank)}).",
            )


def _classes(splits: Splits) -> Iterator[Finding]:
    """Check the labels of train: a single class, labels that occur once, imbalance."""
    train = splits.get("train", ())
    counts = Counter(example.label for example in train)
    if len(counts) == 1:
        only = next(iter(counts))
        yield Finding(
            "error",
            "one-class",
            f"Every text to train on ({len(train):,}, {see(train)}) has the label {only!r}: "
            "a classifier needs at least two classes; add texts of another one.",
        )
        return
    once = [example for example in train if counts[example.label] == 1]
    if once:
        names = ", ".join(f"{example.label!r} ({place(example)})" for example in once[:_NAMED])
        more = f" and {len(once) - _NAMED:,} more" if len(once) > _NAMED else ""
        occur = "occurs" if len(once) == 1 else "occur"
        message = f"{len(once):,} label{'s' * (len(once) != 1)} {occur} only once in train: {names}{more}."
        yield Finding("warning", "single-label", message)
    for name, examples in splits.items():
        if name != "train" and examples and len({example.label for example in examples}) == 1:
            only = examples[0].label
            message = f"Every text in {name} has the label {only!r}: accuracy there says little."
            yield Finding("warning", "one-class-apart", message)
    for label, count in counts.most_common(1):
        if count / len(train) > _IMBALANCED:
            yield Finding(
                "warning",
                "imbalance",
                f"{_of(count, len(train), 'text')} in train have the label {label!r}: "
                f"always answering it scores {_percent(count / len(train))}, so look at macro F1 too.",
            )


def unseen(splits: Splits) -> Iterator[Finding]:
    """Find labels that train does not have."""
    known = {example.label for example in splits.get("train", ())}
    if not known:
        return
    for name, examples in splits.items():
        found: dict[str, list[Example]] = {}
        for example in examples:
            if example.label not in known:
                found.setdefault(example.label, []).append(example)
        if found:
            told = []
            for label, where in list(found.items())[:_NAMED]:
                near = get_close_matches(label, sorted(known), n=1)
                meant = f"; did you mean {near[0]!r}?" if near else ""
                told.append(f"{label!r} ({_times(len(where))}, {see(where)}{meant})")
            more = f" and {len(found) - _NAMED:,} more" if len(found) > _NAMED else ""
            plural = "s" * (len(found) != 1)
            message = f"The label{plural} {', '.join(told)}{more} in {name} never occur{'s' * (not plural)} in train."
            yield Finding("error", "unseen-label", message)


def typos(splits: Splits) -> Iterator[Finding]:
    """Find labels that are probably another one misspelt."""
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for name, examples in splits.items():
        for example in examples:
            counts[example.label] += 1
            first.setdefault(example.label, f"{name} {place(example)}")
    by_count = sorted(counts, key=lambda label: (-counts[label], label))
    for rank, rare in enumerate(by_count):
        # The commonest of the labels it may stand for.
        frequent = next((label for label in by_count[:rank] if _probable_typo(rare, label, counts)), None)
        if frequent is not None:
            yield Finding(
                "warning",
                "label-typo",
                f"The label {rare!r} ({_times(counts[rare])}, first in {first[rare]}) looks like a typo "
                f"of {frequent!r} ({_times(counts[frequent])}).",
            )


def _probable_typo(rare: str, frequent: str, counts: Mapping[str, int]) -> bool:
    if normal(rare) == normal(frequent):
        return True  # only case or spaces differ: suspect however frequent
    if counts[rare] > max(1, _LESS * counts[frequent]) or counts[rare] == counts[frequent]:
        return False
    # `topic1` beside `topic2` is numbering, and short labels (`sad`, `mad`) are often one letter apart.
    if any(character.isdigit() for character in rare + frequent):
        return False
    shorter = min(len(rare), len(frequent))
    allowed = 0 if shorter < 4 else 1 if shorter < 7 or counts[rare] > max(1, _RARE * counts[frequent]) else 2
    return _edits(normal(rare), normal(frequent)) <= allowed


def _edits(a: str, b: str) -> int:
    """Return the edit distance from `a` to `b`, with swaps of adjacent characters."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        older, before, row = before, row, [i]
        for j, y in enumerate(b, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (x != y))
            if i > 1 and j > 1 and x == b[j - 2] and y == a[i - 2]:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
    return row[-1]


CLASSES: tuple[Check, ...] = (_classes, unseen, typos)
"""Checks of labels that are classes."""


def _shared(splits: Splits) -> Iterator[Finding]:
    for (one, a), (other, b) in combinations(splits.items(), 2):
        shared = sorted(overlap([example.text for example in a], [example.text for example in b]))
        if shared:
            stand = "stands" if len(shared) == 1 else "stand"
            yield Finding(
                "warning",
                SHARED,
                f"{_of(len(shared), len(b), 'text')} in {other} also {stand} in {one} "
                f"({see([b[index] for index in shared])} of {other}): "
                f"accuracy on {other} flatters a model {'trained' if one == 'train' else 'selected'} on {one}.",
            )


def _duplicates(splits: Splits) -> Iterator[Finding]:
    for name, examples in splits.items():
        first: dict[str, Example] = {}
        repeats: list[tuple[Example, Example]] = []
        for example in examples:
            text = normal(example.text)
            if not text:
                continue
            if text in first:
                repeats.append((first[text], example))
            first.setdefault(text, example)
        conflicts = [(earlier, later) for earlier, later in repeats if earlier.label != later.label]
        if repeats:
            earlier, later = repeats[0]
            yield Finding(
                "warning",
                "duplicate",
                f"{_of(len(repeats), len(examples), 'text')} in {name} {_repeat(repeats)} an earlier one "
                f"({place(later)} repeats {place(earlier)}).",
            )
        if conflicts:
            earlier, later = conflicts[0]
            yield Finding(
                "warning",
                "conflicting-labels",
                f"{_of(len(conflicts), len(examples), 'text')} in {name} {_repeat(conflicts)} an earlier one with "
                f"another label ({place(earlier)} {earlier.label!r}, {place(later)} {later.label!r}).",
            )


def _truncated(token_counts: Mapping[str, Sequence[int]], context: int | None) -> Iterator[Finding]:
    if context is None:
        return
    for name, counts in token_counts.items():
        long = [count for count in counts if count > context]
        if long:
            share = _percent(len(long) / len(counts))
            yield Finding(
                "warning",
                "truncated",
                f"{_of(len(long), len(counts), 'text')} in {name} ({share}) {_is(long)} longer than the "
                f"context of {context:,} tokens and will be cut (the longest: {max(long):,} tokens).",
            )


def _of(count: int, total: int, noun: str) -> str:
    return f"{count:,} of the {total:,} {noun}{'s' if total != 1 else ''}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _is(items: Sequence[object]) -> str:
    return "is" if len(items) == 1 else "are"


def _repeat(items: Sequence[object]) -> str:
    return "repeats" if len(items) == 1 else "repeat"


def place(example: Example) -> str:
    """Say where an example stands: `train.csv line 7`."""
    return f"{example.file} line {example.line}".lstrip()


def see(examples: Sequence[Example]) -> str:
    """Say where the first of some examples stands."""
    return place(examples[0]) if len(examples) == 1 else f"first: {place(examples[0])}"
