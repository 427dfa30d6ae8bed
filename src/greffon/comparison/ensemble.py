"""The ensemble of a fine-tuned body and TF-IDF.

The log probabilities of both are summed with one weight each, and a softmax makes probabilities of the sums. The
weights minimise the loss on texts that neither has been fitted on, and are drawn towards the plain sum as by some more
texts: twenty texts cannot tell two weights. Where a member alone makes fewer mistakes on those texts, the nearest
mixture that is as good is taken. The module takes probabilities and knows nothing of models.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Probabilities = Sequence[Sequence[float]]
"""Probability of each label for each text: (N, C)."""
LogProbabilities = npt.NDArray[np.float64]
"""Logarithms of the probabilities of both members: (2, N, C)."""
Weights = npt.NDArray[np.float64]
"""Weights of the body and of TF-IDF: (2,)."""

MAX_WEIGHT = 10.0
"""Upper bound of a weight: where validation has no mistake, the loss would fall without end."""
SHRINKAGE = 10.0
"""How strongly weights are drawn towards 1, in texts."""
SHARES = np.linspace(0.0, 1.0, 41)
"""Shares of the body in the mixtures that are tried."""
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

    `valid` and `test` hold the probabilities of the body and of TF-IDF.

    >>> valid, test = ([[0.9, 0.1], [0.2, 0.8]], [[0.4, 0.6], [0.6, 0.4]]), ([[0.7, 0.3]], [[0.1, 0.9]])
    >>> found = fit_ensemble(["bad", "good"], valid, ["bad", "good"], test)
    >>> found.valid_accuracy, found.predictions
    (1.0, ['good'])
    """
    # A small training set may lack a class; validation texts of that class cannot tell the weights.
    known = [i for i, label in enumerate(gold) if label in labels]
    wanted = np.array([labels.index(gold[i]) for i in known], dtype=np.int64)
    seen = _log_probabilities(valid).reshape(2, len(gold), len(labels))[:, known]
    # With one label of each class nothing can be held out: then it is the plain sum.
    weights = no_worse_than_a_member(fit_weights(seen, wanted), seen, wanted) if known else np.ones(2)
    probabilities = _softmax(np.tensordot(weights, _log_probabilities(test), axes=1))
    return Ensemble(
        weights=(float(weights[0]), float(weights[1])),
        valid_accuracy=_right(weights, seen, wanted) / max(1, len(gold)),
        predictions=[labels[i] for i in probabilities.argmax(axis=1)],
        probabilities=probabilities.max(axis=1).tolist(),
    )


def no_worse_than_a_member(weights: Weights, known: LogProbabilities, wanted: npt.NDArray[np.int64]) -> Weights:
    """Return, of the mixtures with no more mistakes than either member, the one that is nearest to the given weights.

    The mixture with the fewest mistakes of all would be chosen by chance where there are few texts (docs/findings.md).
    """
    needed = max(_right(member, known, wanted) for member in np.eye(2))
    tried = [weights, *(weights.sum() * np.array([share, 1 - share]) for share in SHARES)]
    as_good = [each for each in tried if _right(each, known, wanted) >= needed]
    return min(as_good, key=lambda each: float(np.abs(each - weights).sum()))


def _right(weights: Weights, log_probabilities: LogProbabilities, wanted: npt.NDArray[np.int64]) -> int:
    """Count the texts that the weighted members classify rightly."""
    return int((np.tensordot(weights, log_probabilities, axes=1).argmax(axis=1) == wanted).sum())


def fit_weights(known: LogProbabilities, wanted: npt.NDArray[np.int64], shrinkage: float = SHRINKAGE) -> Weights:
    """Find the non-negative weights of two members with the lowest loss, which is convex in them.

    `known` are the log probabilities of both for each text, (2, N, C), and `wanted` the numbers of the true classes.
    """
    from scipy.optimize import minimize

    texts = np.arange(len(wanted))

    def loss(weights: Weights) -> tuple[float, Weights]:
        probabilities = _softmax(np.tensordot(weights, known, axes=1))  # (N, C)
        mean_loss = -np.log(np.maximum(probabilities[texts, wanted], MIN_PROBABILITY)).mean()
        expected = (probabilities * known).sum(axis=2)  # (2, N)
        drawn = shrinkage / len(texts) * (weights - 1.0)
        penalty = float(drawn @ (weights - 1.0)) / 2
        return float(mean_loss) + penalty, (expected - known[:, texts, wanted]).mean(axis=1) + drawn

    found = minimize(loss, np.ones(2), jac=True, bounds=[(0.0, MAX_WEIGHT)] * 2, method="L-BFGS-B")
    weights: Weights = found.x
    return weights


def _log_probabilities(probabilities: tuple[Probabilities, Probabilities]) -> LogProbabilities:
    """Stack the log probabilities of both: (2, N, C)."""
    return np.log(np.maximum(np.array(probabilities, dtype=np.float64), MIN_PROBABILITY))


def _softmax(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Turn the logits of each text into probabilities: (N, C)."""
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities: npt.NDArray[np.float64] = raised / raised.sum(axis=1, keepdims=True)
    return probabilities
