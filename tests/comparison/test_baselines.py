from dataclasses import replace

import numpy as np
import pytest

from greffon.comparison import baselines
from greffon.comparison.baselines import C_GRID, majority, tfidf
from greffon.comparison.tfidf import vectoriser
from greffon.core.errors import UserError


def reviews(n: int, seed: int, noise: float = 0.1) -> tuple[list[str], list[str]]:
    """Texts in which one word gives the label away, and `noise` of the labels are wrong."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(n):
        label = str(rng.choice(["bad", "good", "so-so"], p=[0.5, 0.3, 0.2]))
        cue = {"bad": "terrible", "good": "wonderful", "so-so": "ordinary"}[label]
        words = [*rng.choice(["book", "story", "page", "author", "plot"], 8), cue]
        texts.append(" ".join(rng.permutation(words)))
        labels.append(label if rng.random() > noise else "bad")
    return texts, labels


@pytest.fixture(scope="module")
def split():
    return reviews(150, 1), reviews(60, 2), reviews(100, 3)


def accuracy(predicted, gold):
    return np.mean([guess == truth for guess, truth in zip(predicted, gold, strict=True)])


def test_tfidf_learns_what_majority_cannot(split):
    (train, train_labels), (valid, valid_labels), (test, test_labels) = split
    fitted = tfidf(train, train_labels, valid, valid_labels, test)
    floor = majority(train_labels, valid_labels, test)
    assert accuracy(fitted.predictions, test_labels) >= 0.85
    assert accuracy(fitted.predictions, test_labels) > accuracy(floor.predictions, test_labels) + 0.2
    assert fitted.c in C_GRID
    assert fitted.valid_accuracy > floor.valid_accuracy


def test_probabilities_stand_in_the_order_of_the_labels(split):
    (train, train_labels), (valid, valid_labels), (test, _) = split
    fitted = tfidf(train, train_labels, valid, valid_labels, test)
    rows = np.array(fitted.probabilities)
    assert rows.shape == (100, 3)
    assert rows.sum(axis=1) == pytest.approx(1.0)
    assert [fitted.labels[index] for index in rows.argmax(axis=1)] == fitted.predictions


def test_tfidf_is_deterministic_and_never_learns_from_validation_or_test(split):
    (train, train_labels), (valid, valid_labels), (test, _) = split
    first = tfidf(train, train_labels, valid, valid_labels, test)
    again = tfidf(train, train_labels, valid, valid_labels, test)
    assert replace(first, seconds=0) == replace(again, seconds=0)
    # Other test texts beside them must not change the answers: the vocabulary is train's alone.
    half = tfidf(train, train_labels, valid, valid_labels, test[:10])
    assert half.probabilities == pytest.approx(np.array(first.probabilities[:10]), abs=1e-9)


def test_validation_chooses_c(monkeypatch):
    (train, train_labels), (valid, valid_labels) = reviews(60, 4, noise=0.3), reviews(40, 5)
    chosen = tfidf(train, train_labels, valid, valid_labels, ["book"])
    scores = {}
    for c in C_GRID:
        monkeypatch.setattr("greffon.comparison.baselines.C_GRID", (c,))
        scores[c] = tfidf(train, train_labels, valid, valid_labels, ["book"]).valid_accuracy
    assert len(set(scores.values())) > 1, "the data must make C matter"
    assert chosen.valid_accuracy == max(scores.values())
    assert chosen.c == max(scores, key=lambda c: scores[c])  # the smallest C of equals


def test_majority_takes_the_commonest_label_and_the_first_of_equals():
    assert majority(["b", "a", "b"], ["b", "a"], ["x"] * 3).predictions == ["b"] * 3
    tied = majority(["b", "a"], ["b"], ["x"])
    assert (tied.predictions, tied.valid_accuracy, tied.probabilities) == (["a"], 0.0, [[0.5, 0.5]])


def test_one_class_and_empty_texts_are_told_in_a_sentence():
    with pytest.raises(UserError, match="one class only"):
        tfidf(["x", "y"], ["a", "a"], ["x"], ["a"], ["x"])
    with pytest.raises(UserError, match="no words"):
        tfidf(["", " "], ["a", "b"], ["x"], ["a"], ["x"])


def test_features_are_words_with_their_neighbours_and_pieces_of_words():
    few, many = vectoriser(499), vectoriser(500)
    few.fit(["ab cd ef", "zz"])
    names = {name.partition("__")[2] for name in few.get_feature_names_out()}
    assert {"ab", "ab cd", "zz", " a", "ab ", " ab ", "zz "} <= names
    assert not {"ab cd ef", "a", "b c"} & names  # at most two words; pieces of two letters or more, of one word
    assert max(len(name) for name in few.fit(["abcdefgh"]).get_feature_names_out()[1:]) == len("characters__abcde")
    many.fit(["une fois", "deux fois"])  # with many texts, what one alone holds is dropped
    assert {name.partition("__")[2] for name in many.get_feature_names_out()} >= {"fois"}
    assert not any("une" in name for name in many.get_feature_names_out())
    (counts,) = few.fit(["mot", "autre"]).transform(["mot mot mot autre"]).toarray()
    shares = dict(zip(few.get_feature_names_out(), counts, strict=True))
    assert shares["words__mot"] / shares["words__autre"] == pytest.approx(1 + np.log(3))  # not three times as much


def test_the_majority_is_told_with_its_shares():
    found = majority(["b", "a", "b"], ["b", "a", "a"], ["x", "y"])
    assert (found.predictions, found.labels, found.seconds) == (["b", "b"], ["a", "b"], 0.0)
    assert found.probabilities == pytest.approx(np.array([[1 / 3, 2 / 3]] * 2))
    assert np.array(found.valid_probabilities) == pytest.approx(np.array([[1 / 3, 2 / 3]] * 3))
    assert found.valid_accuracy == pytest.approx(1 / 3)
    assert majority(["b"], [], ["x"]).valid_accuracy == 0.0


def test_answers_and_truth_are_paired_one_to_one():
    with pytest.raises(ValueError, match="zip"):
        baselines._share_equal(["a"], ["a", "b"])
