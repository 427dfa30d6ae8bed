"""What is done after each step of `fit`: progress, metrics, evaluations, checkpoints, best weights."""

import math
import signal
import time
from dataclasses import asdict, dataclass, field, replace

import torch

from greffon.core.config import from_dict
from greffon.core.errors import UserError, setting
from greffon.core.training import Training
from greffon.nn.model import Model
from greffon.runs.run import Run
from greffon.runs.tensors import fill, tensors_of
from greffon.training.block_share import with_block_share
from greffon.training.clock import Clock
from greffon.training.distributed.base import ProcessGroup
from greffon.training.jobs import Job
from greffon.training.listeners import Listeners
from greffon.training.loop import Step, fit
from greffon.training.optim import state_tensors
from greffon.training.progress import TrainingProgress
from greffon.training.schedule import Schedule, Segment
from greffon.training.spikes import MAX_SKIPPED_IN_A_ROW
from greffon.training.state import TrainingState, environment
from greffon.training.stop import Interrupted, Stop

LOG_EVERY_SECONDS = 1.0
"""Least time between two steps in metrics.jsonl."""
FIRST_STEPS = 20
"""The first steps are all logged: the loss falls fastest there."""


@dataclass
class Trainer:
    """Trains one model: after each step of `fit` it logs, evaluates and saves what is due."""

    run: Run
    job: Job
    model: Model
    optimizers: list[torch.optim.Optimizer]
    state: TrainingState
    group: ProcessGroup
    progress: TrainingProgress
    listeners: Listeners
    schedule: Schedule
    clock: Clock | None = None  # of a training that lasts so many minutes
    logged: float = field(default_factory=time.monotonic)  # when a step was last written to metrics.jsonl
    saved: float = field(default_factory=time.monotonic)  # when a checkpoint was last written

    @property
    def training(self) -> Training:
        """The settings of the run's recipe."""
        return self.run.recipe.training

    @property
    def only_scored(self) -> bool:
        """Whether only the scores are of use, as of a fold: its weights are never read, and an epoch is done again."""
        return self.run.recipe.data.fold > 0

    def train(self, stop: Stop) -> None:
        """Bring the model to its last step, to the end of its patience, or to where the user stops it."""
        training, state, job, schedule = self.training, self.state, self.job, self.schedule
        # Just before the run was marked as finished, or is paused.
        if state.out_of_patience(training) or state.step in (job.final_step, job.pause_step):
            schedule.done = schedule.at(state.step).steps
        if state.step == 0 and job.final_step in (None, 0):
            self.evaluate()
        if schedule.at(state.step).timed:
            cost, now = self.run.recipe.cost, time.monotonic()
            costs = (cost.get("seconds_an_evaluation", 0.0), cost.get("seconds_a_step", 0.0))
            self.clock = Clock(training, now=now, elapsed=state.elapsed, evaluation=costs[0], step=costs[1])
        for step in fit(
            self.model, job.objective, job.batches, self.optimizers, training, schedule, state.spikes, self.group
        ):
            self.after(step, stop)
            if step.number in (job.final_step, job.pause_step):
                break
            if state.out_of_patience(training):
                since = f"{state.stale} evaluation{'s' * (state.stale != 1)}"
                self.progress.say(f"stopping early: neither a better score nor a lower loss in {since}")
                break
        if job.final_step is None and training.average_checkpoints > 1 and self.evaluate_average():
            self.save()
        if self.clock is not None and schedule.segments[-1].step < state.step:  # nothing was planned after this
            seconds = round(self.clock.elapsed(time.monotonic()), 3)
            last = schedule.at(state.step).replanned(training, state.step, state.step, timed=True, seconds=seconds)
            self.record(from_dict(Segment, self.group.broadcast(last.to_json()), "the schedule"))

    def after(self, step: Step, stop: Stop) -> None:
        """Do what is due after a step: log, evaluate, save, and stop if the user asked for it."""
        self.state.step = step.number
        self.state.seconds += step.seconds
        self.plan()
        final = self.job.final_step
        evaluation_due = self.schedule.evaluates(step.number) if final is None else step.number == final
        if step.skipped:
            self.report_skipped(step)
        else:
            self.log(step, always=evaluation_due)
        if evaluation_due:
            self.evaluate()
            if self.training.average_checkpoints > 1:
                self.run.save_snapshot(step.number, self.model, keep=self.training.average_checkpoints)
        checkpoint_due = time.monotonic() - self.saved > 60 * self.training.checkpoint_minutes
        checkpoint_due |= step.number == self.job.pause_step or (evaluation_due and not self.only_scored)
        stopped, checkpoint_due = self.group.any_rank(bool(stop.asked), checkpoint_due)
        if checkpoint_due or stopped:
            self.state.elapsed = self.clock.elapsed(time.monotonic()) if self.clock else 0.0
            self.save()
            self.saved = time.monotonic()
        if evaluation_due and self.clock is not None:
            self.clock.evaluated(time.monotonic())
        if stopped and not self.schedule.ends(step.number):
            raise Interrupted("", stop.asked or signal.SIGINT)

    def plan(self) -> None:
        """Plan the number of steps anew, if the training follows the clock and that is due."""
        if self.clock is None:
            return
        now = time.monotonic()
        self.clock.stepped(now)
        made = self.clock.plan(now, self.state.step, self.schedule)
        agreed = self.group.broadcast({} if made is None else made.to_json())
        if agreed:
            self.record(from_dict(Segment, agreed, "the schedule"))

    def record(self, segment: Segment) -> None:
        """Write down what is planned, and then follow it."""
        self.run.log_schedule(segment.to_json())
        self.schedule.segments.append(segment)
        self.progress.steps = segment.steps
        if segment.steps != self.training.steps:
            self.run.save_recipe(replace(self.run.recipe, training=replace(self.training, steps=segment.steps)))

    def log(self, step: Step, *, always: bool) -> None:
        """Show a step, and write it to metrics.jsonl: one a second, and each of the first."""
        self.progress.step(step)
        now = time.monotonic()
        if now - self.logged > LOG_EVERY_SECONDS or always or step.number <= FIRST_STEPS:
            self.listeners.record(
                {
                    "step": step.number,
                    "loss": step.loss,
                    **step.parts,
                    "learning_rate": step.learning_rate,
                    "grad_norm": step.grad_norm,
                    "tokens_per_second": round(step.tokens / step.seconds),
                    "seconds": round(self.state.seconds, 3),
                }
            )
            self.logged = now

    def report_skipped(self, step: Step) -> None:
        """Tell of a step that changed no weight; too many of them in a row are an error."""
        self.progress.say(f"step {step.number:,} is skipped: {step.skipped}")
        self.listeners.record({"step": step.number, "skipped": step.skipped, "seconds": round(self.state.seconds, 3)})
        if self.state.spikes.in_a_row >= MAX_SKIPPED_IN_A_ROW:
            raise UserError(_diverged(self.run, step, self.state))
        self.progress.skipped(step)

    def evaluate(self, averaged: int = 0) -> None:
        """Score the model on held-out data, and save its weights if they are the best so far.

        `averaged` is the number of snapshots whose mean the weights are.
        """
        state, key = self.state, self.job.selection_key
        if self.job.judge is None:
            scores = self.group.score(self.model, self.job.evaluate)
        else:
            scores, judged = self.group.score(self.model, self.job.judge)
            if self.group.is_main:
                self.run.log_judged({"step": state.step, "probabilities": judged})
        entry = {"step": state.step, "seconds": round(state.seconds, 3), "valid": scores}
        self.listeners.record({**entry, "averaged": averaged} if averaged else entry)
        self.progress.evaluation(state.step, scores, averaged)
        state.stale += 1
        if math.isfinite(scores["loss"]) and (state.lowest_loss is None or scores["loss"] < state.lowest_loss):
            state.lowest_loss, state.stale = scores["loss"], 0
        # A loss that is not a number is never the best, whatever the other scores.
        if state.best is None or (math.isfinite(scores["loss"]) and key(scores) > key(state.best)):
            state.best, state.stale = {**scores, "step": state.step}, 0
            if not self.only_scored:
                self.hand_over(state.best)

    def hand_over(self, scores: dict[str, float]) -> None:
        """Save the weights as the run's model."""
        contrast = self.run.recipe.contrast
        if contrast is None or not contrast.block_share:
            self.run.save_model(self.model, scores)
            return
        with with_block_share(self.model, self.job.batches(0)[0], contrast.block_share):
            self.run.save_model(self.model, scores)

    def evaluate_average(self) -> bool:
        """Evaluate the mean of the last snapshots, and say whether it is the best; the model keeps its own weights."""
        snapshots = self.run.snapshots()
        if len(snapshots) < 2:
            return False
        own = [p.detach().clone() for p in self.model.parameters()]
        mean = {name: torch.stack([one[name] for one in snapshots]).mean(dim=0) for name in snapshots[0]}
        fill(self.model, mean, self.run.path / "snapshots")
        before = self.state.best
        self.evaluate(averaged=len(snapshots))
        with torch.no_grad():
            for p, value in zip(self.model.parameters(), own, strict=True):
                p.copy_(value)
        return self.state.best is not before

    def save(self) -> None:
        """Write a checkpoint, unless the training may just be diverging: then the last good one stays."""
        tensors = {f"model/{name}": tensor for name, tensor in tensors_of(self.model).items()}
        finite = all(bool(tensor.isfinite().all()) for tensor in tensors.values())
        if any(self.group.any_rank(self.state.spikes.in_a_row > 0 or not finite)):
            return
        optimizer_state = state_tensors(self.model, self.optimizers)
        tensors |= {f"optimizer/{name}": tensor.contiguous() for name, tensor in optimizer_state.items()}
        state = {**asdict(self.state), "data": self.job.digest, "environment": environment(self.group)}
        self.run.save_checkpoint(self.state.step, tensors, state)


def _diverged(run: Run, step: Step, state: TrainingState) -> str:
    training = run.recipe.training
    kept = f"; the weights of step {state.best['step']:,} are kept" if state.best else ""
    return (
        f"training diverged: {state.spikes.in_a_row} steps in a row went wrong (step {step.number:,}: "
        f"{step.skipped}), and the run stands at its last good checkpoint, step {run.checkpoint_step:,}; start again "
        f"with a lower {setting('learning_rate')} (it was {training.learning_rate:g}) or "
        f"{setting('muon_learning_rate')} ({training.muon_learning_rate:g}){kept}"
    )
