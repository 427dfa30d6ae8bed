"""The classical baselines: TF-IDF with logistic regression, a probe of a frozen body's vectors, and always
predicting the most frequent label.

They use the same labels as the neural arms: they are fitted on train, C is chosen on validation, and the test
texts are only predicted. scikit-learn is imported when needed: it takes a second.
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from greffon.comparison.names import TFIDF_TITLE
from greffon.comparison.tfidf import vectoriser
from greffon.core.errors import UserError
from greffon.inference.probe import STRENGTHS, ProbeForm, fit_probe

C_GRID = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


@dataclass(frozen=True)
class Baseline:
    """A fitted classical arm and its predictions for the test texts."""

    name: str
    """Name for a reader."""
    c: float | None
    """Inverse regularisation strength C; None where there is nothing to choose."""
    valid_accuracy: float
    """Accuracy on the validation texts."""
    predictions: list[str]
    """Predicted label of each test text."""
    probabilities: list[list[float]]
    """Probability of each label for each test text, in the order of `labels`."""
    labels: list[str]
    """Labels of the training texts, in alphabetical order."""
    seconds: float
    """Duration of the fit."""
    valid_probabilities: list[list[float]]
    """Probability of each label for each validation text, in the order of `labels`."""


def tfidf(
    train_texts: Sequence[str],
    train_labels: Sequence[str],
    valid_texts: Sequence[str],
    valid_labels: Sequence[str],
    test_texts: Sequence[str],
    grid: Sequence[float] | None = None,
    seed: int = 0,
) -> Baseline:
    """Fit words 1-2 and characters 2-5 + logistic regression, C chosen on validation."""
    assert valid_texts, "lint reports an empty validation file before anything is fitted"
    assert test_texts, "lint reports an empty test file before anything is fitted"
    began = time.perf_counter()
    if len(set(train_labels)) < 2:
        raise UserError("the training labels hold one class only, so there is nothing to tell apart")
    vectors = vectoriser(len(train_texts))
    try:
        train = vectors.fit_transform(train_texts)
    except ValueError as error:  # scikit-learn's "empty vocabulary"
        raise UserError("the training texts hold no words, so TF-IDF has nothing to count") from error
    return _best(
        TFIDF_TITLE,
        grid or C_GRID,
        (train, train_labels),
        (vectors.transform(valid_texts), valid_labels),
        vectors.transform(test_texts),
        seed,
        began,
    )


def frozen(
    train: tuple[Any, Sequence[str]],
    valid: tuple[Any, Sequence[str]],
    test: Any,
    name: str,
    grid: Sequence[float] = STRENGTHS,
    seed: int = 0,
) -> Baseline:
    """Fit a probe on a frozen body's vectors of the texts (N, hidden size), C chosen on validation."""
    began = time.perf_counter()
    labels = sorted(set(train[1]))
    # A validation text of a class that train lacks cannot tell the strengths.
    known = [i for i, label in enumerate(valid[1]) if label in labels]
    wanted = [[labels.index(label) for label in part] for part in (train[1], [valid[1][i] for i in known])]
    held_out = (valid[0][known], wanted[1])
    probe = fit_probe(train[0], wanted[0], ProbeForm(len(labels)), strengths=grid, valid=held_out, seed=seed)
    held, judged = probe.probabilities(valid[0]), probe.probabilities(test)
    return Baseline(
        name=name,
        c=probe.strength,
        valid_accuracy=_share_equal([labels[i] for i in held.argmax(axis=1)], valid[1]),
        predictions=[labels[i] for i in judged.argmax(axis=1)],
        probabilities=judged.tolist(),
        labels=labels,
        seconds=time.perf_counter() - began,
        valid_probabilities=held.tolist(),
    )


def _best(
    name: str,
    grid: Sequence[float],
    train: tuple[Any, Sequence[str]],
    valid: tuple[Any, Sequence[str]],
    test: Any,
    seed: int,
    began: float,
) -> Baseline:
    """Fit one model for each C and keep the best on validation."""
    # Every candidate is fitted on train alone, so the winner is already "refitted on train only".
    candidates = [_fit(*train, c, seed) for c in grid]
    scores = [_share_equal(model.predict(valid[0]), valid[1]) for model in candidates]
    best = scores.index(max(scores))  # the first of equals: the smaller C is the simpler model
    model = candidates[best]
    return Baseline(
        name=name,
        c=grid[best],
        valid_accuracy=scores[best],
        predictions=[str(label) for label in model.predict(test)],
        probabilities=model.predict_proba(test).tolist(),
        labels=[str(label) for label in model.classes_],
        seconds=time.perf_counter() - began,
        valid_probabilities=model.predict_proba(valid[0]).tolist(),
    )


def majority(train_labels: Sequence[str], valid_labels: Sequence[str], test_texts: Sequence[str]) -> Baseline:
    """Always predict the most frequent label of train; among equals the first in alphabetical order."""
    counts = Counter(train_labels)
    labels = sorted(counts)
    answer = max(labels, key=lambda label: counts[label])
    shares = [counts[label] / len(train_labels) for label in labels]
    return Baseline(
        name="majority class",
        c=None,
        valid_accuracy=_share_equal([answer] * len(valid_labels), valid_labels),
        predictions=[answer] * len(test_texts),
        probabilities=[shares] * len(test_texts),
        labels=labels,
        seconds=0.0,
        valid_probabilities=[shares] * len(valid_labels),
    )


def _fit(features: Any, labels: Sequence[str], c: float, seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=c, max_iter=1000, random_state=seed).fit(features, list(labels))


def _share_equal(predicted: Sequence[str], gold: Sequence[str]) -> float:
    pairs = list(zip(predicted, gold, strict=True))
    return sum(guess == truth for guess, truth in pairs) / len(pairs) if pairs else 0.0
