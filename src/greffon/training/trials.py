"""Which head is grafted, where a task knows several and none was asked for: each is tried, and the best one is kept.

    RUN/
      trials/NAME/   a Run for each head, trained as the run itself will be, but for a third of the epochs
      trials.json    what each head reached on validation, and which one was chosen

The validation texts judge; where there are none, the folds of the training texts that select the number of epochs
(`selection`). Test texts are not asked. Of equal heads the first one that the task names is taken, and where nothing
can be held out as well.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from greffon.core.errors import setting
from greffon.core.files import read_json, write_json
from greffon.core.recipe import Recipe
from greffon.data.splits import load_splits
from greffon.inference.measures import measure_of
from greffon.objectives.task_texts import alternatives
from greffon.runs.huggingface.fit import export_note
from greffon.runs.run import TRIALS, Run
from greffon.training.distributed.base import ProcessGroup
from greffon.training.jobs import steps_of_epoch
from greffon.training.selection import FOLDER as FOLDS
from greffon.training.selection import choose, drop_weights, prepare_folds, tidy

FOLDER = "trials"
SHARE = 3
"""A trial lasts for the epochs of the run divided by this number, rounded up."""

Train = Callable[[Run], Run]


@dataclass(frozen=True)
class Trials:
    """What the trials have shown."""

    chosen: str
    """Name of the head that was chosen."""
    epochs: int
    """Number of epochs of each trial."""
    folds: int
    """Number of folds that judged; 0 for validation texts."""
    scores: dict[str, dict[str, float]] = field(default_factory=dict)
    """Scores of each head on validation, by its name; empty where nothing could be held out."""


def choose_head(run: Run, train: Train, tell: Callable[[str], None], group: ProcessGroup) -> None:
    """Give the recipe of a run the best of the heads that it lists; try them first, if need be."""
    file, epochs = run.path / TRIALS, _epochs(run.recipe)
    with group.main_process_first():
        if group.is_main and not file.is_file():
            for name in run.recipe.tried:
                _prepare(run, name, epochs)
    trials = {} if file.is_file() else {name: Run.open(run.path / FOLDER / name) for name in run.recipe.tried}
    for name, trial in trials.items():
        parts = _trainings(trial)
        if not all(part.finished for part in parts):
            tell(f"trying a head for {epochs} epoch{'s' * (epochs != 1)}: {name} (of {', '.join(trials)})")
        for part in parts:
            if not part.finished:
                train(part)
    with group.main_process_first():
        if group.is_main:
            if not file.is_file():
                write_json(file, vars(_judge(run, trials, epochs)))
            for folder in (run.path / FOLDER).iterdir():
                tidy(Run.open(folder))
                drop_weights(folder)
    made = Trials(**read_json(file))
    run.save_recipe(replace(run.recipe, graft=run.recipe.tried[made.chosen]))
    tell(_told(run.recipe, made))
    if note := export_note(run.recipe):
        tell(note)


def _epochs(recipe: Recipe) -> int:
    """Return the number of epochs of a trial."""
    epoch = steps_of_epoch(len(load_splits(recipe.data).train), recipe.training)
    return -(-recipe.training.steps // (SHARE * epoch))


def _prepare(run: Run, name: str, epochs: int) -> None:
    """Make the Run of a trial, and those of its folds, unless they are there."""
    folder, recipe = run.path / FOLDER / name, run.recipe
    if not (folder / "recipe.json").is_file():
        folder.mkdir(parents=True, exist_ok=True)
        run.tokenizer.save(folder)
        data = replace(recipe.data, test=(), digest="")
        epoch = steps_of_epoch(len(load_splits(data).train), recipe.training)
        training = replace(recipe.training, steps=epochs * epoch)
        made = replace(recipe, graft=recipe.tried[name], tried={}, data=data, training=training, cost={})
        Run.create(folder, made)
    if _is_folded(recipe):
        prepare_folds(Run.open(folder))


def _is_folded(recipe: Recipe) -> bool:
    """Whether folds judge: there are no validation texts, and this is not the training of a fold itself."""
    return recipe.data.selection == "folds" and not recipe.data.fold


def _trainings(trial: Run) -> list[Run]:
    """Return the trainings of a trial: itself, or each of its folds, of which there may be none."""
    if not _is_folded(trial.recipe):
        return [trial]
    return [Run.open(folder) for folder in sorted((trial.path / FOLDS).glob("fold-*"))]


def _judge(run: Run, trials: dict[str, Run], epochs: int) -> Trials:
    """Compare what the heads reached; the first one of the best is chosen."""
    key, names = measure_of(run.recipe).key, list(trials)
    scores, folds = {}, 0
    for name, trial in trials.items():
        parts = _trainings(trial)
        if not parts:
            return Trials(names[0], epochs, 0)
        if _is_folded(trial.recipe):
            found = choose(trial, parts, key)
            scores[name], folds = found.scores, found.folds
        else:
            scores[name] = {name: value for name, value in trial.scores.items() if not name.startswith("test_")}
    best = max(names, key=lambda name: (key(scores[name]), -names.index(name)))
    return Trials(best, epochs, folds, scores)


def _told(recipe: Recipe, made: Trials) -> str:
    """Say which head was chosen, and by what."""
    options = " ".join(setting(name, value) for name, value in alternatives(recipe.task)[made.chosen].items())
    if not made.scores:
        return f"head: {made.chosen}; too few texts to try {' and '.join(recipe.tried)} on ({options})"
    metric = measure_of(recipe).metric
    reached = ", ".join(f"{name} {scores[metric]:.3f}" for name, scores in made.scores.items())
    where = f"{made.folds} fold{'s' * (made.folds != 1)} of the training texts" if made.folds else "validation"
    epochs = f"{made.epochs} epoch{'s' * (made.epochs != 1)}"
    return f"head: {made.chosen}, chosen on {where} after {epochs} ({metric}: {reached}); {options} chooses it at once"
