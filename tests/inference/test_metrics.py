from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix, f1_score, precision_recall_fscore_support

from greffon.inference.metrics import (
    accuracy_interval,
    confusion,
    macro_f1,
    paired_difference,
    per_class,
    wilson_interval,
)


def draw(rng: np.random.Generator, seeds: int, texts: int, spread: float = 0.0) -> np.ndarray:
    """Correctness whose expectation over seeds and texts is 0.75 (`spread`: between seeds)."""
    hardness = rng.uniform(0.5, 1.0, texts)
    seed_effect = rng.normal(0, spread, (seeds, 1))
    return rng.random((seeds, texts)) < hardness + seed_effect


def test_interval_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(1)
    hits = 0
    for trial in range(300):
        low, high = accuracy_interval(draw(rng, 4, 250, spread=0.02), seed=trial, resamples=400)
        hits += low <= 0.75 <= high
    assert 0.92 <= hits / 300 <= 0.995


def test_interval_grows_with_the_disagreement_between_seeds():
    texts = np.arange(1000)
    agreeing = np.stack([texts < 800] * 3)
    disagreeing = np.stack([texts < 700, texts < 800, texts < 900])
    width_a, width_d = (np.diff(accuracy_interval(runs))[0] for runs in (agreeing, disagreeing))
    assert width_d > 2 * width_a


def test_interval_of_one_seed_agrees_with_wilson():
    correct = (np.arange(500) < 400)[None]
    assert accuracy_interval(correct) == pytest.approx(wilson_interval(400, 500), abs=0.006)


def test_pairing_makes_the_interval_of_a_difference_narrow():
    texts = np.arange(500)
    a, b = np.stack([texts < 300] * 3), np.stack([texts < 290] * 3)
    paired = paired_difference(a, b)
    rng = np.random.default_rng(0)
    unpaired = paired_difference(a, rng.permuted(b, axis=1))
    assert paired.mean == pytest.approx(0.02)
    assert np.diff(paired.interval)[0] < np.diff(unpaired.interval)[0] / 2


def test_difference_accepts_different_numbers_of_seeds_and_is_antisymmetric_in_the_mean():
    rng = np.random.default_rng(5)
    a, b = draw(rng, 3, 80), draw(rng, 1, 80)
    forth, back = paired_difference(a, b), paired_difference(b, a)
    assert forth.mean == pytest.approx(-back.mean)
    assert forth.interval == pytest.approx([-edge for edge in reversed(back.interval)], abs=0.03)


def exact_p(a: np.ndarray, b: np.ndarray) -> float:
    difference = a.mean(axis=0) - b.mean(axis=0)
    sums = [abs(np.dot(signs, difference)) for signs in product((-1, 1), repeat=len(difference))]
    return float(np.mean(np.array(sums) >= abs(difference.sum()) - 1e-9))


@pytest.mark.parametrize("trial", range(8))
def test_permutation_p_agrees_with_enumeration(trial):
    rng = np.random.default_rng(trial)
    a, b = rng.random((3, 10)) < 0.75, rng.random((2, 10)) < 0.5
    assert paired_difference(a, b, permutations=20_000).p == pytest.approx(exact_p(a, b), abs=0.015)


def test_permutation_p_is_uniform_under_the_null():
    rng = np.random.default_rng(7)
    ps = np.array(
        [
            paired_difference(draw(rng, 2, 300), draw(rng, 2, 300), seed=i, resamples=2, permutations=999).p
            for i in range(400)
        ]
    )
    # Different texts' hardness in the two draws is noise under the null, so p must be uniform.
    assert 0.02 <= (ps < 0.05).mean() <= 0.085
    assert 0.44 <= ps.mean() <= 0.56


def test_permutation_p_is_tiny_under_a_large_effect_and_one_without_any():
    texts = np.arange(400)
    a, b = (texts < 360)[None], (texts < 300)[None]
    assert paired_difference(a, b).p == pytest.approx(1 / 10_001)
    assert paired_difference(a, a).p == 1.0
    assert paired_difference(a, a).interval == (0.0, 0.0)


def test_same_seed_same_answer():
    rng = np.random.default_rng(2)
    a, b = draw(rng, 3, 100), draw(rng, 3, 100)
    np.random.seed(1)  # global state must not matter
    first = paired_difference(a, b, seed=4)
    np.random.seed(2)
    assert paired_difference(a, b, seed=4) == first
    assert paired_difference(a, b, seed=5) != first


def test_wilson_known_values():
    assert wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)  # Newcombe 1998
    assert wilson_interval(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert wilson_interval(20, 20)[1] == 1.0


labels = st.sampled_from(["a", "b", "c"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(labels, labels), min_size=1, max_size=40))
def test_class_figures_agree_with_scikit_learn(pairs):
    gold, predicted = (list(side) for side in zip(*pairs, strict=True))
    classes = ["a", "b", "c"]
    assert confusion(gold, predicted, classes) == confusion_matrix(gold, predicted, labels=classes).tolist()
    expected = f1_score(gold, predicted, labels=classes, average="macro", zero_division=0)
    assert macro_f1(gold, predicted, classes) == pytest.approx(expected)
    columns = precision_recall_fscore_support(gold, predicted, labels=classes, zero_division=0)
    for index, score in enumerate(per_class(gold, predicted, classes).values()):
        assert (score.precision, score.recall, score.f1, score.support) == pytest.approx(
            tuple(column[index] for column in columns)
        )


def test_wilson_interval_holds_the_share_itself() -> None:
    for n in range(1, 400):
        for correct in (0, n // 3, n - 1, n):
            low, high = wilson_interval(correct, n)
            assert 0 <= low <= correct / n <= high <= 1
