"""TF-IDF on the labels of a session: what the body has to be better than."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from greffon.comparison.task_baselines import Matrix, features_of
from greffon.comparison.tfidf import DENSE, STRENGTH, coordinates, judge, out_of_fold
from greffon.core.rng import generator
from greffon.data.corpora import Labelled
from greffon.data.splits import folds
from greffon.labelling.answers import Floats, OneClass
from greffon.labelling.fit import few_labels
from greffon.labelling.heap import Heap

_SAMPLE = 2000
"""Texts of the heap that tell the words and how frequent they are, at most."""


class Baseline:
    """Words and characters of the heap's texts with logistic regression, as in `greffon compare`.

    What words there are, and how frequent they are, is known without labels, as the vectors of the body are.
    """

    def __init__(self, heap: Heap, answers: OneClass) -> None:
        self.heap, self.answers = heap, answers

    @cached_property
    def _features(self) -> Callable[[Sequence[Labelled]], Matrix]:
        drawn = np.sort(generator(self.heap.seed, "words").permutation(len(self.heap))[:_SAMPLE])
        return features_of([self.heap.example(text) for text in drawn])

    def predictions(self, labelled: Mapping[int, str], judged: Sequence[int]) -> list[str]:
        """Fit labelled texts, and label others; two labels at least."""
        train, others = (
            self._features([self.heap.example(text) for text in some]) for some in (list(labelled), judged)
        )
        if len(labelled) <= DENSE:
            train, others = coordinates(train, others)
        questions = self.answers.questions(list(labelled.values()))
        copies = self.heap.groups[np.array(list(labelled))]

        def held_out() -> Floats:
            fold = [folds(numbers, copies) for numbers, _ in questions]
            pairs = zip(questions, fold, strict=True)
            return self.answers.joined([out_of_fold(train, own, fold, STRENGTH, count) for (own, count), fold in pairs])

        with few_labels():
            found = [judge(train, numbers, others, STRENGTH, count) for numbers, count in questions]
            thresholds = self.answers.thresholds(list(labelled.values()), held_out)
        return self.answers.given(self.answers.joined(found), thresholds)
