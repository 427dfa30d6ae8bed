"""How many epochs to train for, where there is no validation file: chosen on the training labels alone.

    RUN/
      selection/fold-k/   a Run for each fold, trained without it and scored on it after every epoch
      selection.json      the number of evaluations after which the mean score of the folds was best

Then the run itself trains on all labels, with the same schedule, for as many epochs. Below `ONE_FOLD_FROM` labels there
are five folds, from there on one is enough. They go on side by side, `patience` evaluations at a time, until their mean
has got no better for as many. Epoch 0, the head as it starts, is among the choices, and wins ties; where
it is the probe, another epoch must be clearly better (`clearly_better`). Where no group of texts (no class, or no fifth
of the scores) can be divided, there are no folds: a head that starts as the probe stays so, and one that starts at
random is trained for all epochs.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np

from greffon.core.errors import UserError, setting
from greffon.core.files import read_json, write_json
from greffon.core.recipe import Recipe
from greffon.core.training import Training
from greffon.data.splits import fold_numbers, load_splits
from greffon.inference.measures import measure_of
from greffon.inference.tasks.classes import MIN_PROBABILITY
from greffon.nn.model import Model
from greffon.runs.run import SELECTION, Run
from greffon.training.distributed.base import ProcessGroup
from greffon.training.jobs import JOBS, Job, steps_of_epoch

FOLDER = "selection"
ONE_FOLD_FROM = 200
"""From this many labels on, one stratified fifth chooses as well as five do."""
HELD_OUT = "held-out.json"
KEPT = ("recipe.json", "metrics.jsonl", "finished", HELD_OUT)
"""What is kept of a fold that has done its work."""

Scores = Mapping[str, float]
Train = Callable[[Run, int | None], Run]
"""Trains a run, up to a step or (None) to its end."""


@dataclass(frozen=True)
class Selection:
    """What the folds have chosen."""

    evaluations: int
    """Evaluations after the first one until the best; 0 keeps the head as it starts, the probe."""
    folds: int
    """Number of folds; 0 where no group has two texts, so that nothing could be chosen."""
    scores: dict[str, float]
    """Mean scores of the folds at that point."""
    curve: list[dict[str, float]]
    """Mean scores of the folds at each evaluation."""

    def steps(self, recipe: Recipe) -> int:
        """Return the steps of the run itself."""
        return min(self.evaluations * recipe.training.eval_interval, recipe.training.steps)


def selected(run: Run, job: Job, train: Train, tell: Callable[[str], None], group: ProcessGroup) -> Job:
    """Return the job of training on all labels for as long as the folds say; train them first, if need be."""
    file = run.path / SELECTION
    with group.main_process_first():
        if group.is_main and not file.is_file():
            prepare_folds(run)
    folds = [] if file.is_file() else [Run.open(folder) for folder in sorted((run.path / FOLDER).glob("fold-*"))]
    if folds:
        parts = "five parts of the labels in turn" if len(folds) > 1 else "a fifth of the labels"
        tell(f"choosing the number of epochs by training without {parts}")
        train_folds(run, folds, job.selection_key, train, group)
    with group.main_process_first():
        if group.is_main:
            if not file.is_file():
                made = choose(run, folds, job.selection_key)
                for fold in folds:
                    keep_held_out(fold, made.evaluations)
                    fold.mark_finished()
                write_json(file, vars(made))
            tidy(run)
    chosen = Selection(**read_json(file))
    if not chosen.folds:
        kept = "the head stays as it starts" if not chosen.evaluations else "it is trained for all of them"
        tell(f"none of the {measure_of(run.recipe).noun} has two texts, so no epoch can be selected: {kept}")
        own = replace(run.recipe, data=replace(run.recipe.data, valid=run.recipe.data.train))
        job = replace(job, evaluate=JOBS[own.objective](own, run.tokenizer).evaluate)

    def evaluate(model: Model) -> dict[str, float]:
        fitted = {**chosen.scores, "cross_validated": chosen.folds}
        if chosen.folds and job.test_scores is not None:  # all labels are for training, so the test is all that is left
            return {**fitted, **job.test_scores(model, fitted)}
        return {**fitted, **job.evaluate(model)}

    return replace(job, evaluate=evaluate, final_step=chosen.steps(run.recipe))


def train_folds(
    run: Run,
    folds: Sequence[Run],
    key: Callable[[Scores], tuple[float, ...]],
    train: Train,
    group: ProcessGroup,
) -> None:
    """Train the folds to the end of the run's patience, or to their last steps.

    One fold ends by its own patience. Several each do as many evaluations as the patience before their mean is judged.
    What is decided depends on their scores up to there alone, so that an interruption anywhere changes nothing.
    """
    patience, last = run.recipe.training.patience, evaluations(run.recipe.training)
    stride = patience if patience and len(folds) > 1 else last
    for done in range(stride, last + stride, stride):
        for fold in folds:
            own = fold.recipe.training
            step = done * own.eval_interval
            if not fold.finished and not 0 < step <= fold.checkpoint_step:
                train(fold, step if step < own.steps else None)
        curve = mean_curve(run, folds)
        improved = _best(curve, lambda scores: (-scores["loss"],))
        if not _is_probed(run.recipe):  # a probe gives way to a clearly lower loss only
            improved = max(improved, _best(curve, key))
        if group.broadcast(0 < patience < len(curve) - improved):
            return


def keep_held_out(fold: Run, evaluations: int) -> None:
    """Write what a fold says of its texts after as many evaluations as were chosen: an ensemble is fitted on it."""
    if fold.recipe.data.task == "classes":
        judged = fold.judged()
        write_json(fold.path / HELD_OUT, {"probabilities": judged[sorted(judged)[evaluations]]})


def held_out(run: Run) -> list[list[float] | None]:
    """Return the probabilities of each training text by the fold without it; None where there is none."""
    numbers = fold_numbers(load_splits(run.recipe.data).train, run.recipe.data.task)
    out: list[list[float] | None] = [None] * len(numbers)
    for folder in (run.path / FOLDER).glob("fold-*"):
        if (folder / HELD_OUT).is_file():
            rows = read_json(folder / HELD_OUT)["probabilities"]
            own = np.flatnonzero(numbers == Run.open(folder).recipe.data.fold - 1)
            for i, row in zip(own, rows, strict=True):
                out[i] = row
    return out


def prepare_folds(run: Run) -> None:
    """Make a Run for each fold that has texts; those that are there already stay."""
    recipe = run.recipe
    texts = load_splits(recipe.data).train
    numbers = sorted({*fold_numbers(texts, recipe.data.task).tolist()} - {-1})
    (run.path / FOLDER).mkdir(exist_ok=True)
    for number in numbers[:1] if len(texts) >= ONE_FOLD_FROM else numbers:
        folder = run.path / FOLDER / f"fold-{number + 1}"
        if not (folder / "recipe.json").is_file():
            folder.mkdir(exist_ok=True)
            run.tokenizer.save(folder)
            Run.create(folder, fold_recipe(recipe, number + 1, len(texts)))


def fold_recipe(recipe: Recipe, fold: int, texts: int) -> Recipe:
    """Describe the training without one fold: the same number of epochs, of fewer steps each."""
    data, training = replace(recipe.data, fold=fold, digest=""), recipe.training
    epoch = steps_of_epoch(texts, training)
    own = steps_of_epoch(len(load_splits(data).train), training)

    def shorter(steps: int) -> int:
        return steps // epoch * own if steps % epoch == 0 else steps

    training = replace(
        training,
        steps=shorter(training.steps),
        evaluate_every=shorter(training.evaluate_every),
        unfreeze_every=shorter(training.unfreeze_every),
        # Several folds are judged by their mean, and so each must reach every epoch until that ends.
        patience=training.patience if texts >= ONE_FOLD_FROM else 0,
    )
    return replace(recipe, data=data, training=training, cost={}, tried={})  # its head is chosen already


def choose(run: Run, folds: Sequence[Run], key: Callable[[Scores], tuple[float, ...]]) -> Selection:
    """Take the first of the best evaluations by the mean scores of the folds."""
    if not folds:
        return Selection(0 if _is_probed(run.recipe) else evaluations(run.recipe.training), 0, {}, [])
    curve = mean_curve(run, folds)
    best = _best(curve, key)
    is_judged = bool(folds[0].judged())
    if best and is_judged and _is_probed(run.recipe) and not clearly_better(folds, best):
        best = 0
    return Selection(best, len(folds), curve[best], curve)


def mean_curve(run: Run, folds: Sequence[Run]) -> list[dict[str, float]]:
    """Average the scores of the folds at each evaluation, weighed by their texts."""
    numbers = fold_numbers(load_splits(run.recipe.data).train, run.recipe.data.task)
    counts = [int((numbers == fold.recipe.data.fold - 1).sum()) for fold in folds]
    curves = [
        [_numbers(entry["valid"]) for entry in fold.metrics() if "valid" in entry and "averaged" not in entry]
        for fold in folds
    ]
    return [
        {name: float(np.average([one[name] for one in at], weights=counts)) for name in at[0]}
        for at in zip(*curves, strict=False)
    ]


def _best(curve: Sequence[Scores], key: Callable[[Scores], tuple[float, ...]]) -> int:
    """Return the first evaluation with the best scores."""
    return max(range(len(curve)), key=lambda i: (*key(curve[i]), -i))


def _is_probed(recipe: Recipe) -> bool:
    return recipe.graft is not None and recipe.graft.head_init == "probe"


def evaluations(training: Training) -> int:
    """Count the evaluations of a whole training, after the first one."""
    return -(-training.steps // training.eval_interval)


def clearly_better(folds: Sequence[Run], evaluations: int) -> bool:
    """Whether texts that the folds held out have a lower loss than by their probes, by more than one standard error.

    On a few texts one epoch of many is always better by chance, and what the probe knows is easily lost.
    """
    gains: list[float] = []
    for fold in folds:
        judged, texts = fold.judged(), load_splits(fold.recipe.data).valid
        steps = sorted(judged)
        if len(judged[steps[0]]) != len(texts):
            changed = ", ".join(fold.recipe.data.train)
            raise UserError(f"{changed} changed while it was trained on; start again with {setting('force')}")
        for before, after, text in zip(judged[steps[0]], judged[steps[evaluations]], texts, strict=True):
            own = fold.recipe.labels.index(text.label)
            gains.append(math.log(max(after[own], MIN_PROBABILITY)) - math.log(max(before[own], MIN_PROBABILITY)))
    return len(gains) > 1 and float(np.mean(gains)) > float(np.std(gains, ddof=1)) / math.sqrt(len(gains))


def _numbers(scores: Mapping[str, Any]) -> dict[str, float]:
    """Leave out the test scores: nothing is chosen by them."""
    return {name: value for name, value in scores.items() if not name.startswith("test_")}


def tidy(run: Run) -> None:
    """Drop the weights of the folds."""
    for fold in (run.path / FOLDER).glob("fold-*"):
        drop_weights(fold)


def drop_weights(folder: Path) -> None:
    """Drop all of a run that has done its work but what it was, what it reached, and its folds."""
    for path in folder.iterdir():
        if path.is_dir() and path.name != FOLDER:
            rmtree(path)
        elif path.is_file() and path.name not in KEPT:
            path.unlink()
