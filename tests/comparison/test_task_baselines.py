"""The classical baselines of each task learn what can be learned, and are scored like a head."""

import numpy as np
import pytest

from greffon.comparison.task_baselines import fit_baseline, shapes
from greffon.core.recipe import Data, Recipe
from greffon.core.rng import generator
from greffon.core.shape import Shape
from greffon.core.training import Training
from greffon.data.corpora import Labelled
from greffon.data.tasks import FORMS
from greffon.data.tasks.tokens import Span, spelling
from greffon.inference.measures import MEASURES

WORDS = ["chat", "chien", "vache", "mange", "dort", "court"]


def texts(count: int, name: str) -> list[list[str]]:
    random = generator(0, name)
    return [[WORDS[i] for i in random.integers(0, 6, random.integers(2, 6))] for _ in range(count)]


def multilabel(words: list[str], i: int) -> Labelled:
    return Labelled(" ".join(words), "|".join(sorted({*words} & {"chat", "vache"})), i)


def regression(words: list[str], i: int) -> Labelled:
    score = float(words.count("chat") - words.count("dort"))
    return Labelled(" ".join(words), repr(score), i, score=score)


def classes(words: list[str], i: int) -> Labelled:
    same = i % 2 == 0
    return Labelled(" ".join(words), "same" if same else "other", i, " ".join(words if same else WORDS[i % 6 :: 2]))


def tokens(words: list[str], i: int) -> Labelled:
    spans, end = [], 0
    for word in words:
        if word == "chat":
            spans.append(Span(end, end + 4, "PET"))
        end += len(word) + 1
    return Labelled(" ".join(words), spelling(spans), i)


@pytest.mark.parametrize(
    ("answer", "make", "least"),
    [
        ("multilabel", multilabel, 0.9),
        ("regression", regression, -0.5),
        ("classes", classes, 0.8),
        ("tokens", tokens, 0.95),
    ],
)
def test_each_baseline_learns(answer: str, make, least: float) -> None:
    train, valid, test = ([make(words, i) for i, words in enumerate(texts(80, name))] for name in ("a", "b", "c"))
    labels, measure = FORMS[answer].labels(train), MEASURES[answer]
    recipe = Recipe("classify", "compact", Shape(), Training(), Data(task=answer), 300, labels=labels)

    def score(examples, outputs) -> float:
        return measure.key(measure.held_out(recipe, examples, outputs))[0]

    fit = fit_baseline(answer, labels, train, valid, score)
    outputs = fit.outputs(test)
    assert score(test, outputs) > least
    assert [np.shape(row)[-1] for row in outputs] == [max(1, len(labels))] * len(test)


def test_the_features_of_a_word_know_its_neighbours() -> None:
    first, second = shapes("Anna 1984")
    assert "shape=Xx" in first
    assert "+1:shape=9" in first
    assert "-1:word=anna" in second
    assert shapes("") == []
