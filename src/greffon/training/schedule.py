"""How long a training lasts, and the learning rate at each of its steps.

A training of so many steps has one segment. A training of so many minutes has many: whenever it is planned anew, by
`greffon.training.clock`, another segment begins. The learning rate is a pure function of the step and the segments, so
that there is no scheduler state to save, and a training that is given the same segments is the same bit for bit.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from greffon.core.config import from_dict
from greffon.core.training import Training


@dataclass(frozen=True)
class Segment:
    """What is planned from one step on, until something else is: a line of `schedule.jsonl`."""

    step: int
    """Number of steps that were done when this was planned."""
    steps: int
    """Number of steps of the whole training."""
    peak: float
    """Number of steps after which the warm-up ends, or has ended."""
    risen: float = 0.0
    """Share of the warm-up done before `step`."""
    decayed: float = 0.0
    """Share of the decay done before `step`."""
    evaluate: bool = False
    """Whether held-out data is scored at `step`."""
    timed: bool = False
    """Whether the number of steps follows the clock."""
    seconds: float = 0.0
    """Seconds of training when this was planned."""

    @classmethod
    def first(cls, training: Training, *, timed: bool = False) -> "Segment":
        """Plan a whole training."""
        return cls(0, training.steps, float(_warmup(training, training.steps)), timed=timed)

    @classmethod
    def read(cls, entries: Sequence[Mapping[str, Any]], where: str) -> "list[Segment]":
        """Read the lines of a file; a later line replaces those of the same step and of later ones."""
        found: list[Segment] = []
        for entry in entries:
            segment = from_dict(cls, entry, where)
            found = [*(one for one in found if one.step < segment.step), segment]
        return found

    def to_json(self) -> dict[str, Any]:
        """Return what is written into the file."""
        return asdict(self)

    def decay_at(self, step: int) -> float:
        """Return the share of the decay that is done before a step."""
        begin = max(self.peak, self.step)
        if step <= begin:
            return self.decayed
        return self.decayed + (1 - self.decayed) * ((step - begin) / max(1, self.steps - begin))

    def replanned(self, training: Training, step: int, steps: int, **more: Any) -> "Segment":
        """Plan a training of another number of steps from a step on; the learning rate goes on from where it is."""
        risen, peak = 1.0, self.peak
        if step < self.peak:
            risen = self.risen + (1 - self.risen) * ((step - self.step) / (self.peak - self.step))
            peak = step + (1 - risen) * _warmup(training, steps)
        return Segment(step, steps, peak, risen, self.decay_at(step), **more)

    def extended(self, step: int, steps: int) -> "Segment":
        """Plan a fixed number of steps from a step on, at the learning rate of a training that always had as many."""
        decayed = max(0.0, (step - self.peak) / max(1, steps - self.peak))
        return Segment(step, steps, min(self.peak, step), 1.0, decayed)


def _warmup(training: Training, steps: int) -> int:
    """Return the steps of the warm-up: a short run must not spend all its steps warming up."""
    return min(training.warmup_steps, steps // 5)


class Schedule:
    """The segments of one training, of which it is in the last one, unless it is repeated from its record."""

    def __init__(self, training: Training, done: int = 0, segments: Sequence[Segment] = ()) -> None:
        self.training = training
        self.done = done  # steps done before this schedule is used
        self.segments = list(segments) or [Segment.first(training)]

    def at(self, step: int) -> Segment:
        """Return the segment in force once `step` steps are done."""
        return next((one for one in reversed(self.segments) if one.step <= step), self.segments[0])

    def ends(self, step: int) -> bool:
        """Whether the training is over once `step` steps are done."""
        return step >= self.at(step).steps

    def evaluates(self, step: int) -> bool:
        """Whether held-out data is scored once `step` steps are done."""
        segment = self.at(step)
        if not segment.timed:
            return self.training.evaluates(step)
        return step == segment.steps or (segment.evaluate and segment.step == step)

    def lr_multiplier(self, step: int) -> float:
        """Return the share of the full learning rate at a step: warm-up, then decay."""
        segment = self.at(step)
        if step < segment.peak:
            rise = (step - segment.step + 1) / (segment.peak - segment.step)
            return min(1.0, segment.risen + (1 - segment.risen) * rise)
        done = segment.decay_at(step)
        schedules = {
            "linear": 1 - done,
            "cosine": (1 + math.cos(math.pi * done)) / 2,
            "inverse-sqrt": math.sqrt(max(1, segment.peak) / (step + 1)),  # Noam: the warm-up sets its scale
            "constant": 1.0,
        }
        return max(0.0, schedules[self.training.lr_schedule])
