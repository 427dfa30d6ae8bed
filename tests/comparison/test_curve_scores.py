from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated import LABELS, label_curve, simulated

from greffon.comparison.curve_scores import Drawn, best_two, label_savings, labels_needed, score_size
from greffon.comparison.verdict import verdict_sentences

GOLD = [LABELS[i % 2] for i in range(400)]
SIZES = (20, 100, 1000)


@given(st.lists(st.floats(0.1, 0.9), min_size=2, max_size=6, unique=True), st.floats(0.05, 0.95))
def test_labels_needed_are_interpolated_on_a_log_scale(scores, score):
    curve = list(zip([20 * 3**i for i in range(len(scores))], sorted(scores), strict=True))
    found = labels_needed(curve, score)
    if score > curve[-1][1]:
        assert found is None
        return
    wanted = np.exp(np.interp(score, [y for _, y in curve], np.log([x for x, _ in curve])))
    assert found == pytest.approx(wanted, abs=0.51)


def test_a_curve_that_dips_counts_from_where_it_stays_above():
    assert labels_needed([(10, 0.8), (100, 0.6), (1000, 0.8)], 0.7) == 316


def curves(*reached):
    """Results whose label curve has these accuracies."""
    sizes = tuple(label_curve(each, size, 3, GOLD) for size, each in zip(SIZES, reached, strict=True))
    results = simulated(tfidf=0.7, ensembles={"pretrained": 0.9}, train_sizes=False)
    return replace(results, train_sizes=sizes, label_savings=label_savings(sizes, ["pretrained", "ensemble"]))


def arms(pretrained, tfidf, ensemble):
    return {"pretrained": pretrained, "scratch": 0.5, "tfidf": tfidf, "ensemble": ensemble, "majority": 0.5}


def test_draws_are_paired_and_the_best_are_compared():
    entry = label_curve(arms(0.8, 0.7, 0.75), 100, 3, GOLD)
    assert best_two(entry.arms) == ("pretrained", "ensemble")
    for pair in (("pretrained", "tfidf"), ("ensemble", "tfidf"), ("pretrained", "ensemble")):
        found = entry.difference(*pair)
        assert found is not None
        assert found.mean == pytest.approx(entry.arms[pair[0]].mean - entry.arms[pair[1]].mean)
    assert entry.difference("majority", "tfidf") is None


def test_the_verdict_says_who_wins_from_where_on_and_what_is_saved():
    results = curves(arms(0.8, 0.6, 0.7), arms(0.82, 0.7, 0.8), arms(0.83, 0.9, 0.95))
    said = verdict_sentences(results)
    assert said[0] == "Best by number of labels: pretrained with 20 to 100 labels; ensemble with 1,000 labels." or (
        "not told apart" in said[0]
    )
    (against,) = [line for line in said if line.startswith("pretrained beats")]
    assert "beats TF-IDF + logistic regression with 20 to 100 labels" in against
    assert "falls behind it with 1,000 labels" in against
    assert "+20.0 points" in against
    (saving,) = [line for line in said if "saves labels" in line]
    assert saving == "pretrained saves labels: 80.0 % with 20 labels; TF-IDF needs 316."


def test_what_tfidf_never_reaches_is_said():
    results = curves(arms(0.8, 0.6, 0.7), arms(0.82, 0.65, 0.8), arms(0.83, 0.7, 0.9))
    (saving,) = [line for line in verdict_sentences(results) if "saves labels" in line]
    assert "TF-IDF does not reach that with 1,000" in saving


def test_the_verdict_tells_of_arms_that_read_less_and_of_texts_seen_in_pretraining():
    results = curves(arms(0.8, 0.6, 0.7), arms(0.82, 0.65, 0.8), arms(0.83, 0.7, 0.9))
    assert not any("tokens" in line for line in verdict_sentences(results))
    data = replace(results.data, tokens_read={"pretrained": 0.5, "scratch": 1.0}, pretraining_overlap={"pretrained": 7})
    said = verdict_sentences(replace(results, data=data))
    assert sum("only so much of their tokens: pretrained 50.0 %" in line for line in said) == 1
    assert any("pretrained on, without labels: pretrained 7." in line for line in said)


def test_the_ends_of_a_curve_are_on_it_and_a_flat_one_is_reached_at_once():
    assert labels_needed([(100, 0.7), (400, 0.8)], 0.8) == 400
    assert labels_needed([(100, 0.7), (400, 0.8)], 0.7) == 100
    assert labels_needed([(10, 0.7), (100, 0.7)], 0.7) == 10


def test_an_arm_that_is_level_with_tfidf_saves_no_labels():
    level = label_curve(arms(0.7, 0.7, 0.8), 100, 3, GOLD)
    assert level.arms["pretrained"].mean == level.arms["tfidf"].mean
    assert [saving.arm for saving in label_savings([level], ["pretrained", "ensemble"])] == ["ensemble"]


def test_what_all_arms_owe_to_their_draw_is_no_doubt_about_their_difference():
    easy_and_hard = np.repeat([[1.0], [0.0]], 50, axis=1)
    drawn = {name: Drawn(easy_and_hard) for name in ("pretrained", "tfidf")}
    found = score_size(20, drawn, []).difference("pretrained", "tfidf")
    assert found is not None
    assert (found.mean, found.interval) == (0.0, (0.0, 0.0))
