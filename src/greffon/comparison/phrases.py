"""Phrases of the verdict and the report: differences, shares and p in words."""

from greffon.comparison.results import Difference

SMALL = 0.05
"""A p below this beside an interval that includes zero needs an explanation, and so does the opposite."""


def outcome(difference: Difference) -> str:
    """Say on which side of zero the interval lies: `above`, `below`, or `even` if it includes zero.

    >>> outcome(Difference("a", "b", 0.02, (0.01, 0.04), 0.01)), outcome(Difference("a", "b", 0.02, (-0.01, 0.04), 0.2))
    ('above', 'even')
    """
    low, high = difference.interval
    return "above" if low > 0 else "below" if high < 0 else "even"


def points(share: float, signed: bool = False) -> str:
    """Write a difference in percentage points; only zero itself is rounded to zero.

    >>> points(0.031, signed=True), points(-0.004), points(0.0002), points(-0.0)
    ('+3.1', '−0.4', '0.02', '0.0')
    """
    value = round(100 * share, 3) + 0.0  # no −0.0
    digits = 1 if value == 0 or abs(value) >= 0.05 else 2 if abs(value) >= 0.005 else 3
    return f"{value:{'+' if signed else ''}.{digits}f}".replace("-", "−")


def p_value(p: float) -> str:
    """Write p with two significant digits or so.

    >>> p_value(0.0002), p_value(0.031), p_value(0.55)
    ('0.0002', '0.031', '0.55')
    """
    return f"{p:.4f}" if p < 0.001 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def percent(share: float) -> str:
    """Write an accuracy as a percentage.

    >>> percent(0.821)
    '82.1 %'
    """
    return f"{100 * share:.1f} %"


def readable(value: object) -> str:
    """Write a setting as a person would.

    >>> readable({"adapt": False, "seeds": (0, 1)}), readable([])
    ('adapt no, seeds 0, 1', '–')
    """
    if isinstance(value, dict):
        return ", ".join(f"{name} {readable(inner)}" for name, inner in value.items()) or "–"
    if isinstance(value, list | tuple):
        return ", ".join(map(readable, value)) or "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


def evidence(entry: Difference) -> str:
    """Write interval and p of a difference."""
    low, high = entry.interval
    said = f"95 % interval {points(low)} to {points(high)}, p = {p_value(entry.p)}"
    # The interval resamples seeds and texts, the permutation test flips texts alone, so that they may disagree; of the
    # two, the permutation test is the one that can be trusted with few texts.
    if outcome(entry) == "even":
        return f"{said} for these seeds alone" if entry.p < SMALL else said
    return said if entry.p < SMALL else f"{said}, so that more test texts are needed to be sure"
