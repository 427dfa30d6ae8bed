"""Did pretraining pay off, for labels, scores, pairs or spans? `greffon.compare_task`, to which `compare` turns.

    OUT/
      comparison.json   what was asked; another question needs another directory, or --force
      arms/ARM/seed-N   one Run for each body, pretrained and from scratch, and each seed
      results.json      what was found (`TaskResults`)
      report.html       the report, self-contained
      score.png         its figure

A training that is finished is not done again when the command is repeated.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from greffon.comparison.executors import EXECUTORS
from greffon.comparison.figures import save, score_figure
from greffon.comparison.names import TFIDF
from greffon.comparison.ratios import Parts, score_difference, score_interval
from greffon.comparison.study import name_sources, scratches
from greffon.comparison.task import Task as Piece
from greffon.comparison.task_baselines import Fit, check_baseline, fit_baseline
from greffon.comparison.task_report import report
from greffon.comparison.task_results import (
    AllScores,
    TaskArm,
    TaskBaseline,
    TaskData,
    TaskDifference,
    TaskPoint,
    TaskResults,
    TaskScore,
    verdict,
)
from greffon.core.config import from_dict
from greffon.core.conflicts import LABEL_RULES, refuse_idle
from greffon.core.console import say
from greffon.core.device import using
from greffon.core.errors import UserError, setting
from greffon.core.files import read_json, sha256, write_atomically, write_json
from greffon.core.graft import Graft
from greffon.core.locks import empty_directory, own_directory
from greffon.core.recipe import Data, Recipe
from greffon.core.settings import Comparing, Finetuning, Labels, Machine, part, takes
from greffon.core.shape import Shape
from greffon.core.training import Training
from greffon.data.corpora import Labelled
from greffon.data.lint import overlap
from greffon.data.splits import Splits, load_splits
from greffon.inference.classify import outputs
from greffon.inference.measures import measure_of
from greffon.inference.tasks.base import Outputs
from greffon.runs.run import Run
from greffon.training.adaptation import prepare
from greffon.training.finetune import check, check_body, graft_recipe, labelled_data


@dataclass(frozen=True)
class TaskComparison:
    """The directory of a finished comparison, and its results."""

    path: Path
    """Directory of the comparison."""
    results: TaskResults

    @classmethod
    def open(cls, path: str | Path) -> "TaskComparison":
        """Open the directory of a comparison of another task than classes."""
        file = Path(path) / "results.json"
        if not file.is_file():
            raise UserError(f"{path} has no results yet; repeat the command that began it, and it goes on")
        return cls(Path(path), from_dict(TaskResults, read_json(file), str(file)))

    @property
    def report(self) -> Path:
        """The report, a self-contained page."""
        return self.path / "report.html"

    @property
    def figure(self) -> Path:
        """The figure of the first measure against epoch."""
        return self.path / "score.png"


@dataclass(frozen=True)
class _Study:
    """The runs and the data of a comparison, and how its heads are trained."""

    sources: Mapping[str, Run]
    data: Data
    splits: Splits
    tuning: Finetuning
    settings: Mapping[str, Any]

    def recipe(self, source: Run, seed: int, *, scratch: bool) -> Recipe:
        """Describe one training."""
        return graft_recipe(
            source,
            self.data,
            self.splits,
            epochs=self.tuning.epochs,
            seed=seed,
            gradual_unfreezing=self.tuning.gradual_unfreezing and not scratch,
            scratch=scratch,
            settings=self.settings,
        )

    def prepare(self, source: Run, seed: int, folder: Path, *, scratch: bool) -> Run:
        """Make the run of one training, or open the one that is there."""
        if (folder / "recipe.json").is_file():
            return Run.open(folder)
        adapt = self.tuning.adapt and not scratch
        return prepare(source, self.recipe(source, seed, scratch=scratch), folder, adapt=adapt)

    def check(self, tell: Callable[[str], None]) -> None:
        """Look over files and bodies."""
        first = next(iter(self.sources.values()))
        bodies = [finding for source in self.sources.values() for finding in check_body(source)]
        for finding in [*check(self.splits, first, self.recipe(first, 0, scratch=True)), *bodies]:
            tell(str(finding))

    @property
    def question(self) -> dict[str, Any]:
        """What is written to comparison.json: all by which the answer may differ, but for the seeds."""
        files = {"train": self.data.train, "valid": self.data.valid, "test": self.data.test}
        asked = {
            "task": "regression" if self.data.scored else self.data.task,
            "runs": {name: sha256(source.path / "model.safetensors") for name, source in self.sources.items()},
            "data": files,
            "contents": [sha256(Path(file)) for part in files.values() for file in part],
            "columns": [self.data.text_column, self.data.label_column, *self.data.pair_columns],
            "label_separator": self.data.label_separator,
            **vars(self.tuning),
            "settings": dict(self.settings),
        }
        written: dict[str, Any] = json.loads(json.dumps(asked, default=str))
        return written


@takes(Comparing, Finetuning, Labels, Machine, Graft, Shape, Training)
def compare_task(
    runs: str | Path | Run | Sequence[str | Path | Run],
    *,
    train: str | Path,
    out: str | Path,
    force: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> TaskComparison:
    """Train each body, pretrained and from scratch, over seeds, beside the classical baseline of the task.

    `settings` are those of `greffon.finetune`, `device`, `precision` and `threads` included. Epochs and strengths are
    chosen on validation, never on test. `jobs` trainings run side by side: on this machine, or by the `executor` dask
    or slurm on others.
    """
    tell: Callable[[str], None] = (lambda message: None) if quiet else say
    for name in ("train_sizes", "tune"):
        if settings.pop(name, None):
            raise UserError(f"{setting(name)} is for comparisons of classes; leave it out")
    comparing, settings = part(Comparing(), settings)
    machine, settings = part(Machine(), settings)
    study = _study(Run.open_all(runs), train, settings)
    study.check(tell)
    recipes = {name: study.recipe(source, 0, scratch=True) for name, source in study.sources.items()}
    check_baseline(next(iter(recipes.values())).answer, tell)
    scratch_of = scratches(recipes)
    owners = {own: next(name for name in scratch_of if scratch_of[name] == own) for own in scratch_of.values()}
    path = Path(out)
    with using(machine), own_directory(path, "comparison.json"):
        _note_question(path, study.question, force)
        trained: dict[str, list[Run]] = {}
        pieces: list[Piece] = []
        for name in (*owners, *study.sources):
            source, scratch = study.sources[owners.get(name, name)], name in owners
            for seed in range(comparing.seeds):
                run = study.prepare(source, seed, path / "arms" / name / f"seed-{seed}", scratch=scratch)
                trained.setdefault(name, []).append(run)
                pieces.append(Piece(run.path, f"{name}, seed {seed}"))
        EXECUTORS[comparing.executor](pieces, comparing.jobs, tell)
        # Where several heads are tried, a recipe says only after the training which one was chosen.
        trained = {name: [Run.open(run.path) for run in those] for name, those in trained.items()}
        made = TaskComparison(
            path, _gather(trained, study.splits, scratch_of, {**study.question, "seeds": comparing.seeds})
        )
        write_json(path / "results.json", made.results.to_json())
        write_atomically(made.report, report(made.results).encode())
        save(score_figure(made.results), made.figure)
    return made


def _study(runs: Sequence[Run], train: str | Path, settings: Mapping[str, Any]) -> _Study:
    """Read the settings and the data."""
    given = {name: value for name, value in settings.items() if value is not None}
    asked, (labels, given) = given, part(Labels(), given)
    tuning, given = part(Finetuning(), given)
    data = replace(labelled_data(train, **vars(labels)), hold_out_test=labels.test is None)
    refuse_idle(LABEL_RULES, {**asked, "task": data.task})
    return _Study(name_sources(runs), data, load_splits(data), tuning, given)


def is_task_comparison(path: str | Path) -> bool:
    """Whether a directory holds a comparison of another task than classes."""
    file = Path(path) / "comparison.json"
    return file.is_file() and "task" in read_json(file)


def _note_question(path: Path, asked: Mapping[str, Any], force: bool) -> None:
    file = path / "comparison.json"
    if file.is_file() and read_json(file) == asked:
        return
    if file.is_file() and not force:
        raise UserError(
            f"{path} holds another comparison; choose another {setting('out')}, or add {setting('force')} to replace it"
        )
    empty_directory(path)
    write_json(file, asked)


def _gather(
    trained: Mapping[str, Sequence[Run]], splits: Splits, scratch_of: Mapping[str, str], asked: Mapping[str, Any]
) -> TaskResults:
    """Score every arm on the test texts, and compare."""
    recipe = next(iter(trained.values()))[0].recipe
    measure, test = measure_of(recipe), splits.test
    arms: dict[str, TaskArm] = {}
    parts: dict[str, Parts] = {}
    for name, runs in trained.items():
        found = [(run.recipe, run.scores, outputs(run, test)) for run in runs]
        parts[name] = _parts([measure.parts(own, scores, test, said) for own, scores, said in found])
        arms[name] = TaskArm(
            _score(parts[name]),
            cast(AllScores, measure.scores(*found[0][:2], test, found[0][2])),
            _curve(runs),
            tuple(run.trials["chosen"] for run in runs if run.trials),
        )
    pairs = [*scratch_of.items()]
    fit = _baseline(recipe, splits)
    if fit is not None:
        held = measure.held_out(recipe, splits.valid, fit.outputs(splits.valid))
        said = measure.calibrated(held, fit.outputs(test))
        parts[TFIDF] = _parts([measure.parts(recipe, held, test, said)])
        arms[TFIDF] = TaskArm(_score(parts[TFIDF]), cast(AllScores, measure.scores(recipe, held, test, said)), ())
        pairs += [(name, TFIDF) for name in trained]
    differences = []
    for a, b in pairs:
        measured = score_difference(parts[a], parts[b])
        differences.append(TaskDifference(a, b, measured.mean, measured.interval, measured.p))
    results = TaskResults(
        task=recipe.task,
        metric=measure.metric,
        higher_is_better=measure.higher_is_better,
        verdict="",
        arms=arms,
        differences=tuple(differences),
        baseline=None if fit is None else TaskBaseline(fit.name, fit.strength),
        data=TaskData(
            train=len(splits.train),
            valid=len(splits.valid),
            test=len(test),
            train_test_overlap=len(overlap([e.whole for e in splits.train], [e.whole for e in test])),
        ),
        settings=asked,
    )
    return replace(results, verdict=verdict(results))


def _baseline(recipe: Recipe, splits: Splits) -> Fit | None:
    measure = measure_of(recipe)

    def score(examples: Sequence[Labelled], said: Outputs) -> float:
        return measure.key(measure.held_out(recipe, examples, said))[0]

    return fit_baseline(recipe.answer, recipe.labels, splits.train, splits.valid, score)


def _parts(found: Sequence[tuple[np.ndarray, np.ndarray]]) -> Parts:
    return Parts(np.stack([over for over, _ in found]), np.stack([under for _, under in found]))


def _score(parts: Parts) -> TaskScore:
    return TaskScore(parts.mean, score_interval(parts), tuple(parts.by_seed.tolist()))


def _curve(runs: Sequence[Run]) -> tuple[TaskPoint, ...]:
    """Return the first measure after each epoch of each seed."""
    metric = measure_of(runs[0].recipe).metric
    return tuple(
        TaskPoint(
            seed=seed,
            epoch=-(-entry["step"] // run.recipe.training.evaluate_every),
            valid=entry["valid"][metric],
            test=entry["valid"][f"test_{metric}"],
        )
        for seed, run in enumerate(runs)
        for entry in run.metrics()
        if "valid" in entry
    )
