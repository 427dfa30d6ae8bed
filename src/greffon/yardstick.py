"""The classical yardsticks: TF-IDF with logistic regression, and always answering the commonest label.

They see exactly the labels that the neural arms see: fitted on train, C chosen on validation, and the
test texts only at the very end. scikit-learn is imported when needed (`greffon[compare]`).
"""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from greffon.errors import UserError

C_GRID = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
# From this many texts on, an n-gram seen once is dropped: as accurate, and half the time. With fewer
# labels the rare n-grams are all there is.
_ENOUGH_TO_PRUNE = 500


@dataclass(frozen=True)
class Yardstick:
    """A classical arm's answers on the test texts; `probabilities` are in the order of `labels`."""

    name: str
    c: float | None
    valid_accuracy: float
    predictions: list[str]
    probabilities: list[list[float]]
    labels: list[str]
    seconds: float


def tfidf(
    train_texts: Sequence[str],
    train_labels: Sequence[str],
    valid_texts: Sequence[str],
    valid_labels: Sequence[str],
    test_texts: Sequence[str],
    seed: int = 0,
) -> Yardstick:
    """Fit words 1-2 and characters 2-5 + logistic regression, C chosen on validation."""
    assert valid_texts, "lint reports an empty validation file before anything is fitted"
    assert test_texts, "lint reports an empty test file before anything is fitted"
    began = time.perf_counter()
    if len(set(train_labels)) < 2:
        raise UserError("the training labels hold one class only, so there is nothing to tell apart")
    vectors = _vectoriser(len(train_texts))
    try:
        train = vectors.fit_transform(train_texts)
    except ValueError as error:  # scikit-learn's "empty vocabulary"
        raise UserError("the training texts hold no words, so TF-IDF has nothing to count") from error
    valid = vectors.transform(valid_texts)
    # Every candidate is fitted on train alone, so the winner is already "refitted on train only".
    candidates = [_fit(train, train_labels, c, seed) for c in C_GRID]
    scores = [_share_equal(model.predict(valid), valid_labels) for model in candidates]
    best = scores.index(max(scores))  # the first of equals: the smaller C is the simpler model
    model = candidates[best]
    test = vectors.transform(test_texts)
    return Yardstick(
        name="TF-IDF + logistic regression",
        c=C_GRID[best],
        valid_accuracy=scores[best],
        predictions=[str(label) for label in model.predict(test)],
        probabilities=model.predict_proba(test).tolist(),
        labels=[str(label) for label in model.classes_],
        seconds=time.perf_counter() - began,
    )


def majority(train_labels: Sequence[str], valid_labels: Sequence[str], test_texts: Sequence[str]) -> Yardstick:
    """Always answer train's commonest label; among equals the first in alphabetical order."""
    counts = Counter(train_labels)
    labels = sorted(counts)
    answer = max(labels, key=lambda label: counts[label])
    shares = [counts[label] / len(train_labels) for label in labels]
    return Yardstick(
        name="majority class",
        c=None,
        valid_accuracy=_share_equal([answer] * len(valid_labels), valid_labels),
        predictions=[answer] * len(test_texts),
        probabilities=[shares] * len(test_texts),
        labels=labels,
        seconds=0.0,
    )


def _vectoriser(texts: int) -> Any:
    try:
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.pipeline import FeatureUnion
    except ModuleNotFoundError as error:
        raise UserError(
            "the TF-IDF yardstick needs scikit-learn; install it with: pip install 'greffon[compare]'"
        ) from error
    min_df = 2 if texts >= _ENOUGH_TO_PRUNE else 1
    # "char_wb" keeps n-grams inside words: on French reviews as accurate as "char", and a third fewer.
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=min_df)
    characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True, min_df=min_df)
    return FeatureUnion([("words", words), ("characters", characters)])


def _fit(features: Any, labels: Sequence[str], c: float, seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=c, max_iter=1000, random_state=seed).fit(features, list(labels))


def _share_equal(predicted: Sequence[str], gold: Sequence[str]) -> float:
    pairs = list(zip(predicted, gold, strict=True))
    return sum(guess == truth for guess, truth in pairs) / len(pairs) if pairs else 0.0
