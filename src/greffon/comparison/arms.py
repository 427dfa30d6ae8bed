"""The arms of a comparison: one Run for each source of weights, seed and number of labels."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any

import torch

from greffon.comparison.ensemble import Probabilities
from greffon.comparison.results import EpochScore, SeedOutcome
from greffon.core.config import Data, Recipe
from greffon.core.errors import UserError
from greffon.core.machine import available_cores
from greffon.data.splits import load_splits
from greffon.inference.classify import probabilities
from greffon.runs.params import params_of_run
from greffon.runs.run import Run, read_json, write_json
from greffon.training.finetune import ADAPTED, graft_recipe, prepare
from greffon.training.trainer import Interrupted
from greffon.training.trainer import train as carry_out

CHANCES = "probabilities.json"
"""How likely one training found each label, text by text: what it leaves beside its weights, and last."""
TOLD = (
    *(
        "optimizer",
        "learning_rate",
        "muon_learning_rate",
        "weight_decay",
        "batch_size",
        "warmup_steps",
        "lr_schedule",
        "patience",
        "average_checkpoints",
    ),
    *("dropout", "context", "pooling", "concat_embeddings", "head_dropout", "adversarial_epsilon", "pooler_activation"),
)
"""What a reader may want to know of a training, asked for or not."""


@dataclass(frozen=True)
class Arm:
    """One training of the comparison."""

    name: str
    seed: int
    labels: int  # 0: all
    run: Run


def make_arms(
    path: Path,
    sources: Mapping[str, Run],
    fresh: Mapping[str, str],
    data: Data,
    sizes: Sequence[int],
    seeds: int,
    epochs: int,
    adapt: bool,
    gradual_unfreezing: bool,
    settings: Mapping[str, Any],
) -> Iterator[Arm]:
    """Lay out one run for each arm, seed and number of labels; those that are there are kept.

    `fresh` names the scratch arms, and for each a source whose form it has.
    """
    bodies = [*((own, sources[name], True) for own, name in fresh.items()), *((*s, False) for s in sources.items())]
    for size in (0, *sizes):
        limited = replace(data, limit=size)
        splits = load_splits(limited)
        for seed in range(seeds):
            for name, source, scratch in bodies:
                folder = path / "arms" / name / (f"seed-{seed}" + (f"-labels-{size}" if size else ""))
                recipe = graft_recipe(
                    source,
                    limited,
                    splits,
                    epochs=epochs,
                    seed=seed,
                    # Fresh layers cannot wait for the ones above them: scratch always learns whole.
                    gradual_unfreezing=gradual_unfreezing and not scratch,
                    scratch=scratch,
                    settings=settings,
                )
                if (folder / "recipe.json").is_file():
                    run = Run.open(folder)
                else:
                    run = prepare(source, recipe, folder, adapt=adapt and not scratch)
                yield Arm(name, seed, size, run)


class _Worker:
    """A process that trains arms: once asked to stop, it begins no other one."""

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
        """End at once if the parent was killed: nobody would hear of the result, and the arm stays locked."""
        parent = parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    @classmethod
    def stop(cls, number: int, frame: object) -> None:
        """Hear Ctrl-C; a training in its loop has its own way of stopping."""
        cls.stopped = True
        if cls.busy:
            raise KeyboardInterrupt


def train_arm(path: str) -> bool:
    """Train one arm and keep its predictions; False if it was interrupted. Runs in a process."""
    if _Worker.stopped:
        return False
    _Worker.busy = True
    try:
        run = Run.open(path)
        if not run.finished:  # its checkpoints are gone by then: it would begin anew
            carry_out(run, quiet=True)
        splits = load_splits(run.recipe.data)
        parts = {"valid": splits.valid, "test": splits.test}
        write_json(run.path / CHANCES, {name: probabilities(run, part).tolist() for name, part in parts.items()})
        run.drop_checkpoints()
    except KeyboardInterrupt:
        _Worker.stopped = True
        return False
    finally:
        _Worker.busy = False
    return True


@contextmanager
def _deaf() -> Iterator[None]:
    """Start processes that do not hear Ctrl-C until they know what to do about it; SIGTERM waits for the end."""
    heard: list[int] = []
    try:
        interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        terminate = signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, interrupt)
        signal.signal(signal.SIGTERM, terminate)
        for number in heard:
            signal.raise_signal(number)


def train_all(arms: Sequence[Arm], jobs: int | None, tell: Callable[[str], None]) -> None:
    """Train the arms that are not finished, some side by side."""
    waiting = [arm for arm in arms if not (arm.run.path / CHANCES).is_file()]
    if len(waiting) < len(arms):
        tell(f"{len(arms) - len(waiting)} of {len(arms)} trainings are finished already")
    cores = available_cores()
    jobs = max(1, min(jobs or cores, len(arms)))
    # By all arms, not by those left: an arm that goes on must have the threads that it began with.
    threads = max(1, min(cores // jobs, torch.get_num_threads()))
    jobs = max(1, min(jobs, len(waiting)))
    if waiting:
        trainings = f"{len(waiting)} training{'s' * (len(waiting) != 1)}"
        tell(f"{trainings}, {jobs} at a time; how long it takes is told after the first")
    started, done = time.monotonic(), 0
    workers = ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=_Worker.prepare, initargs=(threads,)
    )
    with workers as pool:
        try:
            with _deaf():
                futures = {pool.submit(train_arm, str(arm.run.path)): arm for arm in waiting}
            for future in as_completed(futures):
                arm = futures[future]
                if not future.result():
                    raise KeyboardInterrupt
                done += 1
                left = (time.monotonic() - started) / done * (len(waiting) - done)
                size = f", {arm.labels} labels" if arm.labels else ""
                scores = arm.run.scores
                tell(
                    f"{arm.name}, seed {arm.seed}{size}: validation {scores['accuracy']:.1%}, "
                    f"test {scores['test_accuracy']:.1%} · {done}/{len(waiting)}, {left / 60:.1f} min left"
                )
        except BaseException as problem:
            if isinstance(problem, KeyboardInterrupt):
                tell("stopping: what runs is being saved")
                for process in active_children():  # those that have not heard it themselves
                    process.terminate()
            pool.shutdown(cancel_futures=True)
            if isinstance(problem, KeyboardInterrupt):
                heard = getattr(problem, "signal", signal.SIGINT)
                raise Interrupted("the same command; finished trainings are kept", heard) from None
            if isinstance(problem, BrokenProcessPool):
                raise UserError(
                    "a training was killed from outside, most likely for want of memory; give fewer --jobs, and repeat "
                    "the command: finished trainings are kept, begun ones go on"
                ) from None
            raise


def _adaptation_seconds(run: Run) -> float:
    """How long the body was first adapted to the task's own text, if it was."""
    inner = run.path / ADAPTED
    return Run.open(inner).seconds if inner.is_dir() else 0.0


def trained_by(recipe: Recipe, asked: Iterable[str]) -> dict[str, Any]:
    """Name what a classifier was trained by: what was asked for, and what a reader may want to know besides."""
    assert recipe.graft is not None
    known = asdict(recipe.shape) | asdict(recipe.training) | asdict(recipe.graft)
    if recipe.training.optimizer != "muon":
        del known["muon_learning_rate"]
    return {name: known[name] for name in (*TOLD, *asked) if name in known}


def alike(descriptions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what all descriptions have in common.

    >>> alike([{"learning_rate": 0.1, "batch_size": 8}, {"learning_rate": 0.2, "batch_size": 8}])
    {'batch_size': 8}
    """
    first, *others = descriptions
    return {name: value for name, value in first.items() if all(other[name] == value for other in others)}


def probabilities_of(arm: Arm) -> dict[str, Probabilities]:
    """Read back how likely one training found each label, of the texts for validation and for the test."""
    probabilities: dict[str, Probabilities] = read_json(arm.run.path / CHANCES)
    return probabilities


def outcome(arm: Arm) -> SeedOutcome:
    """Read back what one training reached."""
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
