"""Where the learning curve goes: a power law of the error, and the band that the few judging texts leave."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from greffon.core.json_results import JsonResult
from greffon.core.rng import generator

LEAST_JUDGES, LEAST_SIZES = 10, 3
FURTHEST = 20
"""Nothing is said beyond so many times the labels that there are."""
_EXPONENTS = np.linspace(0.05, 1.5, 30)
_RESAMPLES = 400
_STEPS = 60


@dataclass(frozen=True)
class Forecast(JsonResult):
    """Expected score with more labels: error = floor + scale · labels^-exponent."""

    labels: tuple[int, ...]
    """Numbers of training labels, from those that there are on."""
    value: tuple[float, ...]
    """Expected accuracy, or F1 of several labels, at each of them."""
    low: tuple[float, ...]
    """Lower end of the 95 % band at each number of labels."""
    high: tuple[float, ...]
    aim: float | None = None
    """Score that was asked for."""
    more: int | None = None
    """Labels still needed for the aim; None: more than twenty times those there are, or the aim is out of reach."""
    more_low: int | None = None
    """The same by the upper end of the band: at least so many."""
    more_high: int | None = None
    """The same by the lower end of the band: at most so many."""


def forecast(
    sizes: Sequence[int], missed: np.ndarray, under: np.ndarray, aim: float | None = None, seed: int = 0
) -> Forecast | None:
    """Fit a power law to the errors of probes of several sizes on the same texts; None for too little data.

    The error of a size is the sum of what it missed, divided by that of what there was, (S, M) both: for classes the
    wrong texts of all texts.

    The band comes from drawing the M texts anew (bootstrap): every size is judged by the same texts.
    """
    judges = missed.shape[1]
    if judges < LEAST_JUDGES or len(sizes) < LEAST_SIZES:
        return None
    x, now = np.asarray(sizes, dtype=float), max(sizes)
    draws = generator(seed, "forecast").multinomial(judges, np.full(judges, 1 / judges), size=_RESAMPLES)
    # Half an error more on each side: without it, texts without an error would leave no doubt at all.
    often = np.vstack([np.ones(judges), draws])
    errors = (often @ missed.T + 0.5) / (often @ under.T + 1)  # (R, S)
    ahead = np.unique(np.round(np.geomspace(now, FURTHEST * now, _STEPS)).astype(int))
    value = 1 - _extrapolated(x, errors, ahead.astype(float))  # (R, T)
    low, high = np.percentile(value[1:], [2.5, 97.5], axis=0)
    expected = np.clip(value[0], low, high)
    reached = {"more": expected, "more_low": high, "more_high": low}
    needs = {} if aim is None else {name: _needed(ahead, curve, aim) for name, curve in reached.items()}
    return Forecast(
        tuple(ahead.tolist()), tuple(expected.tolist()), tuple(low.tolist()), tuple(high.tolist()), aim, **needs
    )


def _needed(ahead: np.ndarray, curve: np.ndarray, aim: float) -> int | None:
    reached = np.flatnonzero(curve >= aim)
    return int(ahead[reached[0]] - ahead[0]) if len(reached) else None


def _extrapolated(x: np.ndarray, errors: np.ndarray, ahead: np.ndarray) -> np.ndarray:
    """Fit floor + scale · x^-b with floor and scale ≥ 0 to each row of errors, (R, S); return it at `ahead`, (R, T)."""
    weight = np.sqrt(x / x.sum())  # the law is one of many labels: later sizes count for more
    best = np.full(len(errors), np.inf)
    out = np.zeros((len(errors), len(ahead)))
    for exponent in _EXPONENTS:
        feature = x**-exponent
        floor, scale = _line(feature, errors, weight)
        loss = (weight * (floor[:, None] + scale[:, None] * feature - errors) ** 2).sum(axis=1)
        better = loss < best - 1e-15
        best[better] = loss[better]
        out[better] = (floor[:, None] + scale[:, None] * ahead**-exponent)[better]
    return out


def _line(feature: np.ndarray, errors: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fit floor + scale · feature by weighted least squares, both at least 0, to each row of errors."""
    total, mean = weight.sum(), (weight * feature).sum() / weight.sum()
    centred = feature - mean
    scale = (weight * centred * errors).sum(axis=1) / (weight * centred**2).sum()
    level = (weight * errors).sum(axis=1) / total
    scale = np.maximum(scale, 0)
    floor = level - scale * mean
    alone = (weight * feature * errors).sum(axis=1) / (weight * feature**2).sum()
    scale = np.where(floor < 0, alone, scale)
    return np.maximum(floor, 0), scale
