"""A simulated comparison: predictions with a known share correct, without any model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from greffon.comparison.assemble import Context, EpochScore, GoldTexts, Outcomes, SeedOutcome, assemble, correctness
from greffon.comparison.baselines import Baseline
from greffon.comparison.curve_scores import Drawn, label_savings, score_size
from greffon.comparison.ensemble import Ensemble
from greffon.comparison.names import MAJORITY, TFIDF, TFIDF_TITLE, ensemble_name, frozen_name
from greffon.comparison.results import DataSummary, Results, Settings, TrainSize

LABELS = ("negative", "positive")


def outcome(gold: Sequence[str], accuracy: float, seed: int, epochs: int = 6) -> SeedOutcome:
    """A training whose first `accuracy` of the texts are right: seeds agree but for a rotation by one."""
    n = len(gold)
    right = np.roll(np.arange(n) < round(accuracy * n), seed)
    other = dict(zip(LABELS, reversed(LABELS), strict=True))
    predictions = [truth if ok else other[truth] for truth, ok in zip(gold, right, strict=True)]
    curve = [
        EpochScore(epoch, valid=score - 0.01, test=score, seconds=2.0 * epoch)
        for epoch in range(epochs + 1)
        for score in [0.5 + (accuracy - 0.5) * epoch / epochs]
    ]
    probabilities = list(np.linspace(0.99, 0.51, n))
    chosen = max(curve, key=lambda score: (score.valid, -score.epoch)).epoch
    return SeedOutcome(seed, curve, chosen, predictions, probabilities, 988_402, 12.5 + seed)


def outcomes(
    gold: Sequence[str],
    arms: Mapping[str, float],
    tfidf: float,
    ensembles: Mapping[str, float],
    frozen: Mapping[str, float],
    seeds: int,
) -> Outcomes:
    """What arms with the given accuracies predict; `ensembles` and `frozen` are named by their bodies."""
    return Outcomes(
        neural={name: [outcome(gold, accuracy, seed) for seed in range(seeds)] for name, accuracy in arms.items()},
        classical={
            **{
                frozen_name(name): baseline(frozen_name(name), 0.1, outcome(gold, accuracy, 0).predictions)
                for name, accuracy in frozen.items()
            },
            TFIDF: baseline(TFIDF_TITLE, 3.0, outcome(gold, tfidf, 0).predictions),
            MAJORITY: baseline("majority class", None, [LABELS[0]] * len(gold)),
        },
        ensembles={
            name: [_ensemble(outcome(gold, accuracy, seed), accuracy) for seed in range(seeds)]
            for name, accuracy in ensembles.items()
        },
    )


def simulated(
    arms: Mapping[str, float] | None = None,
    tfidf: float = 0.7,
    n: int = 200,
    seeds: int = 3,
    overlap: frozenset[int] = frozenset(),
    texts: Sequence[str] | None = None,
    train_sizes: bool = True,
    ensembles: Mapping[str, float] | None = None,
    frozen: Mapping[str, float] | None = None,
    **data: Any,
) -> Results:
    """Results as `compare` would write them, with the accuracies asked for."""
    arms = arms or {"pretrained": 0.9, "scratch": 0.8}
    gold = [LABELS[index % 2] for index in range(n)]
    reached = {
        **arms,
        **{frozen_name(name): accuracy for name, accuracy in (frozen or {}).items()},
        TFIDF: tfidf,
        **{ensemble_name(name): accuracy for name, accuracy in (ensembles or {}).items()},
        MAJORITY: 0.5,
    }
    pretrained = [name for name in arms if not name.startswith("scratch")]
    curve = [
        label_curve({name: 0.5 + share * (accuracy - 0.5) for name, accuracy in reached.items()}, size, seeds, gold)
        for size, share in ({100: 0.3, 400: 0.7, 1600: 1.0} if train_sizes else {}).items()
    ]
    return assemble(
        outcomes(gold, arms, tfidf, ensembles or {}, frozen or {}, seeds),
        GoldTexts(list(texts or (f"text {index}" for index in range(n))), gold, LABELS, overlap),
        Context(
            data=DataSummary(train=1280, valid=320, test=n, train_test_overlap=len(overlap), **data),
            settings=Settings(seeds=seeds, epochs=6),
            versions={"greffon": "0.1.0"},
            train_sizes=tuple(curve),
            label_savings=label_savings(curve, pretrained),
        ),
    )


def label_curve(reached: Mapping[str, float], size: int, draws: int, gold: Sequence[str]) -> TrainSize:
    """All arms with one number of labels."""
    drawn = {
        name: Drawn(correctness([outcome(gold, accuracy, draw).predictions for draw in range(draws)], gold))
        for name, accuracy in reached.items()
    }
    return score_size(size, drawn, pairs=[])


def _ensemble(found: SeedOutcome, valid: float) -> Ensemble:
    """The same predictions, made by an ensemble."""
    return Ensemble((0.5, 1.5), valid, found.predictions, found.probabilities)


def baseline(name: str, c: float | None, predictions: list[str]) -> Baseline:
    """A classical arm with the given predictions."""
    n = len(predictions)
    return Baseline(name, c, 0.68, predictions, [[0.7, 0.3]] * n, list(LABELS), 1.5, [])


def with_arm(results: Results, name: str, **changes: Any) -> Results:
    """The same results, with other fields of one arm."""
    return replace(results, arms={**results.arms, name: replace(results.arms[name], **changes)})
