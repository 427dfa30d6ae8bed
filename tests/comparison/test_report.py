from dataclasses import replace

import pytest
from simulated import simulated, with_arm
from test_html import parse

from greffon.comparison.report import report
from greffon.comparison.results import TimeToScratch
from greffon.comparison.verdict import verdict
from greffon.data.lint import Finding

EVIL = "<script>alert('x')</script> & more"


@pytest.fixture(scope="module")
def results():
    findings = (Finding("warning", "shared-text", "2 of the 200 texts <b>are</b> shared."),)
    texts = [f"{EVIL} {index} " + "long " * 100 for index in range(200)]
    return simulated(overlap=frozenset({0, 199}), texts=texts, findings=findings, files={"train": "a&b.csv"})


@pytest.fixture(scope="module")
def markup(results):
    return report(results)


@pytest.fixture(scope="module")
def words(markup):
    return " ".join(" ".join(parse(markup).words).split())


def test_everything_is_inside_the_page(markup):
    for outside in ("http:", "https:", "//cdn", "<link", "@import", "url("):
        assert outside not in markup
    assert "prefers-color-scheme: dark" in markup
    assert 'name="viewport"' in markup
    assert markup.count("data:image/png;base64,") == 12  # three figures: wide and narrow, light and dark


def test_texts_are_escaped_and_cut(markup, words):
    assert "<script" not in markup
    assert "<b>are" not in markup
    assert "<script>alert('x')</script> & more" in words
    assert "a&b.csv" in words
    assert "long " * 80 not in words


def test_verdict_comes_first(results, words):
    assert results.verdict == verdict(results)
    for sentence in results.verdict.split(". ")[:2]:
        assert sentence in words
    assert words.index("Pretraining helped") < words.index("The arms")


def test_every_arm_with_its_numbers(results, words):
    for arm in results.arms.values():
        low, high = arm.test_accuracy.interval
        assert f"{100 * arm.test_accuracy.mean:.1f} %" in words
        assert f"{100 * low:.1f} to {100 * high:.1f}" in words
        assert f"{arm.macro_f1:.3f}" in words
        assert f"{100 * arm.without_overlap:.1f} %" in words
    assert "988,402" in words
    assert "6, 6, 6" in words
    assert "13.5 s" in words


def test_differences_time_to_scratch_classes_and_mistakes(results, words):
    for entry in results.differences:
        assert f"+{100 * entry.mean:.1f} points" in words
    assert "0.0001" in words
    assert "Scratch's best mean validation accuracy: scratch 79.0 %" in words
    for score in results.arms["pretrained"].per_class.values():
        assert f"{score.precision:.3f} {score.recall:.3f} {score.f1:.3f} {score.support}" in words
    for row in results.arms["pretrained"].confusion:
        assert " ".join(str(count) for count in row) in words
    mistake = results.arms["pretrained"].mistakes[0]
    assert f"predicted {mistake.predicted} ({100 * mistake.probability:.1f} %" in words


def test_data_and_method(words):
    assert "1,280 train, 320 valid, 200 test" in words
    assert "2 of the 200 test texts are also in train" in words
    assert "2 of the 200 texts <b>are</b> shared." in words
    assert "chosen on validation, never on test" in words
    assert "resamples both the seeds and the test texts" in words
    assert "C = 3 chosen on validation" in words
    assert "0.1.0" in words


def test_what_is_absent_is_left_out():
    results = simulated({"pretrained": 0.6, "scratch": 0.8}, train_sizes=False)
    results = with_arm(results, "pretrained", curve=results.arms["pretrained"].curve[:1])
    markup = report(replace(results, time_to_scratch={**results.time_to_scratch, "pretrained": None}, baseline=None))
    words = " ".join(parse(markup).words)
    assert markup.count("data:image/png;base64,") == 8
    assert "without shared texts" not in words
    assert "not reached" in words
    assert "No test text is also in train." in words
    assert 'class="verdict below"' in markup


def test_settings_are_told_as_a_person_would():
    results = simulated()
    training = {"muon_learning_rate": 0.001, "concat_embeddings": False, "pooling": "mean"}
    settings = replace(results.settings, runs={"pretrained": "body"}, columns=("text", "label"), training=training)
    words = " ".join(parse(report(replace(results, settings=settings))).words)
    assert "runs pretrained body" in words
    assert "columns text, label" in words
    assert "muon learning rate 0.001 concat embeddings no pooling mean" in words


def test_what_scratch_has_before_any_training_takes_no_time():
    at_once = {"pretrained": TimeToScratch(epochs=0, seconds=0.0)}
    words = " ".join(parse(report(replace(simulated(), time_to_scratch=at_once))).words)
    assert "pretrained before any training –" in words


def test_report_is_deterministic(results, markup):
    assert report(results) == markup


def test_the_ensemble_is_an_arm_with_its_weights():
    words = " ".join(parse(report(simulated(ensembles={"pretrained": 0.93}))).words)
    assert "ensemble − TF-IDF" in words
    assert "ensemble − pretrained" in words
    assert "lowest loss on validation (ensemble: body 0.50, TF-IDF 1.50; means over the seeds)" in words
    assert "Ensemble: " not in " ".join(parse(report(simulated())).words)
