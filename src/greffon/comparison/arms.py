"""The neural arms of a comparison: one Run for each arm, seed and number of training texts."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any

import torch

from greffon.comparison.assemble import EpochScore, SeedOutcome
from greffon.comparison.ensemble import Probabilities
from greffon.comparison.names import is_scratch
from greffon.comparison.study import Study
from greffon.core.config import Recipe
from greffon.core.errors import UserError
from greffon.core.files import read_json, write_json
from greffon.core.machine import available_cores
from greffon.data.splits import load_splits
from greffon.inference.classify import probabilities
from greffon.runs.params import params_of_run
from greffon.runs.run import Run
from greffon.training.finetune import ADAPTED, graft_recipe, prepare
from greffon.training.trainer import Interrupted
from greffon.training.trainer import train as carry_out

PROBABILITIES = "probabilities.json"
"""File with the probabilities of each label, for the validation and test texts; written last, so it marks the end."""
REPORTED_SETTINGS = (
    "optimizer",
    "learning_rate",
    "muon_learning_rate",
    "weight_decay",
    "batch_size",
    "warmup_steps",
    "lr_schedule",
    "patience",
    "average_checkpoints",
    "dropout",
    "context",
    "pooling",
    "concat_embeddings",
    "head_dropout",
    "adversarial_epsilon",
    "pooler_activation",
)
"""Settings of a training that the report always shows."""


@dataclass(frozen=True)
class Arm:
    """One training of the comparison."""

    name: str
    seed: int
    size: int
    """Limit of the number of training texts; 0 takes all."""
    run: Run


def make_arms(path: Path, study: Study) -> Iterator[Arm]:
    """Create one run for each neural arm, seed and training size; runs that exist already are kept."""
    bodies = {own: study.sources[name] for own, name in study.scratch_sources.items()} | dict(study.sources)
    for size in study.limits:
        data = study.limited(size)
        splits = load_splits(data)
        for seed in range(study.plan.seeds):
            for name, source in bodies.items():
                folder = path / "arms" / name / (f"seed-{seed}" + (f"-size-{size}" if size else ""))
                if (folder / "recipe.json").is_file():
                    run = Run.open(folder)
                else:
                    scratch = is_scratch(name)
                    recipe = graft_recipe(
                        source,
                        data,
                        splits,
                        epochs=study.plan.epochs,
                        seed=seed,
                        # Fresh layers cannot wait for the ones above them: scratch always trains all layers.
                        gradual_unfreezing=study.plan.gradual_unfreezing and not scratch,
                        scratch=scratch,
                        settings=study.plan.settings,
                    )
                    run = prepare(source, recipe, folder, adapt=study.plan.adapt and not scratch)
                yield Arm(name, seed, size, run)


class _Worker:
    """State of a process that trains arms; after a signal to stop, it starts no other training."""

    busy = stopped = False

    @classmethod
    def prepare(cls, threads: int) -> None:
        """Set up the process."""
        torch.set_num_threads(threads)
        threading.Thread(target=cls.end_with_parent, daemon=True).start()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, cls.stop)

    @staticmethod
    def end_with_parent() -> None:
        """Exit at once if the parent was killed: nobody would read the result, and the arm would stay locked."""
        parent = parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    @classmethod
    def stop(cls, number: int, frame: object) -> None:
        """Handle SIGINT and SIGTERM; the training loop replaces this handler by its own while it runs."""
        cls.stopped = True
        if cls.busy:
            raise KeyboardInterrupt


def train_arm(path: str) -> bool:
    """Train one arm and write its probabilities; return False if it was interrupted. Runs in a worker process."""
    if _Worker.stopped:
        return False
    _Worker.busy = True
    try:
        run = Run.open(path)
        if not run.finished:  # its checkpoints are gone by then: it would begin anew
            carry_out(run, quiet=True)
        splits = load_splits(run.recipe.data)
        parts = {"valid": splits.valid, "test": splits.test}
        write_json(run.path / PROBABILITIES, {name: probabilities(run, part).tolist() for name, part in parts.items()})
        run.drop_checkpoints()
    except KeyboardInterrupt:
        _Worker.stopped = True
        return False
    finally:
        _Worker.busy = False
    return True


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Ignore SIGINT and defer SIGTERM, so that processes started here begin with SIGINT ignored.

    They install their own handlers when they are ready.
    """
    received: list[int] = []
    try:
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        terminate = signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, terminate)
        for number in received:
            signal.raise_signal(number)


@contextmanager
def _signals_ignored() -> Iterator[None]:
    """Ignore Ctrl-C and SIGTERM: the work is being stopped already."""
    try:
        before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def train_all(arms: Sequence[Arm], jobs: int | None, tell: Callable[[str], None]) -> None:
    """Train the arms that are not finished, `jobs` of them at a time (default: one for each core)."""
    waiting = [arm for arm in arms if not (arm.run.path / PROBABILITIES).is_file()]
    if len(waiting) < len(arms):
        tell(f"{len(arms) - len(waiting)} of {len(arms)} trainings are finished already")
    if not waiting:
        return
    cores = available_cores()
    jobs = max(1, min(jobs or cores, len(arms)))
    # By all arms, not by those left: an arm that is resumed must have the threads that it began with.
    threads = max(1, min(cores // jobs, torch.get_num_threads()))
    jobs = min(jobs, len(waiting))
    tell(
        f"{len(waiting)} training{'s' * (len(waiting) != 1)}, {jobs} at a time; "
        "how long it takes is told after the first"
    )
    context = get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=_Worker.prepare, initargs=(threads,)) as pool:
        try:
            _train_in(pool, waiting, tell)
        except KeyboardInterrupt as problem:
            tell("stopping: what runs is being saved")
            with _signals_ignored():  # a second signal would leave the workers alone, and the end waiting for them
                for process in active_children():  # those that have not received the signal themselves
                    process.terminate()
                pool.shutdown(cancel_futures=True)
            number = getattr(problem, "signal", signal.SIGINT)
            raise Interrupted("the same command; finished trainings are kept", number) from None
        except BrokenProcessPool:
            pool.shutdown(cancel_futures=True)
            raise UserError(
                "a training was killed from outside, most likely for want of memory; give fewer --jobs, and repeat "
                "the command: finished trainings are kept, begun ones go on"
            ) from None
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _train_in(pool: ProcessPoolExecutor, waiting: Sequence[Arm], tell: Callable[[str], None]) -> None:
    """Train the arms in the processes of a pool, and tell the scores and the time left after each."""
    started = time.monotonic()
    with _signals_deferred():
        futures = {pool.submit(train_arm, str(arm.run.path)): arm for arm in waiting}
    for done, future in enumerate(as_completed(futures), start=1):
        arm = futures[future]
        if not future.result():
            raise KeyboardInterrupt
        left = (time.monotonic() - started) / done * (len(waiting) - done)
        size = f", {arm.size} labels" if arm.size else ""
        scores = arm.run.scores
        tell(
            f"{arm.name}, seed {arm.seed}{size}: validation {scores['accuracy']:.1%}, "
            f"test {scores['test_accuracy']:.1%} · {done}/{len(waiting)}, {left / 60:.1f} min left"
        )


def _adaptation_seconds(run: Run) -> float:
    """Return how long the body was first pretrained on the texts of the task; 0 if it was not."""
    inner = run.path / ADAPTED
    return Run.open(inner).seconds if inner.is_dir() else 0.0


def reported_settings(recipe: Recipe, asked: Iterable[str]) -> dict[str, Any]:
    """Return the settings of a training that the report shows: the usual ones, and those that were asked for."""
    assert recipe.graft is not None
    known = asdict(recipe.shape) | asdict(recipe.training) | asdict(recipe.graft)
    if recipe.training.optimizer != "muon":
        del known["muon_learning_rate"]
    return {name: known[name] for name in (*REPORTED_SETTINGS, *asked) if name in known}


def in_common(descriptions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what all descriptions have in common.

    >>> in_common([{"learning_rate": 0.1, "batch_size": 8}, {"learning_rate": 0.2, "batch_size": 8}])
    {'batch_size': 8}
    """
    first, *others = descriptions
    return {name: value for name, value in first.items() if all(other[name] == value for other in others)}


def probabilities_of(arm: Arm) -> dict[str, Probabilities]:
    """Read the probabilities of one training, for the validation and the test texts."""
    probabilities: dict[str, Probabilities] = read_json(arm.run.path / PROBABILITIES)
    return probabilities


def outcome(arm: Arm) -> SeedOutcome:
    """Read what one training reached."""
    recipe = arm.run.recipe
    epoch = recipe.training.evaluate_every
    curve = [
        EpochScore(
            epoch=-(-entry["step"] // epoch),
            valid=entry["valid"]["accuracy"],
            test=entry["valid"]["test_accuracy"],
            seconds=entry["seconds"],
        )
        for entry in arm.run.metrics()
        if "valid" in entry
    ]
    probabilities = probabilities_of(arm)["test"]
    picked = [max(range(len(row)), key=row.__getitem__) for row in probabilities]
    return SeedOutcome(
        seed=arm.seed,
        curve=curve,
        chosen_epoch=-(-arm.run.scores["step"] // epoch),
        predictions=[recipe.labels[i] for i in picked],
        probabilities=[row[i] for row, i in zip(probabilities, picked, strict=True)],
        parameters=params_of_run(arm.run).total,
        seconds=curve[-1].seconds + _adaptation_seconds(arm.run),
    )
