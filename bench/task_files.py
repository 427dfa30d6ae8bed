"""Files of other tasks than classes, made from real texts: pairs, several labels, scores and spans.

Every caption, question and passage is used once, and the test is made from other files than the training. A maker takes
the folder of the data, which part to read (`train` or `test`), how many examples to make, and the file to write.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from greffon.core.rng import generator

Maker = Callable[[Path, str, int, Path], None]

INTENTS = 12
"""Number of intents that are labels; questions of any other intent have none."""
PASSAGES, PASSAGE = 4, 30
"""Passages in a scored text, and words of each."""
CAPTIONS = {"train": "train", "test": "val"}


def pairs(data: Path, part: str, count: int, out: Path) -> None:
    """An English caption and a French one: the translation, or that of another caption; one half of each."""
    english, french = (_captions(data, part, language)[:count] for language in ("en", "fr"))
    random = generator(0, "bench", "pairs", part)
    order = random.permutation(len(english))
    wrong = order[: len(order) // 2]  # which get each other's translation: everyone that of the next
    place = np.arange(len(order))
    place[wrong] = np.roll(wrong, 1)
    rows = [(english[i], french[j], "translation" if i == j else "other") for i, j in enumerate(place.tolist())]
    _write(out, ("text_a", "text_b", "label"), rows)


def multilabel(data: Path, part: str, count: int, out: Path) -> None:
    """One to three questions of bank customers as one message; its labels are the frequent ones among their intents."""
    ranked = Counter(row["label"] for row in _rows(data / "banking77/train.csv")).most_common(INTENTS)
    frequent = {label for label, _ in ranked}
    random = generator(0, "bench", "multilabel", part)
    own = [row for row in _rows(data / f"banking77/{part}.csv") if row["label"] in frequent]
    rest = [row for row in _rows(data / f"banking77/{part}.csv") if row["label"] not in frequent]
    questions = own + [rest[i] for i in random.permutation(len(rest))[: len(own)]]
    left, made = iter([questions[i] for i in random.permutation(len(questions))]), []
    while len(made) < count and (some := [row for row, _ in zip(left, range(random.integers(1, 4)), strict=False)]):
        labels = sorted({row["label"] for row in some} & frequent)
        made.append((" ".join(row["text"] for row in some), "|".join(labels)))
    _write(out, ("text", "labels"), made)


def regression(data: Path, part: str, count: int, out: Path) -> None:
    """Four passages from film reviews; the score is how many of them are from positive ones."""
    random = generator(0, "bench", "regression", part)
    passages: dict[bool, list[str]] = {True: [], False: []}
    for row in _rows(data / f"imdb/{'train' if part == 'train' else 'valid'}.csv"):
        words = re.sub(r"<br\s*/?>", " ", row["text"]).split()
        cut = [words[i : i + PASSAGE] for i in range(0, len(words) - PASSAGE + 1, PASSAGE)]
        passages[row["label"] == "positive"] += [" ".join(some) for some in cut]
    left = {kind: iter([found[i] for i in random.permutation(len(found))]) for kind, found in passages.items()}
    made: list[tuple[str, int]] = []
    for positive in random.integers(0, PASSAGES + 1, count).tolist():
        kinds = random.permutation([True] * positive + [False] * (PASSAGES - positive)).tolist()
        some = [next(left[kind], None) for kind in kinds]
        if None in some:
            break
        made.append((" … ".join(text for text in some if text), positive))
    _write(out, ("text", "score"), made)


def tokens(data: Path, part: str, count: int, out: Path) -> None:
    """English captions, some words of which have become words of the French or German translation: those spans."""
    random = generator(0, "bench", "tokens", part)
    languages = {language: _captions(data, part, language) for language in ("en", "fr", "de")}
    lines = []
    for i in range(min(count, len(languages["en"]))):
        words = {language: re.findall(r"\w+|[^\w\s]", found[i].lower()) for language, found in languages.items()}
        made = [(word, "O") for word in words["en"]]
        for half in (0, 1):  # up to one span in each half
            language = ("fr", "de", "")[random.integers(3)]
            if language:
                made = _mixed(made, words[language], language.upper(), half, random)
        lines.append("\n".join(f"{word} {tag}" for word, tag in made))
    out.write_text("\n\n".join(lines) + "\n", encoding="utf-8")


Tagged = list[tuple[str, str]]


def _mixed(made: Tagged, foreign: Sequence[str], label: str, half: int, random: np.random.Generator) -> Tagged:
    """Put words of a translation, from about the same place, in the place of words of one half of a caption."""
    length = int(random.integers(1, 5))
    begin = (len(made) // 2) * half + int(random.integers(0, max(1, len(made) // 2 - length)))
    there = round(begin * len(foreign) / max(1, len(made)))
    taken = [word for word in foreign[there : there + length] if word.isalpha()]
    if not taken or any(tag != "O" for _, tag in made[begin : begin + length]):
        return made
    span = [(word, ("I-" if i else "B-") + label) for i, word in enumerate(taken)]
    return [*made[:begin], *span, *made[begin + len(taken) :]]


TASKS: dict[str, Maker] = {"pairs": pairs, "multilabel": multilabel, "regression": regression, "tokens": tokens}
"""The maker of each task's files."""


def _captions(data: Path, part: str, language: str) -> list[str]:
    return (data / f"multi30k/{CAPTIONS[part]}.{language}").read_text(encoding="utf-8").splitlines()


def _rows(file: Path) -> Iterator[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        yield from csv.DictReader(lines)


def _write(out: Path, names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    with out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(rows)
