"""TF-IDF of words and characters with logistic regression, all choices made on the labels that it is fitted on.

With few labels there are no texts to spare for validation: C is chosen by cross-validation within them. scikit-learn is
imported when needed: it takes a second.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from greffon.core.errors import UserError
from greffon.data.splits import folds

Floats = npt.NDArray[np.float64]

STRENGTH = 30.0
"""Inverse regularisation strength C, unless another is clearly better in cross-validation."""
STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""The values of C that are tried."""
DENSE = 2000
"""Up to this many texts, a fit is made in their own span: the same solution in a fraction of the time."""
# From this many texts on, an n-gram seen once is dropped: as accurate, and half the time. With fewer
# labels the rare n-grams are all there is.
_ENOUGH_TO_PRUNE = 500
_TINY = 1e-12


@dataclass(frozen=True, eq=False)
class FittedTfidf:
    """A fit on some labelled texts, and what it says about them and about others."""

    strength: float
    """Inverse regularisation strength C."""
    held_out: Floats
    """Probability of each class for each labelled text, by a fit without it: (N, C); NaN where that is impossible."""
    test: Floats
    """Probability of each class for each other text: (M, C)."""


def fit_tfidf(features: Any, labels: Sequence[int], others: Any, *, classes: int, seed: int = 0) -> FittedTfidf:
    """Fit on the features of labelled texts, (N, F), and the class number of each; judge other texts, (M, F).

    C is 30, unless another has a lower log loss in cross-validation, by more than one standard error of the paired
    difference.
    """
    wanted = np.asarray(labels)
    fold = folds(wanted, _copies(features), seed)
    train, test = coordinates(features, others) if len(wanted) <= DENSE else (features, others)
    judged = {c: out_of_fold(train, wanted, fold, c, classes) for c in STRENGTHS}
    losses = {c: _losses(found, wanted) for c, found in judged.items()}
    strength = _chosen(losses)
    return FittedTfidf(strength, judged[strength], judge(train, wanted, test, strength, classes))


def tfidf_features(known: Sequence[str], texts: Sequence[str]) -> Any:
    """Return the sparse features of texts, (N, F); vocabulary and document frequencies come from the known ones.

    Labels are not needed for that, so all training texts are known, however few of them are labelled.
    """
    made = vectoriser(len(known))
    try:
        made.fit(known)
    except ValueError as error:  # scikit-learn's "empty vocabulary"
        raise UserError("the training texts hold no words, so TF-IDF has nothing to count") from error
    return made.transform(texts).tocsr()


def vectoriser(texts: int) -> Any:
    """Return scikit-learn's features of words 1-2 and characters 2-5, for a number of texts."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import FeatureUnion

    min_df = 2 if texts >= _ENOUGH_TO_PRUNE else 1
    # "char_wb" keeps n-grams inside words: on French reviews as accurate as "char", and a third fewer.
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=min_df)
    characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True, min_df=min_df)
    return FeatureUnion([("words", words), ("characters", characters)])


def coordinates(train: Any, test: Any) -> tuple[Floats, Floats]:
    """Return the coordinates of both in the span of the training texts: (N, K) and (M, K), K ≤ N.

    The weights of logistic regression lie in that span, so that a fit on any of the training texts is the same there.
    """
    values, vectors = np.linalg.eigh((train @ train.T).toarray())
    kept = values > 1e-10 * max(values.max(), _TINY)
    scale = np.sqrt(values[kept])
    return vectors[:, kept] * scale, (test @ train.T) @ (vectors[:, kept] / scale)


def _copies(features: Any) -> npt.NDArray[np.int64]:
    """Return a number for each text that texts with equal features share."""
    rows = [features[[i]] for i in range(features.shape[0])]
    known: dict[bytes, int] = {}
    return np.array([known.setdefault(row.indices.tobytes() + row.data.tobytes(), len(known)) for row in rows])


def out_of_fold(
    features: Any, labels: npt.NDArray[Any], fold: npt.NDArray[np.int64], strength: float, classes: int
) -> Floats:
    """Judge the texts of each fold by a fit on the others; NaN for texts of no fold."""
    out = np.full((len(labels), classes), np.nan)
    for number in range(int(fold.max()) + 1):
        held = fold == number
        out[held] = judge(features[~held], labels[~held], features[held], strength, classes)
    return out


def judge(train: Any, labels: npt.NDArray[Any], others: Any, strength: float, classes: int) -> Floats:
    """Fit on some texts and return the probabilities of others; a class without a text has none."""
    from sklearn.linear_model import LogisticRegression

    present = np.unique(labels)
    out = np.zeros((others.shape[0], classes))
    if len(present) == 1:
        out[:, present] = 1.0
        return out
    model = LogisticRegression(C=strength, max_iter=2000, tol=1e-6).fit(train, labels)
    out[:, present] = model.predict_proba(others)
    return out


def _losses(probabilities: Floats, labels: npt.NDArray[Any]) -> Floats:
    """Return the log loss of each text that was judged."""
    own = probabilities[np.arange(len(labels)), labels]
    losses: Floats = -np.log(np.maximum(own[~np.isnan(own)], _TINY))
    return losses


def _chosen(losses: dict[float, Floats]) -> float:
    """Choose the usual strength, unless the best is better by more than one standard error."""
    best = min(losses, key=lambda c: losses[c].mean() if len(losses[c]) else 0.0)
    gain = losses[STRENGTH] - losses[best]
    if len(gain) < 2 or gain.mean() <= gain.std(ddof=1) / np.sqrt(len(gain)):
        return STRENGTH
    return best
