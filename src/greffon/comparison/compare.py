"""Did pretraining pay off? Pretrained, scratch and the classical baselines on the same data, over seeds.

    OUT/
      comparison.json   what was asked (`study.Question`); another question needs another directory, or --force
      arms/ARM/seed-K/  one Run for each seed, with its probabilities (probabilities.json)
      arms/ARM/draw-K-size-N/  the tasks of the label curve, if asked for (`label_curve`)
      features/         vectors of all texts by each frozen body, and TF-IDF for the label curve (`text_table`)
      tuning/ARM/…      one Run for each trial of a search for settings, if asked for (`tuning`)
      results.json      what was found (`results.Results`)
      report.html       the report, self-contained
      accuracy.png      accuracy against epoch
      train_sizes.png   the label curve, if asked for

A finished arm is not trained again when the command is repeated.
"""

import importlib.metadata
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from greffon.comparison.arms import (
    Arm,
    differing,
    in_common,
    make_arms,
    outcome,
    reported_settings,
)
from greffon.comparison.assemble import Context, GoldTexts, Outcomes, SeedOutcome, assemble
from greffon.comparison.baselines import C_GRID, Baseline, frozen, majority, tfidf
from greffon.comparison.curve_scores import label_savings
from greffon.comparison.ensemble import Ensemble, fit_ensemble
from greffon.comparison.executors import EXECUTORS
from greffon.comparison.figures import accuracy_figure, save, train_sizes_figure
from greffon.comparison.label_curve import CurveTask, make_curve, make_tables, score_curve, table_file
from greffon.comparison.names import MAJORITY, TFIDF, ensemble_name, frozen_name, is_scratch
from greffon.comparison.other_tasks import TaskComparison, compare_task
from greffon.comparison.report import report
from greffon.comparison.results import DataSummary, Results, Settings, Tuning
from greffon.comparison.seen import in_pretraining, share_embedded, share_read
from greffon.comparison.study import Plan, Question, Study, make_study
from greffon.comparison.text_table import TextTable
from greffon.comparison.tuning import classical_tuning, strengths
from greffon.comparison.tuning import tune as search
from greffon.core.conflicts import LABEL_RULES, refuse_idle
from greffon.core.console import say
from greffon.core.device import using
from greffon.core.errors import UserError, setting
from greffon.core.files import read_json, write_atomically, write_json
from greffon.core.graft import Graft
from greffon.core.locks import empty_directory, own_directory
from greffon.core.settings import Comparing, Finetuning, Labels, Machine, part, takes
from greffon.core.shape import Shape
from greffon.core.training import Training
from greffon.data.corpora import Labelled
from greffon.data.lint import overlap
from greffon.data.splits import Splits
from greffon.data.tasks.base import LABEL
from greffon.inference.probe import STRENGTHS
from greffon.runs.run import Run
from greffon.training.finetune import guessed, labelled_data


@dataclass(frozen=True)
class Comparison:
    """The directory of a finished comparison, and its results."""

    path: Path
    """Directory of the comparison."""
    results: Results

    @classmethod
    def open(cls, path: str | Path) -> "Comparison":
        """Open the directory of a comparison, or say why it has no results."""
        path = Path(path)
        if not (path / "comparison.json").is_file():
            raise UserError(f"{path} is no comparison; give a directory that `greffon compare … --out` made")
        if not (path / "results.json").is_file():
            raise UserError(f"{path} has no results yet; repeat the command that began it, and it goes on")
        return cls(path, Results.read(path / "results.json"))

    @property
    def report(self) -> Path:
        """The report, a self-contained page."""
        return self.path / "report.html"

    @property
    def figure(self) -> Path:
        """The figure of accuracy against epoch."""
        return self.path / "accuracy.png"

    @property
    def train_sizes_figure(self) -> Path:
        """The figure of accuracy against the number of training texts; there only if it was asked for."""
        return self.path / "train_sizes.png"


@takes(Comparing, Finetuning, Labels, Machine, Graft, Shape, Training)
def compare(
    runs: str | Path | Run | Sequence[str | Path | Run],
    *,
    train: str | Path,
    out: str | Path,
    force: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> Comparison | TaskComparison:
    """Train pretrained and scratch under the same budget over seeds, beside TF-IDF, and report.

    Epochs are chosen on validation, never on test. `train_sizes` adds the label curve: every arm with so many labels,
    over `seeds` draws of them. `tune` first searches for the settings of every arm on validation, with the same number
    of trials for each. `jobs` trainings run side by side: on this machine, or by the
    `executor` dask or slurm on others; each computes with `device` and `precision`, and with `threads` at most.
    `settings` are the fields of `Comparing`, `Finetuning`, `Labels`, `Machine`, `Graft`, `Shape` and `Training` in
    `greffon.core`, under the names of the command's options.

    The task is guessed from the training file, as by `finetune`, unless `task` names it. For another one than classes
    this is `compare_task`, and the result a `TaskComparison`.
    """
    tell: Callable[[str], None] = (lambda message: None) if quiet else say
    opened = Run.open_all(runs)
    asked = {name: value for name, value in settings.items() if value is not None}
    comparing, settings = part(Comparing(), asked)
    tuning, settings = part(Finetuning(), settings)
    labels, settings = part(Labels(), settings)
    carry_out = EXECUTORS[comparing.executor]
    data = labelled_data(train, **vars(labels))
    if labels.task is None:
        tell(guessed(data))
    if data.task != "classes":
        named = "regression" if data.scored else data.task
        return compare_task(opened, train=train, out=out, force=force, quiet=quiet, **{**asked, "task": named})
    refuse_idle(LABEL_RULES, {**asked, "task": data.task})
    machine, settings = part(Machine(), settings)
    plan = Plan(
        seeds=comparing.seeds,
        train_sizes=tuple(comparing.train_sizes),
        tune=comparing.tune,
        settings=settings,
        **vars(tuning),
    )
    study = make_study(opened, replace(data, hold_out_test=labels.test is None), plan, tell)
    path = Path(out)
    with using(machine), own_directory(path, "comparison.json"):
        write_question(path, Question.of(study), force)
        arms = list(make_arms(path, study))
        make_tables(path, study, tell)
        trials: tuple[Tuning, ...] = ()
        if plan.tune:
            study, trials = search(path, study, lambda tasks: carry_out(tasks, comparing.jobs, tell))
        curve = list(make_curve(path, study))
        carry_out([*(arm.task for arm in arms), *(each.task for each in curve)], comparing.jobs, tell)
        made = Comparison(path, gather(path, study, arms, curve, trials))
        write_outputs(made)
    return made


def write_question(path: Path, question: Question, force: bool) -> None:
    """Write the question to the directory of the comparison; if the same one is there, keep what was done for it."""
    file = path / "comparison.json"
    asked = question.to_json()
    if file.is_file() and read_json(file) == json.loads(json.dumps(asked)):
        return
    if file.is_file() and not force:
        raise UserError(
            f"{path} holds another comparison; choose another {setting('out')}, or add {setting('force')} to replace it"
        )
    empty_directory(path)
    try:
        write_json(file, asked)
    except OSError as problem:
        raise UserError(f"cannot write {path}: {problem.strerror}; choose another {setting('out')}") from None


def write_outputs(made: Comparison) -> None:
    """Write results.json, the report and the figures."""
    write_json(made.path / "results.json", made.results.to_json())
    write_atomically(made.report, report(made.results).encode())
    save(accuracy_figure(made.results), made.figure)
    if made.results.train_sizes:
        save(train_sizes_figure(made.results), made.train_sizes_figure)
    else:  # an earlier command may have asked for it
        made.train_sizes_figure.unlink(missing_ok=True)


def fit_baselines(splits: Splits, bodies: Mapping[str, TextTable], tune: bool = False) -> dict[str, Baseline]:
    """Fit the classical arms on the same texts."""

    def columns(part: Sequence[Labelled]) -> tuple[list[str], list[str]]:
        return [example.text for example in part], [example.label for example in part]

    train, train_labels = columns(splits.train)
    valid, valid_labels = columns(splits.valid)
    test, _ = columns(splits.test)
    grids = (strengths(), strengths()) if tune else (STRENGTHS, C_GRID)
    found = {}
    for name, vectors in bodies.items():
        features = [vectors.of(part) for part in (train, valid, test)]
        found[name] = frozen((features[0], train_labels), (features[1], valid_labels), features[2], name, grids[0])
    found[TFIDF] = tfidf(train, train_labels, valid, valid_labels, test, grids[1])
    found[MAJORITY] = majority(train_labels, valid_labels, test)
    return found


def fit_ensembles(arms: Sequence[Arm], tfidf: Baseline, valid: Sequence[Labelled]) -> dict[str, list[Ensemble]]:
    """Combine each training of a pretrained arm with TF-IDF; by the name of the arm."""
    gold = [example.label for example in valid]
    found: dict[str, list[Ensemble]] = {}
    for arm in arms:
        if not is_scratch(arm.name):
            assert list(arm.run.recipe.labels) == tfidf.labels, "one order of the classes"
            body = arm.task.probabilities
            parts = (body["valid"], tfidf.valid_probabilities), (body["test"], tfidf.probabilities)
            found.setdefault(arm.name, []).append(fit_ensemble(tfidf.labels, parts[0], gold, parts[1]))
    return found


def gather(
    path: Path, study: Study, arms: Sequence[Arm], curve: Sequence[CurveTask], tuning: Sequence[Tuning] = ()
) -> Results:
    """Read what the neural arms reached, fit the classical ones, and assemble the results."""
    train, test = ([example.text for example in part] for part in (study.splits.train, study.splits.test))
    gold = GoldTexts(
        texts=test,
        gold=[example.label for example in study.splits.test],
        labels=study.splits.labels,
        overlap=frozenset(overlap(train, test)),
    )
    sizes = score_curve(study, curve)
    outcomes = _outcomes(path, study, arms)
    ahead = [*study.sources, *map(ensemble_name, study.sources)]
    context = Context(
        data=_data(study, arms, len(gold.overlap)),
        settings=_settings(study, arms),
        versions=_versions(),
        scratch=study.scratch,
        pretraining={name: None if run.recipe.imported else run.seconds for name, run in study.sources.items()},
        train_sizes=sizes,
        label_savings=label_savings(sizes, ahead),
        tuning=(*tuning, *(classical_tuning(outcomes.classical) if tuning else ())),
    )
    return assemble(outcomes, gold, context)


def _outcomes(path: Path, study: Study, arms: Sequence[Arm]) -> Outcomes:
    """Collect what all arms predicted with all labels."""
    neural: dict[str, list[SeedOutcome]] = {}
    for arm in arms:
        neural.setdefault(arm.name, []).append(outcome(arm))
    tables = {frozen_name(name): TextTable.read(table_file(path, name)) for name in study.sources}
    baselines = fit_baselines(study.splits, tables, study.plan.tune)
    return Outcomes(neural, baselines, fit_ensembles(arms, baselines[TFIDF], study.splits.valid))


def _data(study: Study, arms: Sequence[Arm], shared: int) -> DataSummary:
    splits = study.splits
    test = [example.text for example in splits.test]
    recipes = {arm.name: arm.run.recipe for arm in arms}
    read = {name: share_read(run, recipes[name], test) for name, run in study.bodies.items()}
    how = study.plan.settings.get("long_texts", "windows")
    read |= {frozen_name(name): share_embedded(run, test, how) for name, run in study.sources.items()}
    return DataSummary(
        train=len(splits.train),
        valid=len(splits.valid),
        test=len(splits.test),
        train_test_overlap=shared,
        pretraining_overlap={name: in_pretraining(run, test) for name, run in study.sources.items()},
        tokens_read=read,
        findings=study.findings,
        files=study.files,
    )


def _settings(study: Study, arms: Sequence[Arm]) -> Settings:
    plan = study.plan
    described = {arm.name: reported_settings(arm.run.recipe, plan.settings) for arm in arms}
    return Settings(
        seeds=plan.seeds,
        epochs=plan.epochs,
        runs={name: str(run.path.resolve()) for name, run in study.sources.items()},
        columns=(study.data.text_column, study.data.label_column or LABEL),
        adapt=plan.adapt,
        gradual_unfreezing=plan.gradual_unfreezing,
        training=in_common([*described.values()]),
        training_by_arm=differing(described),
    )


def _versions() -> dict[str, str]:
    packages = ("greffon", "torch", "numpy", "scikit-learn")
    return {
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
    }
