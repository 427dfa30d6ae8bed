"""A simulated comparison: answers with a known share correct, without any model."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from greffon.comparison.baselines import Baseline
from greffon.comparison.ensemble import Ensemble
from greffon.comparison.results import EpochScore, SeedOutcome, assemble

LABELS = ("negative", "positive")


def outcome(gold: Sequence[str], accuracy: float, seed: int, epochs: int = 6) -> SeedOutcome:
    """A run whose first `accuracy` of the texts are right: seeds agree but for a rotation by one."""
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


def simulated(
    arms: Mapping[str, float] | None = None,
    tfidf: float = 0.7,
    n: int = 200,
    seeds: int = 3,
    overlap: frozenset[int] = frozenset(),
    texts: Sequence[str] | None = None,
    label_curve: bool = True,
    together: Mapping[str, float] | None = None,
    **data: Any,
) -> dict[str, Any]:
    """Results as `compare` would write them, with the accuracies asked for."""
    arms = arms or {"pretrained": 0.9, "scratch": 0.8}
    gold = [LABELS[index % 2] for index in range(n)]
    classical = {
        "tfidf": _yardstick("TF-IDF + logistic regression", 3.0, outcome(gold, tfidf, 0).predictions),
        "majority": _yardstick("majority class", None, [LABELS[0]] * n),
    }
    points = [{"labels": k, "mean": 0.6 + k / 10_000, "interval": [0.55, 0.9]} for k in (100, 400, 1600)]
    return assemble(
        {name: [outcome(gold, accuracy, seed) for seed in range(seeds)] for name, accuracy in arms.items()},
        classical,
        gold,
        list(texts or (f"text {index}" for index in range(n))),
        LABELS,
        set(overlap),
        data={"train": 1280, "valid": 320, **data},
        settings={"seeds": seeds, "epochs": 6},
        versions={"greffon": "0.1.0"},
        label_curve=dict.fromkeys([*arms, "tfidf", "majority"], points) if label_curve else None,
        together={
            name: [_both(outcome(gold, accuracy, seed), accuracy) for seed in range(seeds)]
            for name, accuracy in (together or {}).items()
        },
    )


def _both(found: SeedOutcome, valid: float) -> Ensemble:
    """The same answers, given together with TF-IDF."""
    return Ensemble((0.5, 1.5), valid, found.predictions, found.probabilities)


def _yardstick(name: str, c: float | None, predictions: list[str]) -> Baseline:
    n = len(predictions)
    return Baseline(name, c, 0.68, predictions, [[0.7, 0.3]] * n, list(LABELS), 1.5, [])
