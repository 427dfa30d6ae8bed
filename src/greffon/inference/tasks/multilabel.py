"""Several labels for each text: a label is given where its probability reaches its threshold."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from greffon.core.json_results import JsonResult
from greffon.core.recipe import Recipe
from greffon.data.corpora import Labelled
from greffon.data.tasks.multilabel import SEPARATOR, split_labels
from greffon.inference.calibration import ReliabilityBin, calibration_error, reliability
from greffon.inference.metrics import Interval
from greffon.inference.tasks.base import Found, Outputs, TaskScores, ratio, ratio_interval
from greffon.inference.tasks.classes import MIN_PROBABILITY, best_temperature, tempered
from greffon.runs.folding import TEMPERATURE, THRESHOLD, threshold_of

FEW = 5
"""A label of fewer held-out texts takes the threshold that is best for all labels together."""

Bits = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Labelling(JsonResult):
    """A text, its labels, and the probability of each label."""

    text: str
    """The text."""
    labels: list[str]
    """Labels that are given."""
    probabilities: dict[str, float]
    """Probability of each label."""

    def above(self, least: float) -> "Labelling":
        """Leave out the labels whose probability is lower."""
        return replace(self, labels=[label for label in self.labels if self.probabilities[label] >= least])

    def cells(self) -> dict[str, str]:
        """Return the answer as columns of a table."""
        return {"prediction": SEPARATOR.join(self.labels)}

    def line(self) -> str:
        """Return the answer for a person."""
        told = ", ".join(f"{label} {self.probabilities[label]:.3f}" for label in self.labels)
        return f"{told or 'none'}\t{' '.join(self.text.split())}"


@dataclass(frozen=True)
class LabelScore:
    """Scores of one label."""

    f1: float
    """F1 of the label, given from its threshold on."""
    average_precision: float
    """Area under the curve of precision over recall; 0 for a label that no text has."""
    support: int
    """Number of texts with the label."""
    threshold: float
    """Probability from which on the label is given."""


@dataclass(frozen=True)
class LabelScores(TaskScores):
    """Scores of a run that gives several labels."""

    micro_f1: float
    """F1 of all labels of all texts together."""
    interval: Interval
    """95 % bootstrap interval of the micro F1, over texts."""
    macro_f1: float
    """Unweighted mean of the labels' F1."""
    average_precision: float
    """Unweighted mean of the labels' average precision."""
    n: int
    """Number of texts."""
    by_label: dict[str, LabelScore]
    """Scores of each label."""
    expected_calibration_error: float
    """Mean difference between the probability of a label and the share of texts that have it, over ten bins."""
    reliability: tuple[ReliabilityBin, ...]
    """Probability of labels, and the share of texts that have them, by bins of the probability."""
    metric: str = "micro_f1"
    """Name of the first measure."""

    def lines(self) -> list[str]:
        """Return the scores for a person."""
        low, high = self.interval
        widest = max(map(len, self.by_label))
        return [
            f"micro F1 {self.micro_f1:.3f} (95 % interval {low:.3f} to {high:.3f}), macro F1 {self.macro_f1:.3f}, "
            f"average precision {self.average_precision:.3f}, calibration error {self.expected_calibration_error:.3f}, "
            f"{self.n:,} texts",
            *(
                f"  {label:<{widest}}  F1 {found.f1:.3f}, average precision {found.average_precision:.3f}, "
                f"{found.support:,} texts, from a probability of {found.threshold:.2f} on"
                for label, found in self.by_label.items()
            ),
        ]


class Multilabel:
    """Answers and scores of a run that gives several labels."""

    metric: str = "micro_f1"
    higher_is_better: bool = True
    has_probabilities: bool = True
    noun: str = "labels"

    def held_out(self, recipe: Recipe, examples: Sequence[Labelled], outputs: Outputs) -> dict[str, float]:
        """Return micro F1, loss, and what is chosen on these texts: a temperature, then a threshold for each label."""
        gold, probabilities = gold_bits(recipe.labels, examples), np.stack(outputs)
        right = np.where(gold, probabilities, 1 - probabilities)
        temperature = best_temperature(_both(probabilities), gold.ravel().astype(int))
        probabilities = _tempered(probabilities, temperature)
        thresholds = best_thresholds(gold, probabilities)
        return {
            "micro_f1": micro_f1(gold, probabilities >= thresholds),
            "loss": float(-np.log(np.maximum(right, MIN_PROBABILITY)).mean()),
            TEMPERATURE: temperature,
            **{THRESHOLD + label: float(value) for label, value in zip(recipe.labels, thresholds, strict=True)},
        }

    def key(self, scores: Found) -> tuple[float, ...]:
        """Prefer the highest micro F1, then the lowest loss."""
        return scores["micro_f1"], -scores["loss"]

    def calibrated(self, scores: Found, outputs: Outputs) -> Outputs:
        """Return the probabilities with the temperature, to which the thresholds apply."""
        return list(_tempered(np.stack(outputs), scores.get(TEMPERATURE, 1.0)))

    def answers(self, recipe: Recipe, scores: Found, examples: Sequence[Labelled], outputs: Outputs) -> list[Labelling]:
        """Return the labels of each text whose probability reaches the threshold."""
        thresholds = thresholds_of(recipe.labels, scores)
        return [
            Labelling(
                example.text,
                [label for label, p, least in zip(recipe.labels, row, thresholds, strict=True) if p >= least],
                dict(zip(recipe.labels, row.tolist(), strict=True)),
            )
            for example, row in zip(examples, outputs, strict=True)
        ]

    def parts(
        self, recipe: Recipe, scores: Found, examples: Sequence[Labelled], outputs: Outputs
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return twice the right labels, and the true and the given ones together."""
        gold, given = gold_bits(recipe.labels, examples), np.stack(outputs) >= thresholds_of(recipe.labels, scores)
        return 2.0 * (gold & given).sum(axis=1), (gold.sum(axis=1) + given.sum(axis=1)).astype(np.float64)

    def scores(self, recipe: Recipe, scores: Found, examples: Sequence[Labelled], outputs: Outputs) -> LabelScores:
        """Score the labels that are given."""
        gold, probabilities = gold_bits(recipe.labels, examples), np.stack(outputs)
        thresholds = thresholds_of(recipe.labels, scores)
        given, bins = probabilities >= thresholds, reliability(probabilities.ravel(), gold.ravel())
        by_label = {
            label: LabelScore(
                f1=micro_f1(gold[:, i], given[:, i]),
                average_precision=average_precision(gold[:, i], probabilities[:, i]),
                support=int(gold[:, i].sum()),
                threshold=float(thresholds[i]),
            )
            for i, label in enumerate(recipe.labels)
        }
        return LabelScores(
            micro_f1=micro_f1(gold, given),
            interval=ratio_interval(*self.parts(recipe, scores, examples, outputs)),
            macro_f1=float(np.mean([found.f1 for found in by_label.values()])),
            average_precision=float(np.mean([found.average_precision for found in by_label.values()])),
            n=len(examples),
            by_label=by_label,
            expected_calibration_error=calibration_error(bins),
            reliability=bins,
        )


def gold_bits(labels: Sequence[str], examples: Sequence[Labelled]) -> Bits:
    """Mark the labels of each text: (N, C)."""
    own = [{*split_labels(example.label)} for example in examples]
    return np.array([[label in marked for label in labels] for marked in own], dtype=bool).reshape(-1, len(labels))


def micro_f1(gold: Bits, given: Bits) -> float:
    """Return the F1 of all decisions together; 0 where there is neither a label nor an answer."""
    return ratio(2 * int((gold & given).sum()), int(gold.sum()) + int(given.sum()))


def average_precision(gold: Bits, probabilities: npt.NDArray[Any]) -> float:
    """Return the area under the curve of precision over recall; 0 without a single text of the label."""
    from sklearn.metrics import average_precision_score

    return float(average_precision_score(gold, probabilities)) if gold.any() else 0.0


def thresholds_of(labels: Sequence[str], scores: Found) -> npt.NDArray[np.float64]:
    """Return the threshold of each label; ½ where none was chosen."""
    return np.array([threshold_of(label, scores) for label in labels], dtype=np.float64)


def _both(probabilities: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return each decision as two classes, without the label and with it: (N, C) → (N C, 2)."""
    return np.stack((1 - probabilities, probabilities), axis=-1).reshape(-1, 2)


def _tempered(probabilities: npt.NDArray[Any], temperature: float) -> npt.NDArray[np.float64]:
    """Return the probabilities of logits that are divided by a temperature: (N, C) → (N, C)."""
    return tempered(_both(probabilities), temperature)[:, 1].reshape(probabilities.shape)


def best_thresholds(gold: Bits, probabilities: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Choose for each label the threshold with the highest F1; rare labels share one: (N, C) twice → (C,)."""
    shared = _best_threshold(gold.ravel(), probabilities.ravel())
    return np.array(
        [
            _best_threshold(gold[:, i], probabilities[:, i]) if gold[:, i].sum() >= FEW else shared
            for i in range(gold.shape[1])
        ]
    )


def _best_threshold(gold: Bits, probabilities: npt.NDArray[Any]) -> float:
    """Return the threshold, half-way between two probabilities, with the highest F1; of equals, the nearest to ½."""
    order = np.argsort(-probabilities, kind="stable")
    ordered, hits = probabilities[order].astype(np.float64), np.cumsum(gold[order])
    if not len(ordered) or not hits[-1]:
        return 0.5
    f1 = 2 * hits / (np.arange(1, len(ordered) + 1) + hits[-1])  # of giving the label to the first n texts
    between = (ordered + np.append(ordered[1:], 0.0)) / 2
    f1 = np.where(ordered > np.append(ordered[1:], -1.0), f1, -1.0)  # equal probabilities are not to be parted
    best = np.flatnonzero(f1 >= f1.max() - 1e-12)
    return float(between[best[np.argmin(np.abs(between[best] - 0.5))]])
