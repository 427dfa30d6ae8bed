"""Labelled texts, split into training, validation and test."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from greffon.core.choices import Task
from greffon.core.errors import UserError, setting
from greffon.core.recipe import Data
from greffon.core.rng import generator
from greffon.data.corpora import Labelled, normal
from greffon.data.tasks import FORMS, read_examples

SHARE = 0.2
"""Share of the training texts that is held out if there is no validation file."""
FOLDS = 5
"""Number of parts of the training texts for cross-validation."""


@dataclass(frozen=True)
class Splits:
    """The three parts; `test` may be empty."""

    train: list[Labelled]
    valid: list[Labelled]
    test: list[Labelled]
    task: Task = "classes"

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of a head's outputs, in order: for classification, the classes."""
        return FORMS[self.task].labels(self.train)


def load_splits(data: Data) -> Splits:
    """Read the files of a recipe; without a validation file, a stratified fifth of train is held out.

    Where the classes are too small for a share of each, it is a fifth of all texts that leaves one to each class.

    Where epochs are selected by folds instead, all texts are for training, or all but those of one fold.

    How train is divided never depends on a run's seed, so that all runs on the same files see the
    same parts. With `data.limit`, so many texts are drawn for a label curve, and there is neither a
    validation part (all choices are made on those texts) nor a test part (`load_pool` reads it).
    """
    if data.limit:
        train, test = load_draw(data), list[Labelled]()
        valid = train if data.valid else []  # where no fold can choose, a score is still told
    else:
        train, test = load_pool(data)
        if data.valid:
            valid = _read(data.valid, data)
        elif data.selection == "folds":  # each text judges in one fold, and trains in all others
            valid = []
        else:
            train, valid = _hold_out(train, "valid", data)
    if data.fold:
        number = fold_numbers(train, data.task)
        valid = [example for example, fold in zip(train, number, strict=True) if fold == data.fold - 1]
        train = [example for example, fold in zip(train, number, strict=True) if fold != data.fold - 1]
    return Splits(train, valid, test, data.task)


def load_pool(data: Data) -> tuple[list[Labelled], list[Labelled]]:
    """Read the texts that may be trained on, and the test texts, which may be none."""
    train, test = _read(data.train, data), _read(data.test, data)
    if not train:
        raise UserError(f"{', '.join(data.train)}: no labelled text to train on")
    return _hold_out(train, "test", data) if data.hold_out_test else (train, test)


def load_draw(data: Data) -> list[Labelled]:
    """Read the labelled texts of one draw for a label curve."""
    return draw(load_pool(data)[0], data.limit, data.draw, data.task)


def _read(files: Sequence[str], data: Data) -> list[Labelled]:
    return [example for file in files for example in read_examples(Path(file), data)]


def _hold_out(train: list[Labelled], name: str, data: Data) -> tuple[list[Labelled], list[Labelled]]:
    kept, held = stratified(train, SHARE, name, data.task)
    if not held and name == "valid":
        kept, held = _plain(train, SHARE, name, data.task)
    if not held:
        where = ", ".join(data.train)
        if len({normal(example.whole) for example in train}) == 1:
            raise UserError(f"{where}: all texts are equal, so nothing can be learnt from them; give different ones")
        if data.task == "classes" and len(classes := {example.label for example in train}) == 1:
            raise UserError(f"{where}: every text has the label {classes.pop()!r}; a classifier needs two classes")
        raise UserError(
            f"{where}: {len(train)} labelled texts are too few to hold a fifth of each class out; "
            f"give a file with {setting(name)}, or more texts"
        )
    return kept, held


def stratified(
    examples: Sequence[Labelled], share: float, name: str, task: Task = "classes"
) -> tuple[list[Labelled], list[Labelled]]:
    """Hold out a share of each class, or of each group of another task; both parts keep the order of the file.

    All copies of a text are in the same part: otherwise a held-out text would be known from training. Each class keeps
    a text to train on.
    """
    members = _by_stratum(examples, name, task)
    return _part(examples, [(those, round(share * len(those))) for those in members], task)


def _plain(examples: Sequence[Labelled], share: float, name: str, task: Task) -> tuple[list[Labelled], list[Labelled]]:
    """Hold out a share of all texts at random, as far as each class keeps one: for classes of one or two texts."""
    members = generator(0, name).permutation(len(examples)).tolist()
    return _part(examples, [(members, max(1, round(share * len(members))))], task)


def _part(
    examples: Sequence[Labelled], wanted: Sequence[tuple[Sequence[int], int]], task: Task
) -> tuple[list[Labelled], list[Labelled]]:
    """Hold out so many of each list of texts, by their indices, with all copies; a class keeps at least one text."""
    copies: dict[str, list[int]] = {}
    for i, example in enumerate(examples):
        copies.setdefault(normal(example.whole), []).append(i)
    strata = FORMS[task].strata(examples)
    left = Counter(stratum for those in copies.values() for stratum in {strata[i] for i in those})
    chosen: set[str] = set()
    for members, number in wanted:
        for text in dict.fromkeys(normal(examples[i].whole) for i in members):
            if number <= 0:
                break
            own = {strata[i] for i in copies[text]}
            if text not in chosen and min(left[stratum] for stratum in own) > 1:
                chosen.add(text)
                left.subtract(own)
            number -= len(copies[text]) * (text in chosen)
    held = {i for text in chosen for i in copies[text]}
    kept = [example for i, example in enumerate(examples) if i not in held]
    return kept, [example for i, example in enumerate(examples) if i in held]


def draw(examples: Sequence[Labelled], size: int, number: int = 0, task: Task = "classes") -> list[Labelled]:
    """Draw texts so that each class has at least one, and otherwise its share of them.

    A smaller draw of the same number is part of a larger one.

    >>> texts = [Labelled(str(i), "rare" if i == 7 else "common", line=i) for i in range(10)]
    >>> sorted(example.label for example in draw(texts, 3))
    ['common', 'common', 'rare']
    """
    groups = _by_stratum(examples, f"draw {number}", task)
    if size > len(examples):
        raise UserError(f"{size:,} labels asked for, but only {len(examples):,} texts are there to train on")
    if task == "classes" and size < len(groups):
        raise UserError(f"{size} labels are fewer than the {len(groups)} classes; choose {len(groups)} or more")
    # The first of each class comes first; the others as their classes would be dealt out evenly.
    places = [((rank + 0.5) / len(members) if rank else 0.0, i) for members in groups for rank, i in enumerate(members)]
    return [examples[i] for _, i in sorted(places)[:size]]


def _by_stratum(examples: Sequence[Labelled], name: str, task: Task) -> list[list[int]]:
    """Return the indices of the texts of each class or group, shuffled."""
    groups: dict[str, list[int]] = {}
    for i, stratum in enumerate(FORMS[task].strata(examples)):
        groups.setdefault(stratum, []).append(i)
    return [
        [groups[stratum][i] for i in generator(0, name, stratum).permutation(len(groups[stratum]))]
        for stratum in sorted(groups)
    ]


def folds(
    labels: npt.ArrayLike, groups: npt.ArrayLike | None = None, seed: int = 0, count: int = FOLDS
) -> npt.NDArray[np.int64]:
    """Return the number of the fold that judges each text; -1 for one that is always in training: (N,).

    Each class is dealt out over the folds. Texts of one group (copies of one text) are in one fold. A class that is
    one group is always in training; any other is in training for every fold.

    >>> sorted(folds([0, 0, 0, 1, 1, 2], count=3).tolist())
    [-1, 0, 0, 1, 1, 2]
    """
    wanted = np.asarray(labels)
    own = np.arange(len(wanted)) if groups is None else np.asarray(groups)
    fold = np.full(len(wanted), -1, dtype=np.int64)
    turn = 0
    for label in np.unique(wanted):
        # A copy that has another label, too, was dealt out with that one.
        members = np.unique(own[(wanted == label) & (fold < 0)])
        if len(members) < 2:
            continue
        for group in generator(seed, "folds", int(label)).permutation(members):
            fold[own == group] = turn % count
            turn += 1
    for label in np.unique(wanted):  # a class whose texts are copies of another's may have been dealt to one fold
        places = fold[wanted == label]
        if places[0] >= 0 and (places == places[0]).all():
            fold[own == own[wanted == label][0]] = -1
    return fold


def fold_numbers(examples: Sequence[Labelled], task: Task = "classes") -> npt.NDArray[np.int64]:
    """Return the fold of each text, as `folds` does; all copies of a text are in one fold."""
    _, strata = np.unique(FORMS[task].strata(examples), return_inverse=True)
    _, texts = np.unique([normal(example.whole) for example in examples], return_inverse=True)
    return folds(strata, texts)
