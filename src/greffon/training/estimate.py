"""Estimate the cost of a run on this machine: memory by its shape, minutes by timing a few real steps."""

import os
import platform
import resource
import statistics
import time
from dataclasses import replace
from itertools import islice

from greffon.core.errors import UserError, setting
from greffon.core.recipe import Recipe
from greffon.core.training import EVALUATIONS
from greffon.nn.build import make_model
from greffon.runs.params import of_recipe
from greffon.training.distributed.base import SINGLE_PROCESS, ProcessGroup
from greffon.training.jobs import Job
from greffon.training.loop import fit
from greffon.training.optim import make_optimizers

CALIBRATION_SECONDS = 4.0
"""Time spent on trial steps: enough for a median, short for a person who waits."""


def check_memory(recipe: Recipe, copies: int = 1) -> None:
    """Refuse what cannot fit into this machine's memory, before anything is allocated.

    `copies` is the number of processes on this machine that hold all weights.
    """
    shape, rows = recipe.shape, recipe.training.batch_size
    if recipe.objective == "seq2seq":
        rows = -(-3 * recipe.training.batch_tokens // shape.context)  # two sides, and what reads across
    if recipe.contrast is not None:
        rows = -(-2 * rows * (recipe.contrast.span_length + 2) // shape.context)
    weights = copies * 16 * of_recipe(recipe).total  # weights, gradients and two moments, in fp32
    states = 4 * rows * shape.context * shape.layers * (12 * shape.hidden_size + 3 * shape.intermediate_size)
    try:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system says
        return
    if weights + states > there:
        raise UserError(
            f"this needs about {weights / 1e9:,.1f} GB for {of_recipe(recipe).total:,} parameters and "
            f"{states / 1e9:,.1f} GB for a batch of {rows:,} sequences, but the machine has {there / 1e9:,.1f} GB; "
            f"choose a smaller shape or {setting('batch_tokens' if recipe.objective == 'seq2seq' else 'batch_size')}"
        )


def calibrated(recipe: Recipe, job: Job, group: ProcessGroup = SINGLE_PROCESS) -> Recipe:
    """Time a few real steps on a temporary model; turn minutes into steps."""
    model = make_model(recipe)
    group.to_device(model)
    trial = replace(recipe.training, steps=1_000_000)
    optimizers = make_optimizers(model, trial)
    times: list[float] = []
    started = time.perf_counter()
    for step in islice(fit(model, job.objective, job.batches, optimizers, trial, group=group), 30):
        times.append(step.seconds)
        if group.broadcast(time.perf_counter() - started > CALIBRATION_SECONDS and len(times) > 3):
            break
    # The first steps pay for fresh memory; the median ignores a hiccup of the machine.
    seconds = statistics.median(times[2:])
    started = time.perf_counter()
    group.score(model, job.evaluate)
    evaluation = time.perf_counter() - started
    steps = recipe.training.steps
    if steps == 0:
        every = recipe.training.evaluate_every
        if every:
            left, seconds_with = 60 * recipe.training.minutes - evaluation, seconds + evaluation / every
        else:
            left, seconds_with = 60 * recipe.training.minutes - (EVALUATIONS + 1) * evaluation, seconds
        steps = max(1, int(max(0.0, left) / seconds_with))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if platform.system() == "Darwin" else 1024)
    return replace(
        recipe,
        training=replace(recipe.training, steps=steps),
        cost={
            "parameters": sum(p.numel() for p in model.parameters()),
            "seconds_a_step": round(seconds, 4),
            "seconds_an_evaluation": round(evaluation, 3),
            "peak_gigabytes": round(peak / 1e9, 2),
        },
    )


def cost_line(recipe: Recipe, done: int = 0) -> str:
    """Describe the cost of the run, or of the rest of it, on this machine in one line."""
    cost, training = recipe.cost, recipe.training
    evaluations = -(-training.steps // training.eval_interval) - -(-done // training.eval_interval) + 1
    steps = training.steps - done
    minutes = (steps * cost["seconds_a_step"] + evaluations * cost["seconds_an_evaluation"]) / 60
    rows = training.batch_size * training.gradient_accumulation
    unit = f"{rows * recipe.shape.context:,} tokens" if recipe.graft is None else f"{rows} texts"
    if recipe.contrast is not None:
        unit = f"{rows} pairs of spans"
    if recipe.objective == "seq2seq":
        unit = f"{training.batch_tokens * training.gradient_accumulation:,} tokens"
    return (
        f"{recipe.preset}: {int(cost['parameters']):,} parameters; about {cost['peak_gigabytes']:.1f} GB of memory "
        f"and {_duration(minutes)} here, for {steps:,} steps of {unit}"
    )


def _duration(minutes: float) -> str:
    if minutes < 1.5:
        return f"{max(2, round(60 * minutes))} seconds"
    return f"{minutes:.0f} minutes" if minutes < 120 else f"{minutes / 60:.1f} hours"
