"""A training of so many minutes ends in time, whatever else the machine does, and its schedule comes to its end."""

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from greffon.core.training import Training
from greffon.training.clock import PLANS, Clock
from greffon.training.schedule import Schedule, Segment

MINUTES = 20.0
TRAINING = Training(minutes=MINUTES, warmup_steps=100, lr_schedule="linear")


def simulate(
    training: Training, planned: int, pace: float, slowness: list[tuple[float, float]], evaluation: float
) -> tuple[float, Schedule, list[float]]:
    """Train by a clock that only counts: `slowness` is (seconds, factor), again and again."""
    schedule = Schedule(training, 0, [Segment.first(replace(training, steps=planned), timed=True)])
    period = sum(seconds for seconds, _ in slowness)
    uneven = random.Random(0)

    def slow(now: float) -> float:
        place = now % period
        for seconds, factor in slowness:
            if place < seconds:
                return factor
            place -= seconds
        return 1.0

    clock = Clock(training, now=0.0, evaluation=evaluation, step=pace)
    now, multipliers, step = 0.0, list[float](), 0
    while not schedule.ends(step):
        multipliers.append(schedule.lr_multiplier(step))
        now += pace * slow(now) * uneven.uniform(0.7, 1.3)
        step += 1
        clock.stepped(now)
        made = clock.plan(now, step, schedule)
        if made is not None:
            schedule.segments.append(made)
        if schedule.evaluates(step):
            now += evaluation * slow(now)
            clock.evaluated(now)
    return now, schedule, multipliers


NEIGHBOURS = st.lists(st.tuples(st.floats(5, 400), st.sampled_from([1.0, 1.7, 4.0, 16.0])), min_size=1, max_size=6)


@settings(max_examples=15, deadline=None, phases=(Phase.generate,))  # to shrink takes minutes
@given(NEIGHBOURS, st.sampled_from([0.1, 0.5]), st.floats(0.02, 50), st.floats(0, 3), st.sampled_from([0, 97]))
def test_it_ends_in_time_whatever_the_neighbour_does(
    slowness: list[tuple[float, float]], pace: float, misjudged: float, evaluation: float, every: int
) -> None:
    planned = max(1, int(misjudged * 60 * MINUTES / pace))
    training = replace(TRAINING, evaluate_every=every)
    evaluation = min(evaluation, pace * every) if every else evaluation
    seconds, schedule, multipliers = simulate(training, planned, pace, slowness, evaluation)
    assert seconds == pytest.approx(60 * MINUTES, rel=0.05)
    peak = multipliers.index(max(multipliers))
    assert max(multipliers) > 0.9
    assert multipliers[-1] < 0.1
    assert all(later <= earlier + 1e-12 for earlier, later in itertools.pairwise(multipliers[peak:]))
    if not every:
        assert len(schedule.segments) < 4 * PLANS
        assert sum(segment.evaluate for segment in schedule.segments) == 9  # and the last


SHORT = st.lists(st.floats(5, 400), min_size=1, max_size=6)


@settings(max_examples=20, deadline=None, phases=(Phase.generate,))
@given(SHORT, st.sampled_from([(0.01, [1.0, 1.7, 4.0]), (0.02, [1.0, 1.4, 2.0])]), st.randoms(use_true_random=False))
def test_long_evaluations_end_in_time_too(
    seconds: list[float], case: tuple[float, list[float]], choice: random.Random
) -> None:
    """An evaluation takes 1 % or 2 % of the time on a quiet machine, and at most 4 % beside a neighbour."""
    share, factors = case
    slowness = [(span, choice.choice(factors)) for span in seconds]
    took, schedule, multipliers = simulate(TRAINING, 2400, 0.5, slowness, share * 60 * MINUTES)
    assert took == pytest.approx(60 * MINUTES, rel=0.05)
    assert multipliers[-1] < 0.1
    assert 8 <= sum(segment.evaluate for segment in schedule.segments) <= 9


@pytest.mark.parametrize("evaluation", [0.005, 0.02, 0.04])
def test_evaluations_that_no_longer_fit_are_left_out_of_a_steadily_slow_training(evaluation: float) -> None:
    quiet, slow = (simulate(TRAINING, 2400, 0.5, [(1.0, factor)], evaluation * 60 * MINUTES) for factor in (1.0, 8.0))
    for took, _schedule, multipliers in (quiet, slow):
        assert took == pytest.approx(60 * MINUTES, rel=0.05)
        assert multipliers[-1] < 0.1
    scored = [sum(segment.evaluate for segment in schedule.segments) for _, schedule, _ in (quiet, slow)]
    assert scored[0] == 9
    assert (scored[1] < 9) == (evaluation > 0.005)
    assert scored[1] * 8 * evaluation < 1


@pytest.mark.parametrize("elapsed", [0.0, 300.0])
def test_evaluations_of_every_nth_step_begin_with_the_first(elapsed: float) -> None:
    """At the start and after a resume: before enough was measured for a plan."""
    training = replace(TRAINING, evaluate_every=2)
    schedule = Schedule(training, 0, [Segment.first(replace(training, steps=6000), timed=True)])
    clock, evaluated = Clock(training, now=0.0, elapsed=elapsed), []
    for step in range(1, 9):
        clock.stepped(step * 0.2)
        schedule.segments += [made] if (made := clock.plan(step * 0.2, step, schedule)) else []
        evaluated += [step] if schedule.evaluates(step) else []
    assert evaluated == [2, 4, 6, 8]


def test_a_steady_machine_gives_nearly_the_schedule_of_as_many_steps() -> None:
    seconds, _schedule, multipliers = simulate(TRAINING, 6000, 0.2, [(1.0, 1.0)], 0.0)
    assert seconds == pytest.approx(60 * MINUTES, rel=0.01)
    whole = Schedule(replace(TRAINING, steps=len(multipliers)))
    assert multipliers == pytest.approx([whole.lr_multiplier(step) for step in range(len(multipliers))], abs=0.02)


def test_one_segment_is_the_schedule_of_so_many_steps() -> None:
    for schedule in ("linear", "cosine", "inverse-sqrt", "constant"):
        training = Training(steps=50, warmup_steps=7, lr_schedule=schedule)
        timed = Schedule(training, 0, [Segment.first(training, timed=True)])
        assert [timed.lr_multiplier(s) for s in range(50)] == [Schedule(training).lr_multiplier(s) for s in range(50)]
        # A plan that changes nothing changes no rate.
        first = Segment.first(training)
        for step in (3, 7, 30):
            again = Schedule(training, 0, [first, first.replanned(training, step, 50)])
            expected = [Schedule(training).lr_multiplier(s) for s in range(50)]
            assert [again.lr_multiplier(s) for s in range(50)] == pytest.approx(expected)


def test_the_last_line_of_a_step_counts() -> None:
    lines = [Segment(step, steps, 5.0).to_json() for step, steps in ((0, 100), (10, 80), (20, 70), (10, 60))]
    assert [(one.step, one.steps) for one in Segment.read(lines, "here")] == [(0, 100), (10, 60)]
    assert Schedule(TRAINING, 0, Segment.read(lines, "here")).ends(60)


def test_time_that_was_lost_at_once_ends_the_training_soon() -> None:
    training = replace(TRAINING, minutes=1.0)
    schedule = Schedule(training, 0, [Segment.first(replace(training, steps=600), timed=True)])
    clock, now, step = Clock(training, now=0.0), 0.0, 0
    while not schedule.ends(step):
        now += 0.1 if step != 300 else 40.0  # the machine slept
        step += 1
        clock.stepped(now)
        schedule.segments += [made] if (made := clock.plan(now, step, schedule)) else []
    assert now < 1.05 * 70
    assert schedule.lr_multiplier(step - 1) < 0.15
