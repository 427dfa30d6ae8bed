"""TF-IDF on the labels of a session: what the body has to be better than."""

from collections.abc import Sequence

STRENGTH = 10.0
"""Inverse regularisation strength C."""


def tfidf_predictions(texts: Sequence[str], labels: Sequence[str], judged: Sequence[str]) -> list[str]:
    """Fit words and characters with logistic regression, and label other texts; two classes at least."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import FeatureUnion, make_pipeline

    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    characters = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), sublinear_tf=True)
    model = make_pipeline(
        FeatureUnion([("words", words), ("characters", characters)]), LogisticRegression(C=STRENGTH, max_iter=1000)
    )
    return [str(label) for label in model.fit(list(texts), list(labels)).predict(list(judged))]
