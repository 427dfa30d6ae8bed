"""The ensemble of a fine-tuned body and TF-IDF.

The log probabilities of both are summed with one weight each, and a softmax makes probabilities of the sums. The
weights minimise the loss on the validation texts; two numbers can be fitted on a few hundred texts. The module
takes probabilities and knows nothing of models.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Probabilities = Sequence[Sequence[float]]
"""Probability of each label for each text: (N, C)."""

MAX_WEIGHT = 10.0
"""Upper bound of a weight: where validation has no mistake, the loss would fall without end."""
MIN_PROBABILITY = 1e-9
"""Lower bound of a probability, so that its logarithm is finite."""


@dataclass(frozen=True)
class Ensemble:
    """A fitted ensemble and its predictions for the test texts."""

    weights: tuple[float, float]
    """Weights of the body and of TF-IDF."""
    valid_accuracy: float
    """Accuracy on the validation texts."""
    predictions: list[str]
    """Predicted label of each test text."""
    probabilities: list[float]
    """Probability of each predicted label."""


def fit_ensemble(
    labels: Sequence[str],
    valid: tuple[Probabilities, Probabilities],
    gold: Sequence[str],
    test: tuple[Probabilities, Probabilities],
) -> Ensemble:
    """Fit the weights on the validation texts, whose true labels are `gold`, and classify the test texts.

    `valid` and `test` hold the probabilities of the body and of TF-IDF. A member that is always wrong gets weight 0:

    >>> valid, test = ([[0.9, 0.1], [0.2, 0.8]], [[0.4, 0.6], [0.6, 0.4]]), ([[0.7, 0.3]], [[0.1, 0.9]])
    >>> found = fit_ensemble(["bad", "good"], valid, ["bad", "good"], test)
    >>> found.valid_accuracy, found.weights[1], found.predictions
    (1.0, 0.0, ['bad'])
    """
    # A small training set may lack a class; validation texts of that class cannot tell the weights.
    known = [i for i, label in enumerate(gold) if label in labels]
    wanted = np.array([labels.index(gold[i]) for i in known])
    log_probabilities = _log_probabilities(valid)
    weights = _fit_weights(log_probabilities[:, known], wanted)
    right = np.tensordot(weights, log_probabilities[:, known], axes=1).argmax(axis=1) == wanted
    probabilities = _softmax(np.tensordot(weights, _log_probabilities(test), axes=1))
    return Ensemble(
        weights=(float(weights[0]), float(weights[1])),
        valid_accuracy=float(right.sum() / len(gold)),
        predictions=[labels[i] for i in probabilities.argmax(axis=1)],
        probabilities=probabilities.max(axis=1).tolist(),
    )


def _fit_weights(known: npt.NDArray[np.float64], wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Find the non-negative weights with the lowest validation loss, which is convex in them."""
    from scipy.optimize import minimize

    texts = np.arange(len(wanted))

    def loss(weights: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        probabilities = _softmax(np.tensordot(weights, known, axes=1))  # (N, C)
        mean_loss = -np.log(np.maximum(probabilities[texts, wanted], MIN_PROBABILITY)).mean()
        expected = (probabilities * known).sum(axis=2)  # (2, N)
        return float(mean_loss), (expected - known[:, texts, wanted]).mean(axis=1)

    found = minimize(loss, np.full(2, 0.5), jac=True, bounds=[(0.0, MAX_WEIGHT)] * 2, method="L-BFGS-B")
    weights: npt.NDArray[np.float64] = found.x
    return weights


def _log_probabilities(probabilities: tuple[Probabilities, Probabilities]) -> npt.NDArray[np.float64]:
    """Stack the log probabilities of both: (2, N, C)."""
    return np.log(np.maximum(np.array(probabilities, dtype=np.float64), MIN_PROBABILITY))


def _softmax(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Turn the logits of each text into probabilities: (N, C)."""
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: npt.NDArray[np.float64] = raised / raised.sum(axis=1, keepdims=True)
    return probabilities
