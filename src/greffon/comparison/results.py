"""Assemble `results.json` from what the arms answered on the test texts.

Takes labels, probabilities and curves; knows nothing of models, training or drawing. The schema stands
at the top of `report.py`.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from greffon.comparison.baselines import Baseline
from greffon.comparison.ensemble import TOGETHER, Ensemble
from greffon.comparison.verdict import SCRATCH, Results, is_scratch, verdict
from greffon.inference.metrics import (
    Correct,
    accuracy_interval,
    confusion,
    macro_f1,
    paired_difference,
    per_class,
)

_MISTAKES = 10


@dataclass(frozen=True)
class EpochScore:
    """Accuracies after an epoch (0: before training); `seconds` counts from the start of training."""

    epoch: int
    valid: float
    test: float
    seconds: float


@dataclass(frozen=True)
class SeedOutcome:
    """One training run: its curve, and its test predictions at the epoch chosen on validation."""

    seed: int
    curve: list[EpochScore]
    chosen_epoch: int
    predictions: list[str]
    probabilities: list[float]  # of the predicted label
    parameters: int
    seconds: float


def assemble(
    arms: Mapping[str, Sequence[SeedOutcome]],
    classical: Mapping[str, Baseline],
    gold: Sequence[str],
    test_texts: Sequence[str],
    labels: Sequence[str],
    overlap: set[int],
    *,
    data: Mapping[str, Any],
    settings: Mapping[str, Any],
    versions: Mapping[str, str],
    label_curve: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
    pretraining: Mapping[str, float | None] | None = None,
    scratch: Mapping[str, str] | None = None,
    together: Mapping[str, Sequence[Ensemble]] | None = None,
) -> Results:
    """Everything that `results.json` holds.

    `overlap` are the test texts that also stand in train; `scratch` says which scratch arm has the form of each
    pretrained one, `together` what pretrained ones answer together with TF-IDF.
    """
    scratch = {name: (scratch or {}).get(name, SCRATCH) for name in arms if not is_scratch(name)}
    answers = {name: [outcome.predictions for outcome in outcomes] for name, outcomes in arms.items()}
    answers |= {name: [baseline.predictions] for name, baseline in classical.items()}
    both = {name + TOGETHER: found for name, found in (together or {}).items()}
    answers |= {name: [each.predictions for each in found] for name, found in both.items()}
    correct = {name: correctness(predictions, gold) for name, predictions in answers.items()}
    results: Results = {"verdict": "", "arms": {}}
    for name, outcomes in arms.items():
        results["arms"][name] = (
            {"kind": "neural"}
            | _scores(answers[name], correct[name], gold, labels, overlap)
            | _training(outcomes)
            | {"mistakes": _mistakes([(o.predictions, o.probabilities) for o in outcomes], gold, test_texts)}
        )
    for name, baseline in classical.items():
        confidence = [max(row) for row in baseline.probabilities]
        results["arms"][name] = (
            {"kind": "classical"}
            | _scores(answers[name], correct[name], gold, labels, overlap)
            | _fitting(baseline)
            | {"mistakes": _mistakes([(baseline.predictions, confidence)], gold, test_texts)}
        )
    for name, found in both.items():
        results["arms"][name] = (
            {"kind": "together"}
            | _scores(answers[name], correct[name], gold, labels, overlap)
            | _weighing(found)
            | {
                "mistakes": _mistakes(
                    list(zip(answers[name], (each.probabilities for each in found), strict=True)), gold, test_texts
                )
            }
        )
    results["differences"] = _differences(correct, list(arms), scratch, list(both))
    results["scratch"] = dict(scratch)
    results["baseline"] = _baseline(results["arms"], classical)
    results["reach"], results["reach_target"] = _reach(arms, scratch)
    results["labels"] = list(labels)
    results["label_curve"] = (
        {name: [dict(point) for point in curve] for name, curve in label_curve.items()} if label_curve else None
    )
    results["pretraining"] = dict(pretraining or {})
    results["data"] = {"test": len(gold), **data, "train_test_overlap": len(overlap)}
    results["settings"] = dict(settings)
    results["versions"] = dict(versions)
    results["verdict"] = verdict(results)
    return results


def correctness(predictions: Sequence[Sequence[str]], gold: Sequence[str]) -> Correct:
    """Mark which answers are right: (seeds, texts)."""
    assert predictions, "an arm without a single run"
    assert all(len(answers) == len(gold) for answers in predictions), "one prediction for each test text"
    return np.array([[guess == truth for guess, truth in zip(row, gold, strict=True)] for row in predictions])


def _scores(
    predictions: Sequence[Sequence[str]],
    correct: Correct,
    gold: Sequence[str],
    labels: Sequence[str],
    overlap: set[int],
) -> dict[str, Any]:
    """Test accuracy and figures by class; counts are summed over the seeds, supports are not."""
    all_gold = list(gold) * len(predictions)
    all_answers = [answer for row in predictions for answer in row]
    by_class = {label: asdict(score) for label, score in per_class(all_gold, all_answers, labels).items()}
    for score in by_class.values():
        score["support"] //= len(predictions)
    fresh = [index for index in range(len(gold)) if index not in overlap]
    return {
        "test_accuracy": {
            "mean": float(correct.mean()),
            "interval": list(accuracy_interval(correct)),
            "by_seed": correct.mean(axis=1).tolist(),
        },
        "macro_f1": float(np.mean([macro_f1(gold, row, labels) for row in predictions])),
        "per_class": by_class,
        "confusion": confusion(all_gold, all_answers, labels),
        "without_overlap": float(correct[:, fresh].mean()) if overlap and fresh else None,
    }


def _training(outcomes: Sequence[SeedOutcome]) -> dict[str, Any]:
    at_choice = [
        next(score.valid for score in outcome.curve if score.epoch == outcome.chosen_epoch) for outcome in outcomes
    ]
    return {
        "valid_accuracy": _valid(at_choice),
        "chosen_epoch": [outcome.chosen_epoch for outcome in outcomes],
        "parameters": outcomes[0].parameters,
        "seconds": [outcome.seconds for outcome in outcomes],
        "curve": _mean_curve(outcomes),
    }


def _fitting(baseline: Baseline) -> dict[str, Any]:
    return {
        "valid_accuracy": _valid([baseline.valid_accuracy]),
        "chosen_epoch": [],
        "parameters": None,
        "seconds": [baseline.seconds],
        "curve": [],
    }


def _weighing(found: Sequence[Ensemble]) -> dict[str, Any]:
    return {
        "valid_accuracy": _valid([each.valid_accuracy for each in found]),
        "chosen_epoch": [],
        "parameters": None,
        "seconds": [],
        "curve": [],
        "weights": [list(each.weights) for each in found],
    }


def _valid(by_seed: list[float]) -> dict[str, Any]:
    # No interval: epoch, C and weights were chosen for exactly this figure, so any interval would flatter it.
    return {"mean": float(np.mean(by_seed)), "interval": None, "by_seed": by_seed}


def _by_epoch(outcomes: Sequence[SeedOutcome]) -> dict[int, list[EpochScore]]:
    """The scores of all runs, epoch by epoch; a run that stopped early keeps its last score."""
    epochs = sorted({score.epoch for outcome in outcomes for score in outcome.curve})
    return {
        epoch: [[score for score in outcome.curve if score.epoch <= epoch][-1] for outcome in outcomes]
        for epoch in epochs
    }


def _mean_curve(outcomes: Sequence[SeedOutcome]) -> list[dict[str, Any]]:
    curve = []
    for epoch, scores in _by_epoch(outcomes).items():
        valid, test = [score.valid for score in scores], [score.test for score in scores]
        curve.append(
            {
                "epoch": epoch,
                "valid": float(np.mean(valid)),
                "test": float(np.mean(test)),
                "valid_range": [min(valid), max(valid)],
                "test_range": [min(test), max(test)],
                "seeds": sum(score.epoch == epoch for score in scores),
            }
        )
    return curve


def _mistakes(
    runs: Sequence[tuple[Sequence[str], Sequence[float]]], gold: Sequence[str], texts: Sequence[str]
) -> list[dict[str, Any]]:
    """The wrong answers given with most confidence, averaged over the seeds that gave them."""
    found = []
    for index, (text, truth) in enumerate(zip(texts, gold, strict=True)):
        weights: dict[str, list[float]] = {}
        for answers, probabilities in runs:
            if answers[index] != truth:
                weights.setdefault(answers[index], []).append(probabilities[index])
        for answer, given in weights.items():
            mistake: dict[str, Any] = {"text": text, "gold": truth, "predicted": answer}
            mistake |= {"probability": float(np.mean(given)), "seeds": len(given)}
            found.append((-sum(given), index, mistake))  # the sum: a mistake of every seed comes first
    return [mistake for *_, mistake in sorted(found, key=lambda entry: entry[:2])[:_MISTAKES]]


def _differences(
    correct: Mapping[str, Correct], neural: Sequence[str], scratch: Mapping[str, str], both: Sequence[str]
) -> list[dict[str, Any]]:
    """Each pretrained arm − its scratch, one pretrained − another, every arm − tfidf, both together − the one alone."""
    pairs = [*scratch.items(), *itertools.combinations(scratch, 2)]
    pairs += [(name, "tfidf") for name in (*sorted(neural, key=is_scratch), *both)]
    pairs += [(name, name.removesuffix(TOGETHER)) for name in both]
    entries = []
    for a, b in pairs:
        if a in correct and b in correct:
            difference = paired_difference(correct[a], correct[b])
            entries.append({"a": a, "b": b, **asdict(difference), "interval": list(difference.interval)})
    return entries


def _baseline(arms: Mapping[str, Any], classical: Mapping[str, Baseline]) -> dict[str, Any] | None:
    if "tfidf" not in classical:
        return None
    baseline, scores = classical["tfidf"], arms["tfidf"]["test_accuracy"]
    return {
        "name": baseline.name,
        "accuracy": scores["mean"],
        "interval": scores["interval"],
        "c": baseline.c,
        "valid_accuracy": baseline.valid_accuracy,
        "seconds": baseline.seconds,
    }


def _reach(
    arms: Mapping[str, Sequence[SeedOutcome]], scratch: Mapping[str, str]
) -> tuple[dict[str, dict[str, Any] | None], dict[str, float]]:
    """When each arm's mean validation accuracy first reaches its scratch's best; None if it never does."""
    targets = {
        name: max(float(np.mean([s.valid for s in scores])) for scores in _by_epoch(outcomes).values())
        for name, outcomes in arms.items()
        if is_scratch(name)
    }
    reach: dict[str, dict[str, Any] | None] = {}
    for name, outcomes in arms.items():
        target = targets.get(scratch.get(name, name))
        if target is None:
            continue
        reach[name] = None
        for epoch, scores in _by_epoch(outcomes).items():
            if float(np.mean([score.valid for score in scores])) >= target - 1e-12:
                seconds = float(np.mean([score.seconds for score in scores]))
                reach[name] = {"epochs": epoch, "seconds": seconds}
                break
    return reach, targets
