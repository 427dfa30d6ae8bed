from dataclasses import replace
from functools import partial

import pytest
import simulated as simulation
from simulated import with_arm

from greffon.comparison.arm_result import Accuracy, ValidAccuracy
from greffon.comparison.phrases import p_value, points
from greffon.comparison.results import Results
from greffon.comparison.verdict import verdict

simulated = partial(simulation.simulated, train_sizes=False)


def with_valid(results: Results, name: str, accuracy: float) -> Results:
    return with_arm(results, name, valid_accuracy=ValidAccuracy(accuracy, (accuracy,)))


def test_pretraining_helped_and_beats_tfidf():
    said = verdict(simulated({"pretrained": 0.9, "scratch": 0.8}, tfidf=0.7))
    assert said.startswith("Pretraining helped: +10.0 points over scratch (95 % interval ")
    assert "p = 0.0001, 3 seeds, 200 texts)." in said
    assert "The best neural arm, pretrained, beats TF-IDF + logistic regression by 20.0 points" in said


def test_pretraining_could_not_be_told_apart():
    said = verdict(simulated({"pretrained": 0.805, "scratch": 0.8}, tfidf=0.8))
    assert said.startswith("Pretraining could not be told apart from scratch: +0.5 points (95 % interval −")
    assert "pretrained, cannot be told apart from TF-IDF + logistic regression: +0.5 points" in said


def test_a_small_p_beside_an_interval_around_zero_is_explained():
    results = simulated({"pretrained": 0.85, "scratch": 0.8}, tfidf=0.8)
    entry, *others = results.differences
    assert (entry.a, entry.b) == ("pretrained", "scratch")

    def said(interval: tuple[float, float]) -> str:
        return verdict(replace(results, differences=(replace(entry, interval=interval, p=0.004), *others)))

    assert "95 % interval −1.0 to 11.0, p = 0.004 for these seeds alone, 3 seeds" in said((-0.01, 0.11))
    assert "p = 0.004, 3 seeds" in said((0.01, 0.09))


def test_a_large_p_beside_an_interval_that_is_clear_is_explained():
    results = simulated({"pretrained": 0.85, "scratch": 0.8}, tfidf=0.8)
    entry, *others = results.differences
    odd = replace(entry, interval=(0.062, 0.5), p=0.13)
    said = verdict(replace(results, differences=(odd, *others)))
    assert "95 % interval 6.2 to 50.0, p = 0.13, so that more test texts are needed to be sure, 3 seeds" in said
    assert "to be sure" not in verdict(replace(results, differences=(replace(odd, p=0.004), *others)))


def test_arms_that_read_less_are_named_without_a_label_curve_too():
    results = simulated({"pretrained": 0.85, "scratch": 0.8}, tfidf=0.8)
    assert "so much of their tokens" not in verdict(results)
    data = replace(results.data, tokens_read={"pretrained": 0.5, "scratch": 1.0, "frozen": 0.625})
    said = verdict(replace(results, data=data))
    assert said.count("these arms only so much of their tokens: pretrained 50.0 %, frozen 62.5 % (") == 1


def test_pretraining_hurt_and_the_best_arm_is_scratch():
    said = verdict(simulated({"pretrained": 0.7, "scratch": 0.85}, tfidf=0.6))
    assert said.startswith("Pretraining hurt: −15.0 points against scratch (95 % interval −")
    assert "The best neural arm, scratch, beats TF-IDF" in said


def test_the_baseline_beats_both():
    said = verdict(simulated({"pretrained": 0.7, "scratch": 0.6}, tfidf=0.9))
    assert "TF-IDF + logistic regression beats both: use that (20.0 points above pretrained, the best on" in said


def test_several_pretrained_arms_one_clause_each_best_first():
    said = verdict(simulated({"lab": 0.8, "scratch": 0.8, "compact": 0.9, "poor": 0.6}, tfidf=0.95))
    assert said.startswith("Pretraining, run by run: compact helped: +10.0 points over scratch")
    assert said.index("compact helped") < said.index("lab could not be told apart") < said.index("poor hurt")
    assert "TF-IDF + logistic regression beats all 4 neural arms: use that" in said


def test_several_pretrained_arms_are_held_against_the_best_of_them():
    said = verdict(simulated({"causal": 0.8, "scratch": 0.6, "masked": 0.9, "pairs": 0.895}, tfidf=0.7))
    assert "Among the pretrained runs masked is best on validation; it beats causal (+10.0 points, 95 %" in said
    assert "cannot be told apart from pairs (+0.5 points, 95 %" in said
    assert "Among" not in verdict(simulated())


def test_equals_on_validation_are_called_so():
    said = verdict(simulated({"causal": 0.8, "scratch": 0.6, "masked": 0.8, "pairs": 0.7}, tfidf=0.7))
    assert "runs causal and masked are equal on validation; causal, the first by name, " in said
    assert "cannot be told apart from masked" in said


def test_a_frozen_body_is_not_passed_over():
    results = simulated({"pretrained": 0.7, "scratch": 0.6}, tfidf=0.9, frozen={"pretrained": 0.925})
    assert results.arms["frozen"].test_accuracy == Accuracy(
        0.925, results.arms["frozen"].test_accuracy.interval, (0.925,)
    )
    results = with_valid(results, "tfidf", 0.9)
    for valid, told, advised in ((0.95, True, False), (0.69, False, True)):
        said = verdict(with_valid(results, "frozen", valid))
        assert (
            "as good on validation as logistic regression on a frozen body (frozen: 95.0 % there, 92.5 %" in said
        ) == told
        assert ("TF-IDF + logistic regression beats both: use that" in said) == advised


def test_the_ensemble_is_compared_with_tfidf():
    arms = {"pretrained": 0.7, "scratch": 0.6}
    said = verdict(simulated(arms, tfidf=0.8, ensembles={"pretrained": 0.9}))
    assert "beats both (10.0 points above pretrained" in said, "no advice to use less than the best"
    assert "The ensemble of pretrained and TF-IDF beats TF-IDF alone: 90.0 %, +10.0 points (95 % interval " in said
    said = verdict(simulated(arms, tfidf=0.8, ensembles={"pretrained": 0.805}))
    assert "beats both: use that" in said
    assert "The ensemble of pretrained and TF-IDF cannot be told apart from TF-IDF alone: 80.5 %, +0.5 points" in said
    said = verdict(simulated(arms, tfidf=0.8, ensembles={"pretrained": 0.7}))
    assert "The ensemble of pretrained and TF-IDF falls behind TF-IDF alone: 70.0 %, −10.0 points" in said
    assert "ensemble" not in verdict(simulated())


def test_a_body_with_weight_0_is_no_second_result():
    results = simulated(tfidf=0.8, ensembles={"pretrained": 0.8})
    said = verdict(with_arm(results, "ensemble", weights=((0.0, 1.2),) * 3))
    assert "In the ensemble with TF-IDF, pretrained has weight 0: on validation it adds nothing to TF-IDF." in said


def test_tfidf_with_weight_0_is_no_second_result_either():
    results = simulated(tfidf=0.8, ensembles={"pretrained": 0.9})
    said = verdict(with_arm(results, "ensemble", weights=((1.2, 0.0),) * 3))
    assert "In the ensemble with pretrained, TF-IDF has weight 0: on validation it adds nothing to the body." in said


def test_a_body_that_is_better_alone_is_not_hidden_by_the_ensemble():
    said = verdict(simulated({"pretrained": 0.95, "scratch": 0.6}, tfidf=0.8, ensembles={"pretrained": 0.9}))
    assert "beats TF-IDF alone: 90.0 %, +10.0 points (95 % interval " in said
    assert "); pretrained alone has 95.0 %." in said
    said = verdict(simulated({"pretrained": 0.85, "scratch": 0.6}, tfidf=0.8, ensembles={"pretrained": 0.9}))
    assert "alone has" not in said


def test_a_head_that_stayed_untrained_is_told_of():
    results = with_arm(simulated(), "scratch", chosen_epoch=(0, 6, 0))
    assert "No epoch of scratch was better than none with 2 of 3 seeds." in verdict(results)
    assert "better than none" not in verdict(simulated())


def test_of_several_ensembles_the_best_is_told():
    arms = {"scratch": 0.6, "causal": 0.7, "masked": 0.75}
    said = verdict(simulated(arms, tfidf=0.7, ensembles={"causal": 0.9, "masked": 0.8}))
    assert "The ensemble of causal and TF-IDF beats" in said
    assert "of masked" not in said


def test_the_best_arm_is_chosen_on_validation_not_on_test():
    results = simulated({"pretrained": 0.9, "scratch": 0.8}, tfidf=0.7)
    said = verdict(with_valid(results, "scratch", 0.99))
    assert "The best neural arm, scratch, beats TF-IDF + logistic regression by 10.0 points" in said


def test_caveats_are_told():
    said = verdict(simulated({"pretrained": 0.9, "scratch": 0.8}, seeds=1, overlap=frozenset({0, 1, 2, 199})))
    assert "With a single seed, the intervals cannot tell how much another seed would change." in said
    # 180 of 200 are right, among them three of the four that are left out: 177 of 196.
    assert "Beware: 4 of the 200 test texts are also in train; without them: pretrained 90.3 %" in said
    assert "seed," not in verdict(simulated(seeds=3))
    assert "Beware" not in verdict(simulated(seeds=3))


def test_arms_that_learnt_nothing_are_called_so():
    said = verdict(simulated({"pretrained": 0.51, "scratch": 0.5}, tfidf=0.5))
    assert "No neural arm is clearly above always answering the commonest label (50.0 %)." in said
    assert "commonest label" not in verdict(simulated())


def test_without_a_baseline_nothing_is_claimed_about_it():
    results = simulated()
    differences = tuple(entry for entry in results.differences if entry.b == "scratch")
    assert "TF-IDF" not in verdict(replace(results, differences=differences))


@pytest.mark.parametrize(
    ("share", "shown"),
    [(0.031, "3.1"), (-0.0004, "−0.04"), (0.00002, "0.002"), (0.0, "0.0"), (-0.1, "−10.0")],
)
def test_points_never_round_to_a_false_zero(share, shown):
    assert points(share) == shown


def test_p_values_have_as_many_digits_as_they_deserve():
    assert [p_value(p) for p in (1 / 10_001, 0.0123, 0.55, 1.0)] == ["0.0001", "0.012", "0.55", "1.00"]
