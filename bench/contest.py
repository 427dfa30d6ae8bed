"""What is measured, and the arithmetic of it. Knows neither processes nor models."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.turns import Turns

SECONDS = "seconds"
"""The one unit that is better when smaller; all others are rates."""

Contestant = Callable[[Turns, Any, Path], None]
"""Sets up what it needs for a size from the files in a folder, then works whenever it is its turn."""


@dataclass(frozen=True)
class Goal:
    """How many times as fast as a peer Greffon, or a variant of it that also takes part, is meant to be."""

    peer: str
    times: float
    by: str = "Greffon"


@dataclass(frozen=True)
class Contest:
    """One task for several contestants; the first is Greffon's."""

    name: str
    title: str
    unit: str
    contestants: Mapping[str, Contestant]
    size: Any  # of the real measurement
    quick: Any  # of a trial that only shows that everything works
    prepare: Callable[[Any, Path], None]  # writes the files that contestants read, once for all
    goals: tuple[Goal, ...] = ()
    most_gigabytes: float | None = None  # the memory that Greffon is meant to need at most
    most_seconds: float | None = None  # the time that Greffon is meant to need at most
    most_rounds: int | None = None  # of work that takes minutes
    warm: bool = True  # whether the first turn of each contestant does not count

    @property
    def ours(self) -> str:
        """The name of Greffon's contestant."""
        return next(iter(self.contestants))


@dataclass(frozen=True)
class Spread:
    """A median and the range around it."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Sum up the rounds."""
        return cls(statistics.median(values), min(values), max(values))


def value(unit: str, turn: Mapping[str, float]) -> float:
    """What one turn counts for: seconds, or work a second."""
    return turn["seconds"] if unit == SECONDS else turn["work"] / turn["seconds"]


def times_as_fast(unit: str, ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """How many times as fast as a peer we were, round by round.

    >>> times_as_fast("tokens/s", [200.0, 300.0], [100.0, 100.0])
    [2.0, 3.0]
    >>> times_as_fast("seconds", [1.0, 2.0], [4.0, 4.0])
    [4.0, 2.0]
    """
    pairs = list(zip(ours, theirs, strict=True))
    return [b / a for a, b in pairs] if unit == SECONDS else [a / b for a, b in pairs]


def agreement(ours: Sequence[Any], theirs: Sequence[Any]) -> float:
    """The share of outputs that are the same.

    >>> agreement([[1, 2], [3]], [[1, 2], [4]])
    0.5
    """
    return sum(a == b for a, b in zip(ours, theirs, strict=True)) / len(ours)


def summarise(
    contest: Contest,
    turns: Mapping[str, Sequence[Mapping[str, float]]],
    outcomes: Mapping[str, Mapping[str, Any]],
    gigaflops: float,
) -> dict[str, Any]:
    """Sum up a contest: each contestant's rounds, and how many times as fast as each peer we were.

    Ratios are taken round by round, because what disturbs the machine in one round disturbs all of it.
    """
    values = {name: [value(contest.unit, turn) for turn in taken] for name, taken in turns.items()}
    found: dict[str, Any] = {}
    for name, rounds in values.items():
        facts = dict(outcomes[name])
        outputs = facts.pop("outputs", None)
        entry = {"rounds": rounds, **_spread(rounds), "peak_gigabytes": facts.pop("peak_bytes") / 1e9}
        if (flops := facts.pop("flops", None)) is not None:
            entry["share_of_sgemm"] = statistics.median(rounds) * flops / (gigaflops * 1e9)
        if name != contest.ours:
            entry["times"] = _spread(times_as_fast(contest.unit, values[contest.ours], rounds))
            if outputs is not None:
                entry["agreement"] = agreement(outcomes[contest.ours]["outputs"], outputs)
        found[name] = {**entry, **facts}
    return {"title": contest.title, "unit": contest.unit, "contestants": found}


def _spread(values: Sequence[float]) -> dict[str, float]:
    spread = Spread.of(values)
    return {"median": spread.median, "low": spread.low, "high": spread.high}
