"""The probe against scikit-learn and PyTorch, and its folds."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from greffon.core.errors import UserError
from greffon.inference.probe import STRENGTH, STRENGTHS, ProbeForm, copies, fit_probe, folds, normalised, out_of_fold


def texts(
    classes: int = 3, each: int = 20, width: int = 8, noise: float = 1.0, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Vectors around one centre for each class, far from the origin."""
    random = np.random.default_rng(seed)
    centers = random.normal(size=(classes, width))
    labels = np.repeat(np.arange(classes), each)
    return centers[labels] + noise * random.normal(size=(len(labels), width)) + 5.0, labels


def test_normalised_is_layer_norm() -> None:
    vectors, _ = texts()
    center = vectors.mean(axis=0)
    expected = F.layer_norm(torch.from_numpy(vectors - center), (8,), eps=1e-5)
    assert np.allclose(normalised(vectors, center), expected.numpy(), atol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
def test_probe_is_logistic_regression_on_vectors_of_length_one(classes: int) -> None:
    vectors, labels = texts(classes)
    probe = fit_probe(vectors, labels, strengths=(2.0,))
    moved = vectors - vectors.mean(axis=0)
    moved -= moved.mean(axis=1, keepdims=True)
    unit = moved / np.linalg.norm(moved, axis=1, keepdims=True)
    expected = LogisticRegression(C=2.0, max_iter=1000).fit(unit, labels).predict_proba(unit)
    assert np.allclose(probe.probabilities(vectors), expected, atol=1e-4)
    assert probe.strength == 2.0


def unit_of(vectors: np.ndarray) -> np.ndarray:
    moved = vectors - vectors.mean(axis=0)
    moved -= moved.mean(axis=1, keepdims=True)
    return moved / np.linalg.norm(moved, axis=1, keepdims=True)


def test_a_probe_of_labels_is_logistic_regression_for_each() -> None:
    vectors, classes = texts()
    bits = np.stack((classes == 0, classes > 0, np.ones(60), np.zeros(60)), axis=1).astype(float)
    form = ProbeForm(link="sigmoid", class_weights=(3.0, 1.0, 1.0, 1.0))
    found = fit_probe(vectors, bits, form, strengths=(2.0,)).probabilities(vectors)
    unit = unit_of(vectors)
    for i, weight in ((0, {0: 1, 1: 3}), (1, None)):
        one = LogisticRegression(C=2.0, max_iter=1000, class_weight=weight).fit(unit, bits[:, i])
        assert np.allclose(found[:, i], one.predict_proba(unit)[:, 1], atol=1e-4)
    assert (found[:, 2] > 0.999).all()
    assert (found[:, 3] < 0.001).all()


def test_center_of_the_body_is_used() -> None:
    vectors, labels = texts()
    probe = fit_probe(vectors, labels, ProbeForm(center=np.full(8, 4.0)), strengths=(STRENGTH,))
    assert np.array_equal(probe.center, np.full(8, 4.0))
    assert not np.allclose(
        probe.probabilities(vectors), fit_probe(vectors, labels, strengths=(STRENGTH,)).probabilities(vectors)
    )


def test_strength_stays_unless_another_is_clearly_better() -> None:
    few = texts(2, each=4)  # too few to tell
    assert fit_probe(*few).strength == STRENGTH
    easy = texts(2, each=400, noise=0.05)  # without noise, the larger weights are better, and clearly so
    assert fit_probe(*easy).strength > STRENGTH
    random = np.random.default_rng(1)
    hopeless = random.normal(size=(200, 64)), random.integers(0, 2, 200)
    assert fit_probe(*hopeless).strength < STRENGTH


def test_strength_is_chosen_on_validation() -> None:
    vectors, labels = texts(2, each=30, noise=0.1)
    held, truth = texts(2, each=200, noise=0.1, seed=0)
    assert fit_probe(vectors, labels, valid=(held, truth)).strength > STRENGTH
    assert fit_probe(vectors, labels, valid=(held, 1 - truth)).strength == min(STRENGTHS)


def test_out_of_fold_is_judged_by_probes_that_have_not_seen_the_text() -> None:
    vectors, labels = texts(3, each=6)
    found = out_of_fold(vectors, labels)
    fold = folds(labels, copies(vectors))
    for number in range(5):
        held = fold == number
        probe = fit_probe(vectors[~held], labels[~held], strengths=(STRENGTH,))
        assert np.allclose(found[held], probe.probabilities(vectors[held]))
    assert np.allclose(found.sum(axis=1), 1)


def test_out_of_fold_is_honest_about_labels_without_meaning() -> None:
    random = np.random.default_rng(0)
    vectors, labels = random.normal(size=(60, 200)), random.permutation(np.repeat([0, 1], 30))
    probe = fit_probe(vectors, labels, strengths=(STRENGTH,))
    assert (probe.probabilities(vectors).argmax(axis=1) == labels).all()  # it knows its own texts by heart
    assert log_loss(labels, out_of_fold(vectors, labels)) > 0.6


def test_a_class_of_one_text_is_never_judged() -> None:
    vectors, labels = texts(3, each=5)
    keep = np.r_[0:11]  # one text of the last class
    found = out_of_fold(vectors[keep], labels[keep])
    assert np.isnan(found[10]).all()
    assert not np.isnan(found[:10]).any()
    assert fit_probe(vectors[keep], labels[keep]).probabilities(vectors).shape == (15, 3)


def test_classes_that_are_missing_get_no_probability() -> None:
    vectors, labels = texts(2, each=5)
    found = fit_probe(vectors, labels, ProbeForm(4)).probabilities(vectors)
    assert found.shape == (10, 4)
    assert found[:, 2:].max() < 1e-9


def test_impossible_tasks_are_refused() -> None:
    vectors, labels = texts(2, each=5)
    with pytest.raises(UserError, match="one label"):
        fit_probe(vectors[:5], labels[:5])
    with pytest.raises(UserError, match="same vector"):
        fit_probe(np.ones((10, 8)), labels)


@given(st.lists(st.integers(0, 4), min_size=2, max_size=60), st.integers(2, 6), st.integers(0, 3), st.data())
def test_every_class_is_in_training_for_every_fold(
    labels: list[int], count: int, seed: int, data: st.DataObject
) -> None:
    groups = data.draw(st.lists(st.integers(0, 30), min_size=len(labels), max_size=len(labels)))
    fold = folds(labels, groups, seed, count)
    wanted, own = np.array(labels), np.array(groups)
    for group in np.unique(own):
        assert len(np.unique(fold[own == group])) == 1
    sizes = np.bincount(folds(labels, None, seed, count) + 1, minlength=count + 1)[1:]
    assert sizes.max() - sizes.min() <= 1
    alone = folds(labels, None, seed, count)
    for label in np.unique(wanted):
        held = alone[wanted == label]
        assert (held == -1).all() == (len(held) == 1)
        assert len(held) == 1 or all((held != number).any() for number in range(count))


def test_a_class_that_weighs_twice_is_as_if_its_texts_stood_twice() -> None:
    vectors, labels = texts(2, noise=3.0)
    center = np.zeros(8)
    weighed = fit_probe(vectors, labels, ProbeForm(center=center, class_weights=(1.0, 2.0)), strengths=(STRENGTH,))
    twice = np.concatenate((np.arange(len(labels)), np.flatnonzero(labels == 1)))
    repeated = fit_probe(vectors[twice], labels[twice], ProbeForm(center=center), strengths=(STRENGTH,))
    assert np.allclose(weighed.probabilities(vectors), repeated.probabilities(vectors), atol=1e-4)
