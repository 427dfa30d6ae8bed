"""Compute `Results` from what the arms predicted on the test texts.

Takes labels, probabilities and curves; knows nothing of models, training or drawing.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from greffon.comparison.arm_result import Accuracy, ArmKind, ArmResult, CurvePoint, Mistake, ValidAccuracy
from greffon.comparison.baselines import Baseline
from greffon.comparison.ensemble import Ensemble
from greffon.comparison.names import SCRATCH, TFIDF, ensemble_name, frozen_name, is_scratch
from greffon.comparison.results import (
    BaselineResult,
    DataSummary,
    Difference,
    LabelSaving,
    Results,
    Settings,
    TimeToScratch,
    TrainSize,
    Tuning,
)
from greffon.comparison.verdict import verdict
from greffon.inference.calibration import reliability
from greffon.inference.metrics import Correct, accuracy_interval, confusion, macro_f1, paired_difference, per_class

_MISTAKES = 10
_ROUNDING = 1e-12  # two equal means may differ in their last digits


@dataclass(frozen=True)
class EpochScore:
    """Accuracies after an epoch of one training."""

    epoch: int
    """Number of epochs trained; 0 is before training."""
    valid: float
    """Validation accuracy."""
    test: float
    """Test accuracy."""
    seconds: float
    """Time since the start of training."""


@dataclass(frozen=True)
class SeedOutcome:
    """One training: its curve, and its test predictions at the epoch chosen on validation."""

    seed: int
    curve: list[EpochScore]
    chosen_epoch: int
    predictions: list[str]
    probabilities: list[float]
    """Probability of each predicted label."""
    parameters: int
    seconds: float

    @property
    def valid_accuracy(self) -> float:
        """Validation accuracy at the chosen epoch."""
        return next(score.valid for score in self.curve if score.epoch == self.chosen_epoch)


@dataclass(frozen=True)
class GoldTexts:
    """The test texts, their true labels, and which of them are also in train."""

    texts: Sequence[str]
    gold: Sequence[str]
    labels: Sequence[str]
    overlap: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Outcomes:
    """What all arms predicted, with one number of training texts."""

    neural: Mapping[str, Sequence[SeedOutcome]]
    """Trainings of each neural arm."""
    classical: Mapping[str, Baseline]
    """Fit of each classical arm."""
    ensembles: Mapping[str, Sequence[Ensemble]] = field(default_factory=dict)
    """Ensembles with TF-IDF, by the name of the pretrained arm."""

    def predictions(self) -> dict[str, list[list[str]]]:
        """Return the predicted labels of each arm, seed by seed."""
        return {
            **{name: [each.predictions for each in found] for name, found in self.neural.items()},
            **{name: [found.predictions] for name, found in self.classical.items()},
            **{ensemble_name(name): [each.predictions for each in found] for name, found in self.ensembles.items()},
        }


@dataclass(frozen=True)
class Context:
    """Facts about a comparison that are written to its results unchanged."""

    data: DataSummary
    settings: Settings
    versions: Mapping[str, str]
    scratch: Mapping[str, str] = field(default_factory=dict)
    """Scratch arm of the same architecture, for each pretrained arm that has another one than `scratch`."""
    pretraining: Mapping[str, float | None] = field(default_factory=dict)
    train_sizes: tuple[TrainSize, ...] = ()
    label_savings: tuple[LabelSaving, ...] = ()
    tuning: tuple[Tuning, ...] = ()


def assemble(outcomes: Outcomes, test: GoldTexts, context: Context) -> Results:
    """Score every arm on the test texts, measure the differences, and write the verdict."""
    scratch = {name: context.scratch.get(name, SCRATCH) for name in outcomes.neural if not is_scratch(name)}
    arms = _arms(outcomes, test)
    targets = _scratch_targets(outcomes.neural)
    results = Results(
        verdict="",
        arms=arms,
        differences=_differences(outcomes, test.gold, scratch),
        baseline=_baseline(arms, outcomes.classical),
        scratch=scratch,
        time_to_scratch=_times_to_scratch(outcomes.neural, scratch, targets),
        scratch_target=targets,
        labels=tuple(test.labels),
        data=context.data,
        pretraining=dict(context.pretraining),
        settings=context.settings,
        versions=dict(context.versions),
        train_sizes=context.train_sizes,
        label_savings=context.label_savings,
        tuning=context.tuning,
    )
    return replace(results, verdict=verdict(results))


def correctness(predictions: Sequence[Sequence[str]], gold: Sequence[str]) -> Correct:
    """Mark which predictions are right: (seeds, texts)."""
    assert predictions, "an arm without a single run"
    assert all(len(row) == len(gold) for row in predictions), "one prediction for each test text"
    return np.array([[guess == truth for guess, truth in zip(row, gold, strict=True)] for row in predictions])


def _arms(outcomes: Outcomes, test: GoldTexts) -> dict[str, ArmResult]:
    arms = {name: _neural(found, test) for name, found in outcomes.neural.items()}
    bodies = {frozen_name(name): name for name in outcomes.neural if not is_scratch(name)}
    arms |= {name: _classical(found, bodies.get(name), test) for name, found in outcomes.classical.items()}
    arms |= {ensemble_name(name): _ensemble(found, name, test) for name, found in outcomes.ensembles.items()}
    return arms


def _neural(found: Sequence[SeedOutcome], test: GoldTexts) -> ArmResult:
    arm = _scored("neural", [(each.predictions, each.probabilities) for each in found], test)
    return replace(
        arm,
        valid_accuracy=_valid([each.valid_accuracy for each in found]),
        chosen_epoch=tuple(each.chosen_epoch for each in found),
        parameters=found[0].parameters,
        seconds=tuple(each.seconds for each in found),
        curve=_mean_curve(found),
    )


def _classical(found: Baseline, body: str | None, test: GoldTexts) -> ArmResult:
    arm = _scored("classical", [(found.predictions, [max(row) for row in found.probabilities])], test)
    return replace(arm, body=body, valid_accuracy=_valid([found.valid_accuracy]), seconds=(found.seconds,))


def _ensemble(found: Sequence[Ensemble], body: str, test: GoldTexts) -> ArmResult:
    arm = _scored("ensemble", [(each.predictions, each.probabilities) for each in found], test)
    valid = _valid([each.valid_accuracy for each in found])
    return replace(arm, body=body, valid_accuracy=valid, weights=tuple(each.weights for each in found))


Predicted = tuple[Sequence[str], Sequence[float]]
"""Predicted labels of one seed, and the probability of each."""


def _scored(kind: ArmKind, seeds: Sequence[Predicted], test: GoldTexts) -> ArmResult:
    """Compute what all kinds of arms have in common, from their test predictions; the rest is left empty."""
    predictions = [labels for labels, _ in seeds]
    correct = correctness(predictions, test.gold)
    all_gold = list(test.gold) * len(seeds)
    all_predicted = [label for row in predictions for label in row]
    scores = per_class(all_gold, all_predicted, test.labels)
    fresh = [index for index in range(len(test.gold)) if index not in test.overlap]
    accuracy = Accuracy(float(correct.mean()), accuracy_interval(correct), tuple(correct.mean(axis=1).tolist()))
    return ArmResult(
        kind=kind,
        body=None,
        test_accuracy=accuracy,
        test_score=accuracy,
        valid_accuracy=_valid([0.0]),
        macro_f1=float(np.mean([macro_f1(test.gold, row, test.labels) for row in predictions])),
        without_overlap=float(correct[:, fresh].mean()) if test.overlap and fresh else None,
        chosen_epoch=(),
        parameters=None,
        seconds=(),
        curve=(),
        # Counts are summed over the seeds, but a text counts once.
        per_class={label: replace(score, support=score.support // len(seeds)) for label, score in scores.items()},
        confusion=tuple(tuple(row) for row in confusion(all_gold, all_predicted, test.labels)),
        mistakes=_mistakes(seeds, test),
        reliability=reliability([p for _, sure in seeds for p in sure], correct.ravel()),
    )


def _valid(by_seed: Sequence[float]) -> ValidAccuracy:
    return ValidAccuracy(float(np.mean(by_seed)), tuple(by_seed))


def _by_epoch(outcomes: Sequence[SeedOutcome]) -> dict[int, list[EpochScore]]:
    """List the scores of all seeds, epoch by epoch; a training that stopped early keeps its last score."""
    epochs = sorted({score.epoch for outcome in outcomes for score in outcome.curve})
    return {
        epoch: [[score for score in outcome.curve if score.epoch <= epoch][-1] for outcome in outcomes]
        for epoch in epochs
    }


def _mean_curve(outcomes: Sequence[SeedOutcome]) -> tuple[CurvePoint, ...]:
    curve = []
    for epoch, scores in _by_epoch(outcomes).items():
        valid, test = [score.valid for score in scores], [score.test for score in scores]
        curve.append(
            CurvePoint(
                epoch=epoch,
                valid=float(np.mean(valid)),
                test=float(np.mean(test)),
                valid_range=(min(valid), max(valid)),
                test_range=(min(test), max(test)),
                seeds=sum(score.epoch == epoch for score in scores),
            )
        )
    return tuple(curve)


def _mistakes(seeds: Sequence[Predicted], test: GoldTexts) -> tuple[Mistake, ...]:
    """Pick the wrong predictions with the highest probability, summed over the seeds that made them."""
    found = []
    for index, (text, truth) in enumerate(zip(test.texts, test.gold, strict=True)):
        wrong: dict[str, list[float]] = {}
        for labels, probabilities in seeds:
            if labels[index] != truth:
                wrong.setdefault(labels[index], []).append(probabilities[index])
        for label, given in wrong.items():
            mistake = Mistake(text, truth, label, float(np.mean(given)), len(given))
            found.append((-sum(given), index, mistake))  # by the sum, a mistake of every seed comes first
    return tuple(mistake for *_, mistake in sorted(found, key=lambda entry: entry[:2])[:_MISTAKES])


def _differences(outcomes: Outcomes, gold: Sequence[str], scratch: Mapping[str, str]) -> tuple[Difference, ...]:
    """Measure the pairs that the verdict needs.

    They are: each pretrained arm and its scratch arm, each two pretrained arms, every neural arm and ensemble and
    TF-IDF, each ensemble and its body alone.
    """
    correct = {name: correctness(predictions, gold) for name, predictions in outcomes.predictions().items()}
    ensembles = [(ensemble_name(name), name) for name in outcomes.ensembles]
    pairs = [*scratch.items(), *itertools.combinations(scratch, 2)]
    pairs += [(name, TFIDF) for name in sorted(outcomes.neural, key=is_scratch)]
    pairs += [(name, TFIDF) for name, _ in ensembles] + ensembles
    measured = []
    for a, b in pairs:
        if a in correct and b in correct:
            found = paired_difference(correct[a], correct[b])
            measured.append(Difference(a, b, found.mean, found.interval, found.p))
    return tuple(measured)


def _baseline(arms: Mapping[str, ArmResult], classical: Mapping[str, Baseline]) -> BaselineResult | None:
    if TFIDF not in classical:
        return None
    fitted, accuracy = classical[TFIDF], arms[TFIDF].test_accuracy
    return BaselineResult(
        name=fitted.name,
        accuracy=accuracy.mean,
        interval=accuracy.interval,
        c=fitted.c,
        valid_accuracy=fitted.valid_accuracy,
        seconds=fitted.seconds,
    )


def _scratch_targets(neural: Mapping[str, Sequence[SeedOutcome]]) -> dict[str, float]:
    """Find the best mean validation accuracy of each scratch arm."""
    return {
        name: max(float(np.mean([score.valid for score in scores])) for scores in _by_epoch(found).values())
        for name, found in neural.items()
        if is_scratch(name)
    }


def _times_to_scratch(
    neural: Mapping[str, Sequence[SeedOutcome]], scratch: Mapping[str, str], targets: Mapping[str, float]
) -> dict[str, TimeToScratch | None]:
    """Find when each arm first reaches the target of its scratch arm; None if it never does."""
    own = {name: targets.get(scratch.get(name, name)) for name in neural}
    return {name: _time_to_target(neural[name], target) for name, target in own.items() if target is not None}


def _time_to_target(outcomes: Sequence[SeedOutcome], target: float) -> TimeToScratch | None:
    for epoch, scores in _by_epoch(outcomes).items():
        if float(np.mean([score.valid for score in scores])) >= target - _ROUNDING:
            return TimeToScratch(epoch, float(np.mean([score.seconds for score in scores])))
    return None
