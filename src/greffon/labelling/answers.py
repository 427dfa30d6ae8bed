"""What a person says of a text: one class, or any number of labels. The one place that chooses by the task.

A label is a string everywhere, in the spelling of `Labelled.label`: a class, or several labels as `a|b`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from greffon.core.errors import UserError, did_you_mean
from greffon.data.corpora import Labelled
from greffon.data.tasks.multilabel import SEPARATOR, split_labels
from greffon.inference.metrics import Interval, wilson_interval
from greffon.inference.probe import STRENGTH, Probe, ProbeForm, fit_probe
from greffon.inference.tasks.base import ratio_interval
from greffon.inference.tasks.multilabel import best_thresholds, gold_bits

LabelTask = Literal["classes", "multilabel", "pairs"]
"""Tasks that a session is for."""
Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[Any]
_TINY = 1e-9


@dataclass(frozen=True)
class OneClass:
    """One class for each text, or each pair of texts."""

    labels: tuple[str, ...]
    metric: ClassVar[str] = "accuracy"
    column: ClassVar[str] = "label"
    """Column of labels.csv, by which `greffon finetune` knows the task."""

    def spelled(self, given: str | Sequence[str]) -> str:
        """Return a label in its one spelling."""
        if not isinstance(given, str):
            raise UserError(f"a text has one label in this session, not a list of {len(given)}; give its name")
        self._check([given])
        return given

    def _check(self, names: Sequence[str]) -> None:
        for name in names:
            if name not in self.labels:
                raise UserError(f"unknown label {name!r}{did_you_mean(name, self.labels)}")

    def names(self, label: str) -> list[str]:
        """Return the names in a label."""
        return [label]

    def decisions(self, label: str) -> list[str]:
        """Return what two people can agree about, one after another."""
        return [label]

    def questions(self, labels: Sequence[str]) -> list[tuple[Numbers, int]]:
        """Return what is learned, as classifications: the class number of each text, (N,), and how many there are."""
        return [(np.array([self.labels.index(label) for label in labels]), len(self.labels))]

    def joined(self, found: Sequence[Floats]) -> Floats:
        """Return the probability of each label, (N, C), from those of each question."""
        return found[0]

    def probe(self, vectors: Floats, labels: Sequence[str], center: npt.ArrayLike) -> Probe:
        """Fit a probe to labelled vectors.

        The strength is not chosen by cross-validation: texts that were chosen for being hard would mislead it.
        """
        numbers, count = self.questions(labels)[0]
        return fit_probe(vectors, numbers.tolist(), ProbeForm(count, center), strengths=(STRENGTH,))

    def margins(self, probabilities: Floats) -> Floats:
        """Return how sure a probe is of each text, (N,): the difference between its two highest probabilities."""
        highest = np.partition(probabilities, -2, axis=1)
        margins: Floats = highest[:, -1] - highest[:, -2]
        return margins

    def thresholds(self, labels: Sequence[str], held_out: Callable[[], Floats]) -> Floats:
        """Return the probability from which on each label is given, (C,); none where the most probable one is."""
        return np.empty(0)

    def given(self, probabilities: Floats, thresholds: Floats) -> list[str]:
        """Return the label of each text."""
        return [self.labels[number] for number in probabilities.argmax(axis=1)]

    def parts(self, gold: Sequence[str], given: Sequence[str]) -> tuple[Floats, Floats]:
        """Return two numbers of each text; the measure is the sum of the ones divided by that of the others."""
        return np.array([a == b for a, b in zip(gold, given, strict=True)], dtype=float), np.ones(len(gold))

    def interval(self, over: Floats, under: Floats) -> Interval:
        """Return the 95 % interval of the measure."""
        return wilson_interval(round(over.sum()), len(over))

    def doubted(self, labels: Sequence[str], held_out: Floats) -> tuple[Floats, Floats, list[str]]:
        """Return how little a probe without a text believes its label, the label's probability, and what it suggests.

        The first is a ratio of probabilities, (N,): that of the label, to that of the most probable one.
        """
        numbers, _ = self.questions(labels)[0]
        own = held_out[np.arange(len(numbers)), numbers]
        return own / held_out.max(axis=1), own, self.given(held_out, np.empty(0))


class SeveralLabels(OneClass):
    """Any number of labels for each text, or none: one question of yes and no for each label."""

    metric = "micro_f1"
    column = "labels"

    def spelled(self, given: str | Sequence[str]) -> str:
        """Return labels in their one spelling: in order, each once."""
        names = split_labels(given) if isinstance(given, str) else list(given)
        self._check(names)
        return SEPARATOR.join(sorted({*names}))

    def names(self, label: str) -> list[str]:
        """Return the names in a label."""
        return split_labels(label)

    def decisions(self, label: str) -> list[str]:
        """Return yes or no for each label."""
        return ["yes" if name in split_labels(label) else "no" for name in self.labels]

    def questions(self, labels: Sequence[str]) -> list[tuple[Numbers, int]]:
        """Return 0 or 1 for each text, and label after label."""
        return [(own.astype(np.int64), 2) for own in self._bits(labels).T]

    def _bits(self, labels: Sequence[str]) -> npt.NDArray[np.bool_]:
        return gold_bits(self.labels, [Labelled("", label, 0) for label in labels])

    def joined(self, found: Sequence[Floats]) -> Floats:
        """Return the probability of yes, for each label; 0 where too few texts have it to tell."""
        return np.nan_to_num(np.stack([one[:, 1] for one in found], axis=1))

    def probe(self, vectors: Floats, labels: Sequence[str], center: npt.ArrayLike) -> Probe:
        """Fit a probe for each label."""
        given = np.asarray(vectors, dtype=np.float64)
        return ProbeForm(center=center, link="sigmoid").fit(given, self._bits(labels), STRENGTH)

    def margins(self, probabilities: Floats) -> Floats:
        """Return how sure a probe is of the label that it hesitates about the most."""
        margins: Floats = np.abs(2 * probabilities - 1).min(axis=1)
        return margins

    def thresholds(self, labels: Sequence[str], held_out: Callable[[], Floats]) -> Floats:
        """Choose the thresholds by probabilities that come from models without the text."""
        return best_thresholds(self._bits(labels), held_out())

    def given(self, probabilities: Floats, thresholds: Floats) -> list[str]:
        """Return the labels of each text."""
        return [SEPARATOR.join(sorted(np.array(self.labels)[row])) for row in probabilities >= thresholds]

    def parts(self, gold: Sequence[str], given: Sequence[str]) -> tuple[Floats, Floats]:
        """Return twice the right labels, and the true and the given ones together."""
        a, b = self._bits(gold), self._bits(given)
        return 2.0 * (a & b).sum(axis=1), (a.sum(axis=1) + b.sum(axis=1)).astype(float)

    def interval(self, over: Floats, under: Floats) -> Interval:
        """Return the bootstrap interval of the F1, over texts."""
        return ratio_interval(over, under)

    def doubted(self, labels: Sequence[str], held_out: Floats) -> tuple[Floats, Floats, list[str]]:
        """Judge each text by the one label that is believed the least, there or missing.

        The ratio is one of odds to those at the label's threshold, as few texts have a rare label.
        """
        bits, rows = self._bits(labels), np.arange(len(labels))
        limits = self.thresholds(labels, lambda: held_out)
        odds = [np.clip(p, _TINY, 1 - _TINY) / np.clip(1 - p, _TINY, 1) for p in (held_out, limits)]
        yes = odds[0] / odds[1]
        ratio = np.where(bits, yes, 1 / yes)
        worst = ratio.argmin(axis=1)
        own = np.where(bits, held_out, 1 - held_out)[rows, worst]
        names = [{*self.names(label)} ^ {self.labels[place]} for label, place in zip(labels, worst, strict=True)]
        return ratio[rows, worst], own, [SEPARATOR.join(sorted(some)) for some in names]


_KINDS: dict[LabelTask, type[OneClass]] = {"classes": OneClass, "multilabel": SeveralLabels, "pairs": OneClass}


def answers_of(task: LabelTask, labels: Sequence[str]) -> OneClass:
    """Return the answers of a task.

    >>> answers_of("multilabel", ["food", "price"]).spelled(["price", "food"])
    'food|price'
    """
    return _KINDS[task](tuple(labels))
