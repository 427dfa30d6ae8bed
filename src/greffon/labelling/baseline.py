"""TF-IDF on the labels of a session: what the body has to be better than."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from greffon.comparison.tfidf import STRENGTH, vectoriser
from greffon.core.rng import generator
from greffon.labelling.heap import Heap

_SAMPLE = 2000
"""Texts of the heap that tell the words and how frequent they are, at most."""


class Baseline:
    """Words and characters of the heap's texts with logistic regression, as in `greffon compare`.

    What words there are, and how frequent they are, is known without labels, as the vectors of the body are.
    """

    def __init__(self, heap: Heap) -> None:
        self.heap = heap

    @cached_property
    def _features(self) -> Any:
        drawn = np.sort(generator(self.heap.seed, "words").permutation(len(self.heap))[:_SAMPLE])
        return vectoriser(len(drawn)).fit([self.heap.texts[text] for text in drawn])

    def predictions(self, texts: Sequence[int], labels: Sequence[str], judged: Sequence[int]) -> list[str]:
        """Fit labelled texts, given by their indices, and label others; two classes at least."""
        from sklearn.linear_model import LogisticRegression

        train, others = (self._features.transform([self.heap.texts[text] for text in some]) for some in (texts, judged))
        model = LogisticRegression(C=STRENGTH, max_iter=1000).fit(train, list(labels))
        return [str(label) for label in model.predict(others)]
