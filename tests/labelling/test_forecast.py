"""The forecast: a known power law is found, and the band covers the truth about as often as it says."""

import numpy as np
import pytest

from greffon.core.rng import generator
from greffon.labelling.forecast import FURTHEST, Forecast, _extrapolated, forecast

SIZES = [10, 14, 20, 28, 40, 57, 80, 113, 160]


def law(x: np.ndarray, floor: float, scale: float, exponent: float) -> np.ndarray:
    return floor + scale * np.asarray(x, dtype=float) ** -exponent


@pytest.mark.parametrize(("floor", "scale", "exponent"), [(0.1, 1.2, 0.5), (0.0, 0.6, 0.3), (0.25, 2.0, 1.0)])
def test_a_power_law_without_noise_is_found(floor: float, scale: float, exponent: float) -> None:
    ahead = np.array([200.0, 1000.0, 3000.0])
    errors = law(SIZES, floor, scale, exponent)[None]
    found = _extrapolated(np.array(SIZES, dtype=float), errors, ahead)[0]
    np.testing.assert_allclose(found, law(ahead, floor, scale, exponent), atol=0.004)


def foreseen(sizes: list[int], wrong: np.ndarray, **given: float) -> Forecast | None:
    return forecast(sizes, wrong, np.ones(wrong.shape), **given)


def judged(judges: int, seed: int, floor: float, scale: float, exponent: float) -> np.ndarray:
    """Texts have a difficulty each: what a larger probe gets wrong, a smaller one does too, but for some noise."""
    difficulty = generator(seed, "difficulty").random(judges)
    return np.array([difficulty < error for error in law(SIZES, floor, scale, exponent)])


def test_the_band_covers_the_truth() -> None:
    inside = 0
    for seed in range(40):
        found = foreseen(SIZES, judged(150, seed, 0.1, 1.0, 0.5), seed=seed)
        truth = 1 - law(found.labels, 0.1, 1.0, 0.5)
        place = next(i for i, n in enumerate(found.labels) if n >= 2 * SIZES[-1])
        inside += found.low[place] <= truth[place] <= found.high[place]
    assert inside >= 32


def test_more_judges_make_a_narrower_band() -> None:
    few, many = (foreseen(SIZES, judged(n, 0, 0.1, 1.0, 0.5)) for n in (20, 500))
    assert many.high[-1] - many.low[-1] < few.high[-1] - few.low[-1]


def test_labels_for_an_aim() -> None:
    wrong = judged(2000, 1, 0.05, 1.0, 0.5)
    found = foreseen(SIZES, wrong, aim=0.9)
    truth = (1.0 / (0.1 - 0.05)) ** 2 - SIZES[-1]
    assert found.more_low <= truth <= (found.more_high or np.inf)
    assert found.more == pytest.approx(truth, rel=0.6)
    assert foreseen(SIZES, wrong, aim=0.5).more == 0
    assert foreseen(SIZES, wrong, aim=0.999).more is None
    assert found.labels[-1] == FURTHEST * SIZES[-1]
    assert all(low <= mean <= high for low, mean, high in zip(found.low, found.value, found.high, strict=True))


def test_too_little_says_nothing() -> None:
    assert foreseen(SIZES, judged(9, 0, 0.1, 1.0, 0.5)) is None
    assert foreseen(SIZES[:2], judged(90, 0, 0.1, 1.0, 0.5)[:2]) is None


def test_without_an_error_there_is_still_a_doubt() -> None:
    found = foreseen(SIZES, np.zeros((len(SIZES), 12), dtype=bool))
    assert found.low[0] < 1
