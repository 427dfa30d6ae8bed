"""The clock of a training that lasts so many minutes: it plans the number of steps by what is measured on the way.

What else the machine does can change at any time, so the plan is made anew at least forty times, and more often
towards the end. Each plan is a `Segment` of the schedule.
"""

import math
from dataclasses import replace

from greffon.core.training import EVALUATIONS, Training
from greffon.training.schedule import Schedule, Segment

PLANS = 40
"""Least number of plans of one training."""
FINEST = 1 / 400
"""Least share of the time between two plans."""
LEFT = 0.25
"""Share of the time left, or of the steps left, after which it is planned anew."""
MEMORY = 1 / 20
"""Share of the time after which a step counts half in the measured speed."""
COOLDOWN = 0.02
"""Share of the time that the whole decay of the learning rate takes at least, even if the time is over."""
HICCUP = 20
"""A step that takes more times the usual says nothing of the next ones: the machine slept."""
SETTLED = 5
"""Number of steps after which their mean is one of a usual step."""
FEWEST_LAPS = 3
"""Number of steps that are timed before the first plan: the first one pays for fresh memory."""


class Clock:
    """Measures a training, and plans its steps; all times are in seconds, `now` by any clock that only rises."""

    def __init__(
        self, training: Training, *, now: float, elapsed: float = 0.0, evaluation: float = 0.0, step: float = 0.0
    ) -> None:
        self.training = training
        self.budget = 60 * training.minutes
        self.judged = (evaluation, step)  # time that an evaluation and a step took before the training
        self.shortest = self.fastest = math.inf  # times of an evaluation and of a step, when the machine did least else
        self.began = now - elapsed
        self.lap_began = now
        self.laps = 0
        self.next_plan = elapsed
        self.next_step = 0
        self.parts = self._part(elapsed)  # of the training that have passed; an evaluation ends each
        self.seconds = self.steps = 0.0  # of recent steps, with less weight the longer ago

    def elapsed(self, now: float) -> float:
        """Return the seconds since the training began."""
        return now - self.began

    def stepped(self, now: float) -> None:
        """Measure a step, and what was done since the one before: it ends now."""
        lap = self._lap(now)
        self.laps += 1
        if self.laps == 1:
            return
        if self.steps:
            lap = min(lap, HICCUP * self.seconds / self.steps)
        left = max(0.0, self.budget - self.elapsed(now))
        keep = 0.5 ** (lap / max(min(MEMORY * self.budget, left / 2), lap))
        self.seconds, self.steps = keep * self.seconds + lap, keep * self.steps + 1
        if self.laps > SETTLED:
            self.fastest = min(self.fastest, self.seconds / self.steps)

    def evaluated(self, now: float) -> None:
        """Measure an evaluation, which ends now."""
        self.shortest = min(self.shortest, self._lap(now))

    @property
    def evaluation(self) -> float:
        """The time that an evaluation takes now: it is as much slower than it can be as a step is."""
        known = math.isfinite(self.shortest) and math.isfinite(self.fastest)
        evaluation, step = (self.shortest, self.fastest) if known else self.judged
        return evaluation * (self.seconds / self.steps / step if self.steps and step else 1.0)

    def plan(self, now: float, step: int, schedule: Schedule) -> Segment | None:
        """Plan anew after a step, if that is due; where a record is repeated, nothing is."""
        segment, elapsed = schedule.at(step), self.elapsed(now)
        repeating = schedule.segments[-1].step > step
        if repeating or not segment.timed or schedule.ends(step):
            return None
        evaluate, measured = self._evaluates(elapsed, step), self.laps >= FEWEST_LAPS
        soon = measured and (step >= self.next_step or elapsed >= self.next_plan)
        if not (evaluate or soon):
            return None
        steps = segment.steps
        if measured:
            interval = min(self.budget / PLANS, LEFT * (self.budget - elapsed), elapsed)
            self.next_plan = elapsed + max(interval, FINEST * self.budget)
            steps = step + self._steps_left(elapsed, segment.decay_at(step), evaluate)
            self.next_step = step + math.ceil(LEFT * (steps - step))
        if steps == segment.steps and not evaluate:
            return None
        made = segment.replanned(self.training, step, steps, evaluate=evaluate, timed=True)
        return replace(made, seconds=round(elapsed, 3))

    def _evaluates(self, elapsed: float, step: int) -> bool:
        """Whether to evaluate after this step; where the clock decides it, only if the last evaluation still fits."""
        every, part = self.training.evaluate_every, self._part(elapsed)
        if every:
            return step % every == 0
        due, self.parts = part > self.parts, max(self.parts, part)
        return due and elapsed + self.evaluation + self._at_the_end() <= self.budget

    def _steps_left(self, elapsed: float, decayed: float, evaluate: bool) -> int:
        """Count the steps that fit into the time left, between the evaluations that are still to come."""
        pace, every = self.seconds / self.steps, self.training.evaluate_every
        left = self.budget - elapsed - self._at_the_end() - evaluate * self.evaluation
        if every:
            pace += self.evaluation / every
        else:  # steps need half of the time at least: on a slow machine, some evaluations are left out
            left -= min((EVALUATIONS - 1 - self.parts) * self.evaluation, left / 2)
        return max(1, round(max(left, COOLDOWN * self.budget * (1 - decayed)) / pace))

    def _at_the_end(self) -> float:
        """Return the time that the evaluations after the last step take: where weights are averaged, a second one."""
        return self.evaluation * (1 + (self.training.average_checkpoints > 1))

    def _part(self, elapsed: float) -> int:
        return min(EVALUATIONS - 1, int(EVALUATIONS * elapsed / self.budget))

    def _lap(self, now: float) -> float:
        lap, self.lap_began = now - self.lap_began, now
        return lap
