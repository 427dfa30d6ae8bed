"""A fine-tuned body and TF-IDF together: does the one know what the other does not?

Both say how likely each label is. The logarithms are summed, each with a weight of its own, and validation
chooses the weights by its loss: two numbers, so that a few hundred texts are enough. Knows probabilities alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Probabilities = Sequence[Sequence[float]]
"""How likely each label is, text by text: (N, C)."""

TOGETHER = " + tfidf"
"""How the name of an arm ends that answers together with TF-IDF."""
MOST = 10.0
"""The largest weight: where validation makes no mistake, a larger one is always better."""
LEAST = 1e-9
"""The smallest probability that is taken at its word."""


@dataclass(frozen=True)
class Ensemble:
    """What two that answer together say of the test texts: a label each, and how likely it is."""

    weights: tuple[float, float]
    valid_accuracy: float
    predictions: list[str]
    probabilities: list[float]


def fit_ensemble(
    labels: Sequence[str],
    valid: tuple[Probabilities, Probabilities],
    gold: Sequence[str],
    test: tuple[Probabilities, Probabilities],
) -> Ensemble:
    """Weigh two answerers on validation, whose true labels are `gold`, and let both answer the test texts.

    The one that is right has the say:

    >>> valid, test = ([[0.9, 0.1], [0.2, 0.8]], [[0.4, 0.6], [0.6, 0.4]]), ([[0.7, 0.3]], [[0.1, 0.9]])
    >>> found = together(["bad", "good"], valid, ["bad", "good"], test)
    >>> found.valid_accuracy, found.weights[1], found.predictions
    (1.0, 0.0, ['bad'])
    """
    # What was never learnt, where few texts left a class out, weighs for nobody.
    known = [i for i, label in enumerate(gold) if label in labels]
    wanted = np.array([labels.index(gold[i]) for i in known])
    logarithms = _logarithms(valid)
    weights = _weigh(logarithms[:, known], wanted)
    right = np.tensordot(weights, logarithms[:, known], axes=1).argmax(axis=1) == wanted
    probabilities = _softmax(np.tensordot(weights, _logarithms(test), axes=1))
    return Ensemble(
        weights=(float(weights[0]), float(weights[1])),
        valid_accuracy=float(right.sum() / len(gold)),
        predictions=[labels[i] for i in probabilities.argmax(axis=1)],
        probabilities=probabilities.max(axis=1).tolist(),
    )


def _weigh(known: npt.NDArray[np.float64], wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Find the weights, none below zero, with the lowest validation loss; the loss has one valley only."""
    from scipy.optimize import minimize

    texts = np.arange(len(wanted))

    def loss(weights: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        probabilities = _softmax(np.tensordot(weights, known, axes=1))  # (N, C)
        surprise = -np.log(np.maximum(probabilities[texts, wanted], LEAST)).mean()
        expected = (probabilities * known).sum(axis=2)  # (2, N)
        return float(surprise), (expected - known[:, texts, wanted]).mean(axis=1)

    found = minimize(loss, np.full(2, 0.5), jac=True, bounds=[(0.0, MOST)] * 2, method="L-BFGS-B")
    weights: npt.NDArray[np.float64] = found.x
    return weights


def _logarithms(answers: tuple[Probabilities, Probabilities]) -> npt.NDArray[np.float64]:
    """Stack the logarithms of both: (2, N, C)."""
    return np.log(np.maximum(np.array(answers, dtype=np.float64), LEAST))


def _softmax(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Turn the logits of each text into probabilities: (N, C)."""
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: npt.NDArray[np.float64] = raised / raised.sum(axis=1, keepdims=True)
    return probabilities
