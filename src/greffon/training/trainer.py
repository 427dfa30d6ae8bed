"""Carry out a run's recipe, from the start or from its checkpoint: prepare, train, evaluate, save.

The loop itself is `fit`; what is done around it (progress, metrics, checkpoints, best weights) is here.
"""

import math
import signal
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from greffon.core.config import from_dict
from greffon.core.console import say
from greffon.core.errors import UserError, setting
from greffon.core.locks import sole_use
from greffon.core.machine import keep_memory
from greffon.core.recipe import Recipe
from greffon.core.training import Training
from greffon.data.corpora import documents
from greffon.data.parallel import training_pairs
from greffon.data.tokenizer import Tokenizer
from greffon.nn.build import make_model
from greffon.nn.model import Model, compile_blocks
from greffon.runs.huggingface.companions import inherit_companions
from greffon.runs.run import SCHEDULE, Run
from greffon.runs.tensors import fill, tensors_of
from greffon.training.clock import Clock
from greffon.training.distributed.base import SINGLE_PROCESS, ProcessGroup
from greffon.training.distributed.shared_run import shared
from greffon.training.estimate import calibrated, check_memory, cost_line
from greffon.training.jobs import JOBS, Job
from greffon.training.listeners import Listeners, listening
from greffon.training.loop import Step, fit
from greffon.training.lsa_start import begin_with_lsa
from greffon.training.optim import load_state_tensors, make_optimizers, state_tensors
from greffon.training.probe_head import start_at_probe
from greffon.training.progress import TrainingProgress
from greffon.training.schedule import Schedule, Segment
from greffon.training.selection import selected
from greffon.training.spikes import MAX_SKIPPED_IN_A_ROW, SpikeDetector
from greffon.training.transfer import transfer, transfer_sides

LOG_EVERY_SECONDS = 1.0
"""Least time between two steps in metrics.jsonl."""
FIRST_STEPS = 20
"""The first steps are all logged: the loss falls fastest there."""


class Interrupted(KeyboardInterrupt):
    """Training stopped because the user asked; everything is saved, and `how` is the command that resumes."""

    def __init__(self, how: str, signal: int = signal.SIGINT) -> None:
        super().__init__()
        self.how, self.signal = how, signal


def train(run: Run, *, quiet: bool = False, group: ProcessGroup = SINGLE_PROCESS, trackers: Sequence[str] = ()) -> Run:
    """Train a run to its last step; a run that has a checkpoint resumes from it.

    `trackers` are tools that are told of the metrics as well: tensorboard, mlflow.
    """
    keep_memory()
    run = shared(run, group)
    silent = quiet or not group.is_main
    tell: Callable[[str], None] = (lambda message: None) if silent else say
    try:
        with sole_use(run.path) if group.holds_lock else nullcontext():
            _carry_out(run, tell, quiet, group, trackers)
    except KeyboardInterrupt as stop:
        raise Interrupted(f"greffon resume {run.path}", getattr(stop, "signal", signal.SIGINT)) from None
    except OSError as problem:
        raise UserError(_not_written(run, problem)) from None
    return run


def _carry_out(
    run: Run, tell: Callable[[str], None], quiet: bool, group: ProcessGroup, trackers: Sequence[str]
) -> None:
    with group.main_process_first():
        if group.is_main:
            run.sweep()
            prepare_tokenizer(run, tell)
    run.recipe = _agreed(run.recipe, group)
    check_memory(run.recipe, group.copies)
    with group.main_process_first():
        job = JOBS[run.recipe.objective](run.recipe, run.tokenizer)
    tell(job.summary)
    _note_data(run, job)
    _adapt(run, tell, quiet, group)
    if run.recipe.data.selection == "folds" and not run.recipe.data.fold:
        job = selected(run, job, lambda fold: train(fold, quiet=True, group=group), tell, group)
    timed = run.recipe.training.steps == 0
    if timed or not (run.recipe.cost or quiet):
        recipe = _agreed(calibrated(run.recipe, job, group), group)
        if timed:
            run.log_schedule(Segment.first(recipe.training, timed=True).to_json())
        run.save_recipe(recipe)
    if not quiet:
        tell(cost_line(run.recipe, run.checkpoint_step))
    _train(run, job, tell, quiet, group, trackers)


def _not_written(run: Run, problem: OSError) -> str:
    """Make the error message for a full or read-only disk."""
    step = run.checkpoint_step
    kept = f"the checkpoint of step {step:,} is whole" if step else "there is no checkpoint yet"
    return (
        f"{problem.filename or run.path}: {problem.strerror}; free some room or mend the permissions, then go on with "
        f"`greffon resume {run.path}` ({kept})"
    )


def _agreed(recipe: Recipe, group: ProcessGroup) -> Recipe:
    """Return the recipe of the main process."""
    return recipe if group is SINGLE_PROCESS else from_dict(Recipe, group.broadcast(asdict(recipe)), "the recipe")


def prepare_tokenizer(run: Run, tell: Callable[[str], None]) -> None:
    """Put a tokenizer into the run, unless it has one: the user's, or one trained on the text."""
    data = run.recipe.data
    if not run.recipe.tokenizer_digest:
        if run.has_tokenizer:  # whole, but stopped before the recipe knew of it
            tokenizer = Tokenizer.load(run.path)
        elif data.tokenizer:
            tokenizer = Tokenizer.load(Path(data.tokenizer))
        else:
            tell(f"training a tokenizer of {run.recipe.vocab_size:,} tokens")
            if run.recipe.objective == "seq2seq":
                tokenizer = Tokenizer.train(chain.from_iterable(training_pairs(data)), run.recipe.vocab_size)
            else:
                # Which documents are alike does not depend on capitals.
                lowercase = run.recipe.objective == "contrastive"
                texts = documents(data.train, data.text_column)
                tokenizer = Tokenizer.train(texts, run.recipe.vocab_size, lowercase=lowercase)
        run.adopt(tokenizer)


def _note_data(run: Run, job: Job) -> None:
    """Warn if the text has changed since the checkpoint, or since the run began, and store its digest."""
    known = run.checkpoint_state.get("data", run.recipe.data.digest)
    if known and known != job.digest:
        warnings.warn("the text is not the one this run was trained on; it goes on with the new text", stacklevel=2)
    run.save_recipe(replace(run.recipe, data=replace(run.recipe.data, digest=job.digest)))


# -- the loop, observed ----------------------------------------------------------------------


@dataclass
class TrainingState:
    """How far a training has come: what a checkpoint keeps besides tensors."""

    step: int = 0
    best: dict[str, float] | None = None
    stale: int = 0  # evaluations since the best
    seconds: float = 0.0
    elapsed: float = 0.0  # seconds of training with its evaluations, where it follows the clock
    spikes: SpikeDetector = field(default_factory=SpikeDetector)

    def out_of_patience(self, training: Training) -> bool:
        """Whether there were too many evaluations without a better score."""
        return 0 < training.patience <= self.stale


def _adapt(run: Run, tell: Callable[[str], None], quiet: bool, group: ProcessGroup) -> None:
    """Go on pretraining the body on the texts of the task first, where the run has a body of its own for that."""
    source = Run.open(run.recipe.origin) if run.recipe.origin else run
    if source.path.parent == run.path.resolve() and not source.finished:
        tell(f"adapting the body to the task's own text: {source.path}")
        train(source, quiet=quiet, group=group)
        if source.scores["step"] == 0:
            tell("adapting did not help: held-out text of the task got no likelier, and the body is as it was")


def _initial(run: Run, tell: Callable[[str], None], group: ProcessGroup) -> Model:
    """Build the model of the first step: with new weights, or with the body of its origin.

    Where there is a checkpoint, its weights replace these, so that what costs time is left out.
    """
    recipe = run.recipe
    model = make_model(recipe)
    if recipe.contrast is not None and not recipe.origin:
        with group.main_process_first():
            if group.is_main and not run.checkpoint_step:
                begin_with_lsa(model, recipe, run.tokenizer)
        _share_weights(model, group)
    if recipe.origin:
        source = Run.open(recipe.origin)
        if recipe.vocab_size != source.recipe.vocab_size or run.tokenizer.digest != source.tokenizer.digest:
            raise UserError(f"{source.path} has another tokenizer; give {setting('tokenizer', source.path)}")
        tell(str(transfer(model, source, head=recipe.graft is None)))
        if group.is_main:
            inherit_companions(run, [source])
    if recipe.encoder_origin or recipe.decoder_origin:
        sides = [Run.open(path) if path else None for path in (recipe.encoder_origin, recipe.decoder_origin)]
        tell(str(transfer_sides(model, run.tokenizer, *sides)))
        if group.is_main:
            inherit_companions(run, [side for side in sides if side is not None])
    if recipe.graft is not None and recipe.graft.head_init == "probe" and not run.checkpoint_step:
        probe = start_at_probe(model, recipe, run.tokenizer)
        tell(f"head: starts as the probe, logistic regression on the body's vectors (C {probe.strength:g})")
    if recipe.graft is not None and recipe.graft.freeze:
        model.body.requires_grad_(False)
    return model


@torch.no_grad()
def _share_weights(model: Model, group: ProcessGroup) -> None:
    """Give every process the weights of the main process, exactly."""
    for p in model.parameters():
        p.copy_(group.sum_rows(p if group.is_main else p[:0], 0, len(p)))


def _train(
    run: Run, job: Job, tell: Callable[[str], None], quiet: bool, group: ProcessGroup, trackers: Sequence[str]
) -> None:
    training = run.recipe.training
    model = _initial(run, tell, group)
    if training.compile:
        compile_blocks(model)
    group.to_device(model)
    run.save_recipe(replace(run.recipe, environment=_machine(group)))
    optimizers = make_optimizers(model, training)
    state = _restore(run, model, optimizers, tell, group)
    run.forget_after(state.step or -1)  # without a checkpoint even step 0 is done again
    run.drop_snapshots(after=state.step)
    schedule = Schedule(training, state.step, Segment.read(group.broadcast(run.schedule()), str(run.path / SCHEDULE)))
    with (
        TrainingProgress(schedule.at(state.step).steps, state.step, quiet or not group.is_main) as progress,
        _stop_signals() as stop,
        listening(run, trackers if group.is_main else (), state.step) as listeners,
    ):
        _Trainer(run, job, model, optimizers, state, group, progress, listeners, schedule).train(stop)
    run.mark_finished()
    if state.spikes.skipped:
        tell(f"{state.spikes.skipped:,} steps were skipped because their numbers went wrong; metrics.jsonl names them")


@dataclass
class _Trainer:
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

    def train(self, stop: "Stop") -> None:
        """Bring the model to its last step, to the end of its patience, or to where the user stops it."""
        training, state, job, schedule = self.training, self.state, self.job, self.schedule
        if (
            state.out_of_patience(training) or state.step == job.final_step
        ):  # just before the run was marked as finished
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
            if step.number == job.final_step:
                break
            if state.out_of_patience(training):
                several = "s" * (state.stale != 1)
                self.progress.say(f"stopping early: no better score in {state.stale} evaluation{several}")
                break
        if job.final_step is None and training.average_checkpoints > 1 and self.evaluate_average():
            self.save()
        if self.clock is not None and schedule.segments[-1].step < state.step:  # nothing was planned after this
            seconds = round(self.clock.elapsed(time.monotonic()), 3)
            last = schedule.at(state.step).replanned(training, state.step, state.step, timed=True, seconds=seconds)
            self.record(from_dict(Segment, self.group.broadcast(last.to_json()), "the schedule"))

    def after(self, step: Step, stop: "Stop") -> None:
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
        stopped, checkpoint_due = self.group.any_rank(bool(stop.asked), checkpoint_due)
        if evaluation_due or checkpoint_due or stopped:
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
        scores = self.group.score(self.model, self.job.evaluate)
        if self.job.judge is not None:
            judged = self.group.score(self.model, self.job.judge)
            if self.group.is_main:
                self.run.log_judged({"step": state.step, "probabilities": judged})
        entry = {"step": state.step, "seconds": round(state.seconds, 3), "valid": scores}
        self.listeners.record({**entry, "averaged": averaged} if averaged else entry)
        self.progress.evaluation(state.step, scores, averaged)
        # A loss that is not a number is never the best, whatever the other scores.
        if state.best is None or (math.isfinite(scores["loss"]) and key(scores) > key(state.best)):
            state.best = {**scores, "step": state.step}
            state.stale = 0
            self.run.save_model(self.model, state.best)
        else:
            state.stale += 1

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


def _restore(
    run: Run,
    model: Model,
    optimizers: list[torch.optim.Optimizer],
    tell: Callable[[str], None],
    group: ProcessGroup = SINGLE_PROCESS,
) -> TrainingState:
    """Load the newest checkpoint into the model and its optimizers, if there is one, and return its state."""
    found = run.load_checkpoint()
    if found is None:
        return TrainingState()
    stored, tensors = found
    parts: dict[str, dict[str, torch.Tensor]] = {"model": {}, "optimizer": {}}
    for key, tensor in tensors.items():
        kind, _, name = key.partition("/")
        parts.setdefault(kind, {})[name] = tensor
    where = run.path / "checkpoints"
    fill(model, parts["model"], where)
    load_state_tensors(model, optimizers, parts["optimizer"])
    known = {f.name: stored[f.name] for f in fields(TrainingState) if f.name in stored}
    state = from_dict(TrainingState, known, str(where))
    _warn_of_changes(stored.get("environment"), environment(group))
    tell(f"going on from step {state.step:,}")
    return state


def _warn_of_changes(before: object, now: Mapping[str, Any]) -> None:
    """Warn of each difference between the environment of the checkpoint and the present one."""
    usual = {"processes": 1, "device": "cpu", "precision": "fp32"}
    known = usual | (before if isinstance(before, dict) else {})
    for name, value in (usual | dict(now)).items():
        if known.get(name) != value:
            warnings.warn(
                f"{name}: {known.get(name)} before, {value} now; results may differ in the last digits", stacklevel=3
            )


def environment(group: ProcessGroup = SINGLE_PROCESS) -> dict[str, Any]:
    """Return what the last digits of a result depend on, apart from the recipe."""
    return {
        "torch version": torch.__version__,
        "threads": torch.get_num_threads(),
        "CPU instructions": torch.backends.cpu.get_cpu_capability(),
        **group.environment(),
    }


def _machine(group: ProcessGroup) -> dict[str, Any]:
    """Return what the recipe tells of the machine: the choices of device, precision and threads."""
    found = environment(group)
    return {name: found[name] for name in ("device", "precision", "threads")}


class Stop:
    """A request to stop, which is looked at after each step."""

    asked = 0  # the signal that was received; 0: none


@contextmanager
def _stop_signals() -> Iterator[Stop]:
    """Turn Ctrl-C and SIGTERM into a request to stop after the current step; a second Ctrl-C stops at once."""
    stop = Stop()

    def ask(number: int, frame: object) -> None:
        if stop.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        stop.asked = number

    try:
        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: the caller handles signals
        yield stop
        return
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
