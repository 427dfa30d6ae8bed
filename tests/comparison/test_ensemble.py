import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import LABELS, simulated
from sklearn.linear_model import LogisticRegression

from greffon.comparison.ensemble import MAX_WEIGHT, fit_ensemble, fit_weights, no_worse_than_a_member


def answers(rng, gold, classes, knowledge):
    """Probabilities that know something of the true labels."""
    logits = rng.normal(size=(len(gold), classes))
    logits[np.arange(len(gold)), gold] += knowledge
    return (np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)).tolist()


def loss(answers, weights, gold):
    logits = sum(w * np.log(np.array(a)) for w, a in zip(weights, answers, strict=True))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return -np.log(probabilities[np.arange(len(gold)), gold]).mean()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 5), st.floats(0, 3), st.floats(0, 3))
def test_no_worse_on_validation_than_either_alone(seed, classes, one, other):
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, classes, 60)
    valid = (answers(rng, gold, classes, one), answers(rng, gold, classes, other))
    labels = [str(i) for i in range(classes)]
    found = fit_ensemble(labels, valid, [str(i) for i in gold], valid)
    assert all(0 <= weight <= MAX_WEIGHT for weight in found.weights)
    alone = [np.mean(np.argmax(member, axis=1) == gold) for member in valid]
    assert found.valid_accuracy >= max(alone)
    # On the same texts it answers the same.
    assert found.valid_accuracy == pytest.approx(
        np.mean([int(label) == i for label, i in zip(found.predictions, gold, strict=True)])
    )


def logs(answers):
    return np.log(np.array(answers))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 5))
def test_without_shrinkage_the_loss_is_the_lowest(seed, classes):
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, classes, 60)
    valid = (answers(rng, gold, classes, 2.0), answers(rng, gold, classes, 1.0))
    reached = loss(valid, fit_weights(logs(valid), gold, shrinkage=0.0), gold)
    assert all(reached <= loss(valid, alone, gold) + 1e-6 for alone in ((1, 0), (0, 1), (0.5, 0.5), (1, 1)))


def test_few_texts_leave_the_plain_sum():
    rng = np.random.default_rng(1)
    gold = rng.integers(0, 2, 400)
    valid = logs((answers(rng, gold, 2, 2.0), answers(rng, gold, 2, 0.0)))
    found = [fit_weights(valid[:, :texts], gold[:texts]) for texts in (4, 40, 400)]
    far = [np.abs(weights - 1).max() for weights in found]
    assert far[0] < far[1] < far[2]
    assert found[2][1] < 0.35 < 1 < found[2][0], "one member knows nothing"


def test_of_the_mixtures_that_are_no_worse_than_a_member_the_nearest_is_taken():
    # Three texts of class 1: two are right with a body's share above a half, the third with one below 0.8.
    first, third = ([-3.0, -1.0], [-1.0, -3.0]), ([-1.0, -2.0], [-5.0, -1.0])
    known = np.array([[first[0], first[0], third[0]], [first[1], first[1], third[1]]])
    wanted = np.array([1, 1, 1])
    assert no_worse_than_a_member(np.array([1.7, 0.3]), known, wanted).tolist() == [1.7, 0.3], "as good as the body"
    nearest = no_worse_than_a_member(np.array([0.4, 1.6]), known, wanted)
    assert nearest.sum() == pytest.approx(2.0)
    assert nearest[0] / 2 == pytest.approx(0.525), "the first of the shares above a half"


def test_two_classes_are_weighed_as_logistic_regression_weighs_them():
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 400)
    valid = (answers(rng, gold, 2, 1.0), answers(rng, gold, 2, 0.7))
    margins = np.stack([np.log(np.array(each)) @ [-1, 1] for each in valid], axis=1)
    oracle = LogisticRegression(C=1e6, fit_intercept=False, tol=1e-8).fit(margins, gold)
    test = (answers(rng, gold, 2, 1.0), answers(rng, gold, 2, 0.7))
    weights = fit_weights(logs(valid), gold, shrinkage=0.0)
    assert weights == pytest.approx(oracle.coef_[0], rel=1e-3)
    there = np.stack([np.log(np.array(each)) @ [-1, 1] for each in test], axis=1)
    mixed = np.tensordot(weights, logs(test), axes=1)
    assert mixed.argmax(axis=1).tolist() == oracle.predict(there).tolist()
    odds = np.exp(mixed) / np.exp(mixed).sum(axis=1, keepdims=True)
    assert odds == pytest.approx(oracle.predict_proba(there), rel=1e-3)


def test_without_a_text_to_fit_on_it_is_the_plain_sum():
    found = fit_ensemble(LABELS, ([], []), [], ([[0.9, 0.1]], [[0.4, 0.6]]))
    assert (found.weights, found.predictions) == ((1.0, 1.0), ["negative"])
    assert found.probabilities == pytest.approx([0.36 / 0.42])


def test_certainty_is_no_division_by_zero():
    sure = [[1.0, 0.0], [0.0, 1.0]]
    found = fit_ensemble(LABELS, (sure, sure), LABELS, (sure, sure))
    assert found.predictions == list(LABELS)
    assert np.isfinite(found.weights).all()


def test_a_class_that_was_never_learnt_weighs_for_nobody_and_is_never_right():
    one, other = [[0.9, 0.1], [0.2, 0.8]], [[0.4, 0.6], [0.6, 0.4]]
    without = fit_ensemble(LABELS, (one, other), LABELS, (one, other))
    with_it = fit_ensemble(LABELS, ([*one, [0.5, 0.5]], [*other, [0.9, 0.1]]), [*LABELS, "mixed"], (one, other))
    assert with_it.weights == without.weights
    assert (without.valid_accuracy, with_it.valid_accuracy) == (1.0, pytest.approx(2 / 3))


def test_results_hold_the_arm_with_its_weights_and_its_differences():
    results = simulated(tfidf=0.8, ensembles={"pretrained": 0.95})
    arm = results.arms["ensemble"]
    assert (arm.kind, arm.body) == ("ensemble", "pretrained")
    assert arm.test_accuracy.by_seed == pytest.approx([0.95] * 3)
    assert arm.weights == ((0.5, 1.5),) * 3
    assert (arm.curve, arm.chosen_epoch, arm.seconds, arm.parameters) == ((), (), (), None)
    assert {m.predicted for m in arm.mistakes} <= set(LABELS)
    ends = results.differences[-2:]
    assert [(e.a, e.b) for e in ends] == [("ensemble", name) for name in ("tfidf", "pretrained")]
    assert [e.mean for e in ends] == pytest.approx([0.15, 0.05])
