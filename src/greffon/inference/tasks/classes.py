"""One class for each text."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from greffon.core.json_results import JsonResult
from greffon.core.recipe import Recipe
from greffon.data.corpora import Labelled
from greffon.inference.calibration import ReliabilityBin, calibration_error, reliability
from greffon.inference.metrics import confusion, macro_f1, wilson_interval
from greffon.inference.tasks.base import Found, Outputs, TaskScores
from greffon.runs.folding import TEMPERATURE

TEMPERATURES = np.exp(np.linspace(-1.6, 1.6, 65))
"""The temperatures that are tried, from 0.2 to 5; 1 is among them."""
PRIOR = 0.5
"""Standard deviation of the logarithm of a temperature, as far as the texts do not say otherwise."""
MOST_DECISIONS = 100_000
"""Texts, or decisions about labels, by which a temperature is fitted at most: more say the same."""
MIN_PROBABILITY = 1e-12
"""Lower bound of a probability in a loss: one that is 0 in fp32 would make the mean over all texts infinite."""


@dataclass(frozen=True)
class Classification(JsonResult):
    """A text, its label, and the probability of each label."""

    text: str
    """The text."""
    label: str | None
    """The most probable label; None if it is less probable than was asked for."""
    probabilities: dict[str, float]
    """Probability of each label."""

    def above(self, least: float) -> "Classification":
        """Leave the label out if its probability is lower."""
        return replace(self, label=None) if max(self.probabilities.values()) < least else self

    def cells(self) -> dict[str, str]:
        """Return the answer as columns of a table."""
        return {"prediction": self.label or "", "probability": f"{max(self.probabilities.values()):.4f}"}

    def line(self) -> str:
        """Return the answer for a person."""
        return f"{self.label or '?'}\t{max(self.probabilities.values()):.3f}\t{' '.join(self.text.split())}"


@dataclass(frozen=True)
class PairClassification(JsonResult):
    """A pair of texts, its label, and the probability of each label."""

    text_a: str
    """The first text."""
    text_b: str
    """The second text."""
    label: str | None
    """The most probable label; None if it is less probable than was asked for."""
    probabilities: dict[str, float]
    """Probability of each label."""

    def above(self, least: float) -> "PairClassification":
        """Leave the label out if its probability is lower."""
        return replace(self, label=None) if max(self.probabilities.values()) < least else self

    def cells(self) -> dict[str, str]:
        """Return the answer as columns of a table."""
        return {"prediction": self.label or "", "probability": f"{max(self.probabilities.values()):.4f}"}

    def line(self) -> str:
        """Return the answer for a person."""
        texts = "\t".join(" ".join(text.split()) for text in (self.text_a, self.text_b))
        return f"{self.label or '?'}\t{max(self.probabilities.values()):.3f}\t{texts}"


@dataclass(frozen=True)
class ClassScores(TaskScores):
    """Scores of a classifier on labelled texts."""

    accuracy: float
    """Share of texts with the right label."""
    interval: tuple[float, float]
    """95 % Wilson interval of the accuracy."""
    macro_f1: float
    """Unweighted mean of the classes' F1."""
    n: int
    """Number of texts."""
    labels: tuple[str, ...]
    """Labels, in the order of the confusion matrix."""
    confusion: list[list[int]]
    """Number of texts by true label (row) and predicted label (column)."""
    expected_calibration_error: float
    """Mean difference between the probability of the given label and the share of right ones, over ten bins."""
    reliability: tuple[ReliabilityBin, ...]
    """Probability of the given labels, and the share of right ones, by bins of the probability."""
    metric: str = "accuracy"
    """Name of the first measure."""

    def lines(self) -> list[str]:
        """Return the scores for a person."""
        low, high = self.interval
        widest = max(map(len, self.labels))
        lines = [
            f"accuracy {self.accuracy:.1%} (95 % interval {low:.1%} to {high:.1%}), "
            f"macro F1 {self.macro_f1:.3f}, calibration error {self.expected_calibration_error:.3f}, {self.n:,} texts"
        ]
        for label, row in zip(self.labels, self.confusion, strict=True):
            found = ", ".join(f"{count:,} as {name}" for name, count in zip(self.labels, row, strict=True))
            lines.append(f"  {label:<{widest}}  predicted {found}")
        return lines


class Classes:
    """Answers and scores of a classifier."""

    metric: str = "accuracy"
    higher_is_better: bool = True
    has_probabilities: bool = True
    noun: str = "classes"

    def held_out(self, recipe: Recipe, examples: Sequence[Labelled], outputs: Outputs) -> dict[str, float]:
        """Return the accuracy and the mean loss."""
        numbers = {label: i for i, label in enumerate(recipe.labels)}
        gold = np.array([numbers.get(example.label, -1) for example in examples])
        probabilities = np.stack(outputs)
        own = probabilities[np.arange(len(gold)), np.maximum(gold, 0)]
        return {
            "accuracy": float((probabilities.argmax(axis=1) == gold).mean()),
            "loss": float(-np.log(np.maximum(own, MIN_PROBABILITY)).mean()),
            TEMPERATURE: best_temperature(probabilities, gold),
        }

    def key(self, scores: Found) -> tuple[float, ...]:
        """Prefer the highest accuracy, then the lowest loss."""
        return scores["accuracy"], -scores["loss"]

    def calibrated(self, scores: Found, outputs: Outputs) -> Outputs:
        """Return the probabilities with the temperature."""
        return list(tempered(np.stack(outputs), scores.get(TEMPERATURE, 1.0)))

    def answers(
        self, recipe: Recipe, scores: Found, examples: Sequence[Labelled], outputs: Outputs
    ) -> list[Classification | PairClassification]:
        """Return the most probable class of each text."""
        found: list[Classification | PairClassification] = []
        for example, row in zip(examples, outputs, strict=True):
            label, probabilities = recipe.labels[int(row.argmax())], dict(zip(recipe.labels, row.tolist(), strict=True))
            if example.second is None:
                found.append(Classification(example.text, label, probabilities))
            else:
                found.append(PairClassification(example.text, example.second, label, probabilities))
        return found

    def parts(
        self, recipe: Recipe, scores: Found, examples: Sequence[Labelled], outputs: Outputs
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return 1 for each right answer, and 1 for each text."""
        pairs = zip(examples, outputs, strict=True)
        right = [float(example.label == recipe.labels[int(row.argmax())]) for example, row in pairs]
        return np.array(right), np.ones(len(right))

    def scores(self, recipe: Recipe, scores: Found, examples: Sequence[Labelled], outputs: Outputs) -> ClassScores:
        """Score the most probable classes."""
        gold = [example.label for example in examples]
        found = [recipe.labels[int(row.argmax())] for row in outputs]
        hits = [a == b for a, b in zip(gold, found, strict=True)]
        bins, right = reliability([float(row.max()) for row in outputs], hits), sum(hits)
        return ClassScores(
            accuracy=right / len(gold),
            interval=wilson_interval(right, len(gold)),
            macro_f1=macro_f1(gold, found, recipe.labels),
            n=len(gold),
            labels=recipe.labels,
            confusion=confusion(gold, found, recipe.labels),
            expected_calibration_error=calibration_error(bins),
            reliability=bins,
        )


def best_temperature(probabilities: npt.NDArray[Any], gold: npt.NDArray[Any]) -> float:
    """Return the temperature by which logits are best divided; near 1 where few texts say otherwise.

    It minimises the loss of the known classes (Guo et al., 2017), with a log-normal prior around 1, because a few texts
    that are all right would ask for certainty.
    """
    known = np.flatnonzero(gold >= 0)
    known = known[:: -(-len(known) // MOST_DECISIONS) or 1]
    if not len(known):
        return 1.0
    places = np.arange(len(known)), gold[known]
    costs = []
    for temperature in TEMPERATURES:
        own = _log_tempered(probabilities[known], temperature)[places]
        costs.append(-own.sum() + np.square(np.log(temperature) / PRIOR) / 2)
    return float(TEMPERATURES[int(np.argmin(costs))])


def tempered(probabilities: npt.NDArray[Any], temperature: float) -> npt.NDArray[np.float64]:
    """Return the probabilities of logits that are divided by a temperature: (N, C) → (N, C)."""
    return np.exp(_log_tempered(probabilities, temperature))


def _log_tempered(probabilities: npt.NDArray[Any], temperature: float) -> npt.NDArray[np.float64]:
    scaled = np.log(np.maximum(probabilities, MIN_PROBABILITY)) / temperature
    normalised: npt.NDArray[np.float64] = scaled - np.logaddexp.reduce(scaled, axis=1, keepdims=True)
    return normalised
