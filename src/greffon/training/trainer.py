"""Carry out a run's recipe from wherever it stands: prepare, train, evaluate, save.

The loop itself is `fit`; what watches it (progress, metrics, checkpoints, best weights) is here.
"""

import math
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from greffon.core.config import Recipe, Training, from_dict
from greffon.core.console import say
from greffon.core.errors import UserError
from greffon.core.locks import sole_use
from greffon.core.machine import keep_memory
from greffon.data.corpora import documents
from greffon.data.parallel import training_pairs
from greffon.data.tokenizer import Tokenizer
from greffon.nn.build import make_model
from greffon.nn.model import Model, compile_blocks
from greffon.runs.run import Run
from greffon.runs.tensors import fill, tensors_of
from greffon.training.distributed.base import SINGLE_PROCESS, ProcessGroup
from greffon.training.distributed.shared_run import shared
from greffon.training.estimate import calibrated, check_memory, cost_line
from greffon.training.jobs import JOBS, Job
from greffon.training.loop import Step, fit
from greffon.training.optim import load_state_tensors, make_optimizers, state_tensors
from greffon.training.progress import TrainingProgress
from greffon.training.spikes import IN_A_ROW, SpikeDetector
from greffon.training.transfer import transfer, transfer_sides

LOG_EVERY_SECONDS = 1.0


class Interrupted(KeyboardInterrupt):
    """Work stopped because the user asked; everything is saved, and `how` says how to go on."""

    def __init__(self, how: str, signal: int = signal.SIGINT) -> None:
        super().__init__()
        self.how, self.signal = how, signal


def train(run: Run, *, quiet: bool = False, group: ProcessGroup = SINGLE_PROCESS) -> Run:
    """Bring a run to its last step; a run that has a checkpoint goes on from there."""
    keep_memory()
    run = shared(run, group)
    silent = quiet or not group.is_main
    tell: Callable[[str], None] = (lambda message: None) if silent else say
    try:
        with sole_use(run.path) if group.holds_lock else nullcontext():
            _carry_out(run, tell, quiet, group)
    except KeyboardInterrupt as stop:
        raise Interrupted(f"greffon resume {run.path}", getattr(stop, "signal", signal.SIGINT)) from None
    except OSError as problem:
        raise UserError(_not_written(run, problem)) from None
    return run


def _carry_out(run: Run, tell: Callable[[str], None], quiet: bool, group: ProcessGroup) -> None:
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
    if run.recipe.training.steps == 0 or not (run.recipe.cost or quiet):
        run.save_recipe(_agreed(calibrated(run.recipe, job, group), group))
    if not quiet:
        tell(cost_line(run.recipe, run.checkpoint_step))
    _train(run, job, tell, quiet, group)


def _not_written(run: Run, problem: OSError) -> str:
    """Say what a full or read-only disk means for the run."""
    step = run.checkpoint_step
    kept = f"the checkpoint of step {step:,} is whole" if step else "there is no checkpoint yet"
    return (
        f"{problem.filename or run.path}: {problem.strerror}; free some room or mend the permissions, then go on with "
        f"`greffon resume {run.path}` ({kept})"
    )


def _agreed(recipe: Recipe, group: ProcessGroup) -> Recipe:
    """Return the recipe as the first process has it."""
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
                tokenizer = Tokenizer.train(documents(data.train, data.text_column), run.recipe.vocab_size)
        run.adopt(tokenizer)


def _note_data(run: Run, job: Job) -> None:
    """Warn of text that is not the one of the checkpoint, or of the start, and keep the identity of this one."""
    known = run.checkpoint_state.get("data", run.recipe.data.digest)
    if known and known != job.digest:
        warnings.warn("the text is not the one this run was trained on; it goes on with the new text", stacklevel=2)
    run.save_recipe(replace(run.recipe, data=replace(run.recipe.data, digest=job.digest)))


# -- the loop, watched -----------------------------------------------------------------------


@dataclass
class _Standing:
    """Where a training stands: what a checkpoint keeps beside tensors."""

    step: int = 0
    best: dict[str, float] | None = None
    stale: int = 0  # evaluations since the best
    seconds: float = 0.0
    health: SpikeDetector = field(default_factory=SpikeDetector)

    def tired(self, training: Training) -> bool:
        """Whether patience has run out."""
        return 0 < training.patience <= self.stale


def _initial(run: Run, tell: Callable[[str], None], quiet: bool, group: ProcessGroup) -> Model:
    """Build the model as it stands before the first step: fresh, or on the body of its origin."""
    recipe = run.recipe
    model = make_model(recipe)
    if recipe.origin:
        source = Run.open(recipe.origin)
        if source.path.parent == run.path.resolve() and not source.finished:
            tell(f"adapting the body to the task's own text: {source.path}")
            train(source, quiet=quiet, group=group)
            if source.scores["step"] == 0:
                tell("adapting did not help: held-out text of the task got no likelier, and the body is as it was")
        if recipe.vocab_size != source.recipe.vocab_size or run.tokenizer.digest != source.tokenizer.digest:
            raise UserError(f"{source.path} has another tokenizer; give --tokenizer {source.path}")
        tell(str(transfer(model, source, head=recipe.graft is None)))
    if recipe.encoder_origin or recipe.decoder_origin:
        sides = [Run.open(path) if path else None for path in (recipe.encoder_origin, recipe.decoder_origin)]
        tell(str(transfer_sides(model, run.tokenizer, *sides)))
    if recipe.graft is not None and recipe.graft.freeze:
        model.body.requires_grad_(False)
    return model


def _train(run: Run, job: Job, tell: Callable[[str], None], quiet: bool, group: ProcessGroup) -> None:
    training = run.recipe.training
    model = _initial(run, tell, quiet, group)
    if training.compile:
        compile_blocks(model)
    group.to_device(model)
    optimizers = make_optimizers(model, training)
    standing = _restore(run, model, optimizers, tell, group)
    health = standing.health
    done = training.steps if standing.tired(training) else standing.step  # stopped just before it was marked
    run.forget_after(standing.step or -1)  # without a checkpoint even step 0 is done again
    run.drop_snapshots(after=standing.step)
    saved = logged = time.monotonic()
    with (
        TrainingProgress(training.steps, standing.step, quiet or not group.is_main) as progress,
        _stop_signals() as stop,
    ):
        if standing.step == 0:
            _evaluate(run, job, model, standing, progress, group)
        for step in fit(model, job.objective, job.batches, optimizers, training, done, health, group):
            standing.step = step.number
            standing.seconds += step.seconds
            now = time.monotonic()
            due = training.evaluates(step.number)
            if step.skipped:
                tell(f"step {step.number:,} is skipped: {step.skipped}")
                run.log({"step": step.number, "skipped": step.skipped, "seconds": round(standing.seconds, 3)})
                if health.in_a_row >= IN_A_ROW:
                    raise UserError(_diverged(run, step, standing))
                progress.skipped(step)
            else:
                progress.step(step)
            if not step.skipped and (now - logged > LOG_EVERY_SECONDS or due or step.number <= 20):
                run.log(_entry(step, standing))
                logged = now
            if due:
                _evaluate(run, job, model, standing, progress, group)
                if training.average_checkpoints > 1:
                    run.save_snapshot(step.number, model, keep=training.average_checkpoints)
            waited = now - saved > 60 * training.checkpoint_minutes
            asked, waited = group.any_rank(bool(stop.asked), waited)
            if due or waited or asked:
                _save(run, job, model, optimizers, standing, group)
                saved = time.monotonic()
            if asked and step.number < training.steps:
                raise Interrupted("", stop.asked or signal.SIGINT)
            if standing.tired(training):
                tell(f"stopping early: no better score in {standing.stale} evaluation{'s' * (standing.stale != 1)}")
                break
        if training.average_checkpoints > 1 and _average(run, job, model, standing, progress, group):
            _save(run, job, model, optimizers, standing, group)
    run.mark_finished()
    if health.skipped:
        tell(f"{health.skipped:,} steps were skipped because their numbers went wrong; metrics.jsonl names them")


def _average(
    run: Run, job: Job, model: Model, standing: _Standing, progress: TrainingProgress, group: ProcessGroup
) -> bool:
    """Score the mean of the last evaluations' weights; if it is the best, keep it. The model goes on as it was."""
    snapshots = run.snapshots()
    if len(snapshots) < 2:
        return False
    own = [p.detach().clone() for p in model.parameters()]
    mean = {name: torch.stack([one[name] for one in snapshots]).mean(dim=0) for name in snapshots[0]}
    fill(model, mean, run.path / "snapshots")
    before = standing.best
    _evaluate(run, job, model, standing, progress, group, averaged=len(snapshots))
    with torch.no_grad():
        for p, value in zip(model.parameters(), own, strict=True):
            p.copy_(value)
    return standing.best is not before


def _diverged(run: Run, step: Step, standing: _Standing) -> str:
    training = run.recipe.training
    kept = f"; the weights of step {standing.best['step']:,} are kept" if standing.best else ""
    return (
        f"training diverged: {standing.health.in_a_row} steps in a row went wrong (step {step.number:,}: "
        f"{step.skipped}), and the run stands at its last good checkpoint, step {run.checkpoint_step:,}; start again "
        f"with a lower --learning-rate (it was {training.learning_rate:g}) or "
        f"--muon-learning-rate ({training.muon_learning_rate:g}){kept}"
    )


def _entry(step: Step, standing: _Standing) -> dict[str, Any]:
    return {
        "step": step.number,
        "loss": step.loss,
        **step.parts,
        "learning_rate": step.learning_rate,
        "grad_norm": step.grad_norm,
        "tokens_per_second": round(step.tokens / step.seconds),
        "seconds": round(standing.seconds, 3),
    }


def _evaluate(
    run: Run,
    job: Job,
    model: Model,
    standing: _Standing,
    progress: TrainingProgress,
    group: ProcessGroup,
    averaged: int = 0,
) -> None:
    scores = group.score(model, job.evaluate)
    entry = {"step": standing.step, "seconds": round(standing.seconds, 3), "valid": scores}
    run.log({**entry, "averaged": averaged} if averaged else entry)
    progress.evaluation(standing.step, scores, averaged)
    # A loss that is no number is never the best, whatever the other scores.
    if standing.best is None or (
        math.isfinite(scores["loss"]) and job.selection_key(scores) > job.selection_key(standing.best)
    ):
        standing.best = {**scores, "step": standing.step}
        standing.stale = 0
        run.save_model(model, standing.best)
    else:
        standing.stale += 1


def _save(
    run: Run,
    job: Job,
    model: Model,
    optimizers: list[torch.optim.Optimizer],
    standing: _Standing,
    group: ProcessGroup,
) -> None:
    """Keep where the training stands, unless it may just be diverging: then the last good checkpoint stays."""
    tensors = {f"model/{name}": tensor for name, tensor in tensors_of(model).items()}
    unsound = standing.health.in_a_row > 0 or not all(bool(tensor.isfinite().all()) for tensor in tensors.values())
    if any(group.any_rank(unsound)):
        return
    tensors |= {f"optimizer/{name}": t.contiguous() for name, t in state_tensors(model, optimizers).items()}
    state = {**asdict(standing), "data": job.digest, "environment": environment(group)}
    run.save_checkpoint(standing.step, tensors, state)


def _restore(
    run: Run,
    model: Model,
    optimizers: list[torch.optim.Optimizer],
    tell: Callable[[str], None],
    group: ProcessGroup = SINGLE_PROCESS,
) -> _Standing:
    found = run.load_checkpoint()
    if found is None:
        return _Standing()
    state, tensors = found
    parts: dict[str, dict[str, torch.Tensor]] = {"model": {}, "optimizer": {}}
    for key, tensor in tensors.items():
        kind, _, name = key.partition("/")
        parts.setdefault(kind, {})[name] = tensor
    fill(model, parts["model"], run.path / "checkpoints")
    load_state_tensors(model, optimizers, parts["optimizer"])
    where = str(run.path / "checkpoints")
    standing = from_dict(_Standing, {f.name: state[f.name] for f in fields(_Standing) if f.name in state}, where)
    found = state.get("environment")
    before, now = (
        {"processes": 1, "device": "cpu", **one}
        for one in (found if isinstance(found, dict) else {}, environment(group))
    )
    for name, value in now.items():
        known = before.get(name)
        if known != value:
            warnings.warn(f"{name}: {known} before, {value} now; results may differ in the last digits", stacklevel=2)
    tell(f"going on from step {standing.step:,}")
    return standing


def environment(group: ProcessGroup = SINGLE_PROCESS) -> dict[str, Any]:
    """Name what the last digits of a result depend on beside the recipe, which says whether blocks are compiled."""
    return {
        "torch version": torch.__version__,
        "threads": torch.get_num_threads(),
        "CPU instructions": torch.backends.cpu.get_cpu_capability(),
        **group.environment(),
    }


class Stop:
    """A wish to stop, which whoever works looks at now and then."""

    asked = 0  # the signal that was heard


@contextmanager
def _stop_signals() -> Iterator[Stop]:
    """Turn Ctrl-C and SIGTERM into a wish to stop after the current step; a second Ctrl-C insists."""
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
