"""Labelled texts, split into training, validation and test."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from greffon.core.config import Data
from greffon.core.errors import UserError
from greffon.core.rng import generator
from greffon.data.corpora import Labelled, labelled, normal

SHARE = 0.2
"""Share of the training texts that is held out if there is no validation file."""


@dataclass(frozen=True)
class Splits:
    """The three parts; `test` may be empty."""

    train: list[Labelled]
    valid: list[Labelled]
    test: list[Labelled]

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes, in order."""
        return tuple(sorted({example.label for example in self.train}))


def load_splits(data: Data) -> Splits:
    """Read the files of a recipe; without a validation file, a stratified fifth of train is held out.

    How train is divided never depends on a run's seed, so that all runs on the same files see the
    same parts; `data.limit` takes that many of the training texts, a smaller number always being
    part of a larger one.
    """

    def read(files: Sequence[str]) -> list[Labelled]:
        return [example for file in files for example in labelled(Path(file), data.text_column, data.label_column)]

    train, test = read(data.train), read(data.test)
    if not train:
        raise UserError(f"{', '.join(data.train)}: no labelled text to train on")
    if data.hold_out_test:
        train, test = _hold_out(train, "test", data)
    if data.valid:
        valid = read(data.valid)
    else:
        train, valid = _hold_out(train, "valid", data)
    if data.limit:
        if data.limit > len(train):
            raise UserError(f"{data.limit} labels asked for, but only {len(train)} texts are left to train on")
        train = balanced_order(train)[: data.limit]
    return Splits(train, valid, test)


def _hold_out(train: list[Labelled], name: str, data: Data) -> tuple[list[Labelled], list[Labelled]]:
    kept, held = stratified(train, SHARE, name)
    if not held:
        if len(classes := {example.label for example in train}) == 1:
            raise UserError(
                f"{', '.join(data.train)}: every text has the label {classes.pop()!r}; a classifier needs two classes"
            )
        raise UserError(
            f"{', '.join(data.train)}: {len(train)} labelled texts are too few to hold a fifth of each class out; "
            f"give a file with --{name}, or more texts"
        )
    return kept, held


def stratified(examples: Sequence[Labelled], share: float, name: str) -> tuple[list[Labelled], list[Labelled]]:
    """Hold out a share of each class; both parts keep the order of the file.

    All copies of a text are in the same part: otherwise a held-out text would be known from training.
    """
    copies: dict[str, list[int]] = {}
    for i, example in enumerate(examples):
        copies.setdefault(normal(example.text), []).append(i)
    chosen: set[int] = set()
    for members in _by_label(examples, name):
        texts = list(dict.fromkeys(normal(examples[i].text) for i in members))
        wanted = round(share * len(members))
        for text in texts[:-1]:  # one is left to train on, however often it stands there
            if wanted <= 0:
                break
            chosen.update(copies[text])
            wanted -= len(copies[text])
    kept = [example for i, example in enumerate(examples) if i not in chosen]
    return kept, [example for i, example in enumerate(examples) if i in chosen]


def balanced_order(examples: Sequence[Labelled]) -> list[Labelled]:
    """Order texts so that the first n, for every n, have the classes in their overall proportion."""
    places = [
        ((rank + 0.5) / len(members), i) for members in _by_label(examples, "limit") for rank, i in enumerate(members)
    ]
    return [examples[i] for _, i in sorted(places)]


def _by_label(examples: Sequence[Labelled], name: str) -> list[list[int]]:
    """Return the indices of the texts of each class, shuffled."""
    groups: dict[str, list[int]] = {}
    for i, example in enumerate(examples):
        groups.setdefault(example.label, []).append(i)
    return [
        [groups[label][i] for i in generator(0, name, label).permutation(len(groups[label]))]
        for label in sorted(groups)
    ]
