"""Carry out a run's recipe, from the start or from its checkpoint: prepare, train, evaluate, save.

The loop itself is `fit`; what is done after each of its steps is the `Trainer`'s.
"""

import signal
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Any

from greffon.core.config import from_dict
from greffon.core.console import say
from greffon.core.errors import UserError
from greffon.core.locks import sole_use
from greffon.core.machine import keep_memory
from greffon.core.recipe import Recipe
from greffon.data.corpora import documents
from greffon.data.parallel import training_pairs
from greffon.data.tokenizer import Tokenizer
from greffon.nn.model import compile_blocks
from greffon.runs.run import SCHEDULE, Run
from greffon.training.distributed.base import SINGLE_PROCESS, ProcessGroup
from greffon.training.distributed.shared_run import shared
from greffon.training.estimate import calibrated, check_memory, cost_line
from greffon.training.initial_model import initial_model
from greffon.training.jobs import JOBS, Job
from greffon.training.listeners import listening
from greffon.training.optim import make_optimizers
from greffon.training.progress import TrainingProgress
from greffon.training.schedule import Schedule, Segment
from greffon.training.selection import selected
from greffon.training.state import environment, restore
from greffon.training.stop import Interrupted, stop_signals
from greffon.training.trainer import Trainer
from greffon.training.trials import choose_head


def train(
    run: Run,
    *,
    quiet: bool = False,
    group: ProcessGroup = SINGLE_PROCESS,
    trackers: Sequence[str] = (),
    until: int | None = None,
) -> Run:
    """Train a run to its last step; a run that has a checkpoint resumes from it.

    With `until`, it is saved and left after that step, and goes on from there when it is trained again.
    `trackers` are tools that are told of the metrics as well: tensorboard, mlflow.
    """
    keep_memory()
    run = shared(run, group)
    silent = quiet or not group.is_main
    tell: Callable[[str], None] = (lambda message: None) if silent else say
    try:
        with sole_use(run.path) if group.holds_lock else nullcontext():
            _carry_out(run, tell, quiet, group, trackers, until)
    except KeyboardInterrupt as stop:
        raise Interrupted(f"greffon resume {run.path}", getattr(stop, "signal", signal.SIGINT)) from None
    except OSError as problem:
        raise UserError(_not_written(run, problem)) from None
    return run


def _carry_out(
    run: Run,
    tell: Callable[[str], None],
    quiet: bool,
    group: ProcessGroup,
    trackers: Sequence[str],
    until: int | None,
) -> None:
    with group.main_process_first():
        if group.is_main:
            run.sweep()
            prepare_tokenizer(run, tell)
    run.recipe = _agreed(run.recipe, group)
    check_memory(run.recipe, group.copies)
    with group.main_process_first():
        job = replace(JOBS[run.recipe.objective](run.recipe, run.tokenizer), pause_step=until)
    tell(job.summary)
    _note_data(run, job)
    _adapt(run, tell, quiet, group)
    if run.recipe.tried:
        choose_head(run, lambda trial: train(trial, quiet=True, group=group), tell, group)
        job = replace(JOBS[run.recipe.objective](run.recipe, run.tokenizer), pause_step=until)
    if run.recipe.data.selection == "folds" and not run.recipe.data.fold:
        job = selected(run, job, lambda fold, step: train(fold, quiet=True, group=group, until=step), tell, group)
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


def _adapt(run: Run, tell: Callable[[str], None], quiet: bool, group: ProcessGroup) -> None:
    """Go on pretraining the body on the texts of the task first, where the run has a body of its own for that."""
    source = Run.open(run.recipe.origin) if run.recipe.origin else run
    if source.path.parent == run.path.resolve() and not source.finished:
        tell(f"adapting the body to the task's own text: {source.path}")
        train(source, quiet=quiet, group=group)
        if source.scores["step"] == 0:
            tell("adapting did not help: held-out text of the task got no likelier, and the body is as it was")


def _train(
    run: Run, job: Job, tell: Callable[[str], None], quiet: bool, group: ProcessGroup, trackers: Sequence[str]
) -> None:
    training = run.recipe.training
    model = initial_model(run, tell, group)
    if training.compile:
        compile_blocks(model)
    group.to_device(model)
    run.save_recipe(replace(run.recipe, environment=_machine(group)))
    optimizers = make_optimizers(model, training)
    state = restore(run, model, optimizers, tell, group)
    run.forget_after(state.step or -1)  # without a checkpoint even step 0 is done again
    run.drop_snapshots(after=state.step)
    schedule = Schedule(training, state.step, Segment.read(group.broadcast(run.schedule()), str(run.path / SCHEDULE)))
    with (
        TrainingProgress(schedule.at(state.step).steps, state.step, quiet or not group.is_main) as progress,
        stop_signals() as stop,
        listening(run, trackers if group.is_main else (), state.step) as listeners,
    ):
        Trainer(run, job, model, optimizers, state, group, progress, listeners, schedule).train(stop)
    if job.pause_step is not None:
        return
    run.mark_finished()
    if state.spikes.skipped:
        tell(f"{state.spikes.skipped:,} steps were skipped because their numbers went wrong; metrics.jsonl names them")


def _machine(group: ProcessGroup) -> dict[str, Any]:
    """Return what the recipe tells of the machine: the choices of device, precision and threads."""
    found = environment(group)
    return {name: found[name] for name in ("device", "precision", "threads")}
