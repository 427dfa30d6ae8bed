"""The measures of each task, against scikit-learn, SciPy and seqeval."""

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from seqeval.metrics import classification_report, f1_score
from sklearn.calibration import calibration_curve

from greffon.core.recipe import Data, Recipe
from greffon.core.shape import Shape
from greffon.core.training import Training
from greffon.data.corpora import Labelled
from greffon.data.tasks.tokens import spans_of_tags, spelling
from greffon.inference.calibration import calibration_error, reliability
from greffon.inference.measures import MEASURES
from greffon.inference.tasks.base import ratio_interval
from greffon.inference.tasks.classes import MOST_DECISIONS, best_temperature
from greffon.inference.tasks.multilabel import best_thresholds, micro_f1
from greffon.runs.folding import TEMPERATURE, THRESHOLD

RANDOM = np.random.default_rng(0)


def recipe(task: str, labels: tuple[str, ...], scale: tuple[float, ...] = ()) -> Recipe:
    return Recipe("classify", "compact", Shape(), Training(), Data(task=task), 300, labels=labels, score_scale=scale)


def test_several_labels_are_scored_as_by_scikit_learn() -> None:
    labels = ("a", "b", "c")
    gold, probabilities = RANDOM.random((80, 3)) < [0.5, 0.2, 0.05], RANDOM.random((80, 3))
    examples = [Labelled(f"text {i}", "|".join(np.array(labels)[row]), i) for i, row in enumerate(gold)]
    measure, asked = MEASURES["multilabel"], recipe("multilabel", labels)
    chosen = {THRESHOLD + "a": 0.4, THRESHOLD + "b": 0.7}  # and one half where none was chosen
    given = probabilities >= [0.4, 0.7, 0.5]
    scores = measure.scores(asked, chosen, examples, list(probabilities))
    assert scores.micro_f1 == pytest.approx(sklearn.metrics.f1_score(gold, given, average="micro"))
    assert scores.macro_f1 == pytest.approx(sklearn.metrics.f1_score(gold, given, average="macro", zero_division=0))
    assert scores.average_precision == pytest.approx(sklearn.metrics.average_precision_score(gold, probabilities))
    assert [found.support for found in scores.by_label.values()] == gold.sum(axis=0).tolist()
    bins = [(each.right, each.probability) for each in scores.reliability]
    known = calibration_curve(gold.ravel(), probabilities.ravel(), n_bins=10)
    assert pytest.approx(np.array(known)) == np.array(bins).T
    held = measure.held_out(asked, examples, list(probabilities))
    losses = [sklearn.metrics.log_loss(gold[:, i], probabilities[:, i]) for i in range(3)]
    assert held["loss"] == pytest.approx(np.mean(losses))


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 6)), min_size=1, max_size=25))
def test_no_threshold_is_better_than_the_chosen_one(texts: list[tuple[bool, int]]) -> None:
    gold = np.array([[bit] for bit, _ in texts])
    probabilities = np.array([[value / 6] for _, value in texts])
    (chosen,) = best_thresholds(gold, probabilities)
    every = [micro_f1(gold, probabilities >= threshold) for threshold in np.linspace(0.01, 1.01, 51)]
    assert micro_f1(gold, probabilities >= chosen) >= max(every) - 1e-12


def test_scores_are_scored_as_by_scipy() -> None:
    gold = RANDOM.normal(5, 2, 60)
    found = gold + RANDOM.normal(0, 1, 60)
    examples = [Labelled("", str(score), 0, score=score) for score in gold]
    rows = [np.array([score]) for score in found]
    scores = MEASURES["regression"].scores(recipe("regression", (), (5.0, 2.0)), {}, examples, rows)
    assert scores.mae == pytest.approx(sklearn.metrics.mean_absolute_error(gold, found))
    assert scores.rmse == pytest.approx(sklearn.metrics.root_mean_squared_error(gold, found))
    assert scores.pearson == pytest.approx(stats.pearsonr(gold, found).statistic)
    assert scores.spearman == pytest.approx(stats.spearmanr(gold, found).statistic)
    held = MEASURES["regression"].held_out(recipe("regression", (), (5.0, 2.0)), examples, rows)
    assert held["loss"] == pytest.approx(scores.rmse**2 / 4)
    constant = MEASURES["regression"].scores(recipe("regression", ()), {}, examples, [np.array([1.0])] * 60)
    assert (constant.pearson, constant.spearman) == (0.0, 0.0)


TAGS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")


@given(st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=7), min_size=1))
def test_spans_are_scored_as_by_seqeval(sentences: list[list[tuple[int, int]]]) -> None:
    gold = [[TAGS[a] for a, _ in sentence] for sentence in sentences]
    found = [[TAGS[b] for _, b in sentence] for sentence in sentences]
    examples = []
    for i, tags in enumerate(gold):
        words = [(2 * j, 2 * j + 1) for j in range(len(tags))]
        examples.append(Labelled(" ".join("x" * len(tags)), spelling(spans_of_tags(words, tags)), i))
    rows = [np.eye(5)[[TAGS.index(tag) for tag in tags]] for tags in found]
    scores = MEASURES["tokens"].scores(recipe("tokens", TAGS), {}, examples, rows)
    assert scores.span_f1 == pytest.approx(f1_score(gold, found, zero_division=0))
    assert MEASURES["tokens"].held_out(recipe("tokens", TAGS), examples, rows)["span_f1"] == scores.span_f1
    if scores.by_label:
        report = classification_report(gold, found, output_dict=True, zero_division=0)
        for label, one in scores.by_label.items():
            theirs = report[label]
            assert (one.precision, one.recall, one.f1) == pytest.approx(
                (theirs["precision"], theirs["recall"], theirs["f1-score"])
            )
            assert one.support == theirs["support"]


def test_an_interval_of_a_ratio_covers_it_and_narrows_with_more_texts() -> None:
    errors = RANDOM.exponential(1, 400)
    (low, high), (lower, higher) = ratio_interval(errors, np.ones(400)), ratio_interval(errors[:40], np.ones(40))
    assert low < errors.mean() < high
    assert high - low < higher - lower
    # The normal's interval, for the mean of many.
    half = 1.96 * errors.std() / np.sqrt(400)
    assert (low, high) == pytest.approx((errors.mean() - half, errors.mean() + half), abs=0.03)


def test_a_temperature_that_was_applied_is_found_again() -> None:
    logits = RANDOM.normal(0, 2, (4000, 3))
    exact = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    gold = np.array([RANDOM.choice(3, p=row) for row in exact])
    sharp = exact**2 / (exact**2).sum(axis=1, keepdims=True)  # logits times two: too sure of itself
    assert best_temperature(sharp, gold) == pytest.approx(2, rel=0.1)
    assert best_temperature(exact, gold) == pytest.approx(1, rel=0.1)
    right = (sharp.argmax(axis=1) == gold).tolist()
    error = calibration_error(reliability(sharp.max(axis=1), right))
    assert error > 3 * calibration_error(reliability(exact.max(axis=1), right))


def test_probabilities_of_labels_are_calibrated_and_the_thresholds_with_them() -> None:
    labels = ("a", "b", "c")
    logits = RANDOM.normal(-0.5, 1.5, (3000, 3))
    gold = RANDOM.random((3000, 3)) < 1 / (1 + np.exp(-logits))
    examples = [Labelled(f"text {i}", "|".join(np.array(labels)[row]), i) for i, row in enumerate(gold)]
    sharp = list(1 / (1 + np.exp(-2 * logits)))  # too sure of itself
    measure, asked = MEASURES["multilabel"], recipe("multilabel", labels)
    held = measure.held_out(asked, examples, sharp)
    assert held[TEMPERATURE] == pytest.approx(2, rel=0.1)
    calm = measure.calibrated(held, sharp)
    assert np.stack(calm) == pytest.approx(1 / (1 + np.exp(-2 * logits / held[TEMPERATURE])), abs=1e-6)
    before, after = (measure.scores(asked, held, examples, outputs) for outputs in (sharp, calm))
    assert after.expected_calibration_error < before.expected_calibration_error / 3
    assert after.micro_f1 == pytest.approx(held["micro_f1"])  # the thresholds are those of calibrated probabilities
    plain = best_thresholds(gold, np.stack(sharp))
    assert after.micro_f1 == pytest.approx(micro_f1(gold, np.stack(sharp) >= plain))
    fitted_on_training = {**held, "cross_validated": 0}
    assert {
        found.threshold for found in measure.scores(asked, fitted_on_training, examples, sharp).by_label.values()
    } == {0.5}


def test_probabilities_of_spans_are_calibrated() -> None:
    tags = ("O", "B-X", "B-Y")
    measure, asked = MEASURES["tokens"], recipe("tokens", tags)
    examples, sharp = [], []
    for i in range(400):
        logits = RANDOM.normal(0, 1.5, (6, 3))
        exact = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        drawn = [tags[RANDOM.choice(3, p=row)] for row in exact]
        words = [(2 * j, 2 * j + 1) for j in range(6)]
        examples.append(Labelled("x x x x x x", spelling(spans_of_tags(words, drawn)), i))
        sharp.append(exact**2 / (exact**2).sum(axis=1, keepdims=True))
    held = measure.held_out(asked, examples, sharp)
    assert held[TEMPERATURE] == pytest.approx(2, rel=0.15)
    before, after = (measure.scores(asked, held, examples, rows) for rows in (sharp, measure.calibrated(held, sharp)))
    assert after.span_f1 == before.span_f1
    assert after.expected_calibration_error < before.expected_calibration_error
    assert sum(each.share * each.right for each in after.reliability) == pytest.approx(after.precision)


def test_of_very_many_decisions_some_say_the_temperature() -> None:
    logits = RANDOM.normal(0, 2, MOST_DECISIONS + 50_001)
    gold = (RANDOM.random(len(logits)) < 1 / (1 + np.exp(-logits / 2))).astype(int)
    p = 1 / (1 + np.exp(-logits))
    assert best_temperature(np.stack((1 - p, p), axis=1), gold) == pytest.approx(2, rel=0.06)


def test_bins_of_classes_are_those_of_scikit_learn() -> None:
    rows = RANDOM.dirichlet([1, 1, 1], 300)
    gold = [("a", "b", "c")[i] for i in RANDOM.integers(0, 3, 300)]
    examples = [Labelled(f"text {i}", label, i) for i, label in enumerate(gold)]
    scores = MEASURES["classes"].scores(recipe("classes", ("a", "b", "c")), {}, examples, list(rows))
    right = [("a", "b", "c")[i] == label for i, label in zip(rows.argmax(axis=1), gold, strict=True)]
    known = calibration_curve(right, rows.max(axis=1), n_bins=10)
    assert pytest.approx(np.array(known)) == np.array([(each.right, each.probability) for each in scores.reliability]).T
    counts, _ = np.histogram(rows.max(axis=1), bins=10, range=(0, 1))
    assert [each.share for each in scores.reliability] == pytest.approx(counts[counts > 0] / 300)


def test_few_texts_that_are_all_right_do_not_ask_for_certainty() -> None:
    probabilities = np.array([[0.8, 0.2], [0.7, 0.3], [0.2, 0.8]])
    assert best_temperature(probabilities, np.array([0, 0, 1])) > 0.5


def test_an_answer_that_is_certain_is_in_the_last_bin() -> None:
    (last,) = reliability([1.0, 0.95], [True, False])
    assert (last.probability, last.right, last.share) == (0.975, 0.5, 1.0)
