"""Search for the settings of every arm on validation, with the same number of trials for each.

    OUT/tuning/ARM/trial-K/   one Run for each trial of a neural arm

Optuna proposes settings from the results of earlier trials. Its generator has a fixed seed, and finished trials stay,
so that an interrupted search goes on with the same proposals. The first trial has the settings without a search.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from greffon.comparison.arms import make_run
from greffon.comparison.baselines import Baseline
from greffon.comparison.results import Tuning
from greffon.comparison.study import Study
from greffon.comparison.task import Task
from greffon.core.errors import UserError, setting
from greffon.runs.run import Run

TRIALS = 12
"""Trials of each arm, the first with the settings without a search."""
SEARCHED: Mapping[str, tuple[float, float]] = {
    "learning_rate": (3e-5, 3e-3),
    "weight_decay": (1e-3, 0.3),
    "dropout": (0.0, 0.4),
    "batch_size": (8, 64),
}
"""Settings that are searched for, and their bounds; one that the user gave stays as it is."""
LINEAR = ("dropout",)
"""Settings that are drawn evenly; the others are drawn evenly on a log scale."""

Execute = Callable[[list[Task]], None]


def tune(path: Path, study: Study, execute: Execute) -> tuple[Study, tuple[Tuning, ...]]:
    """Search for the settings of each neural arm; return the study with the best, and what was found."""
    searches = {name: _search() for name in study.bodies}
    accuracies: dict[str, list[float]] = {name: [] for name in searches}
    for number in range(TRIALS):
        trials = {name: _trial(path, study, name, searches[name], number) for name in study.bodies}
        execute([Task(run.path, f"{name}, trial {number}") for name, (run, _) in trials.items()])
        for name, (run, trial) in trials.items():
            searches[name].tell(trial, value(run))
            accuracies[name].append(float(run.scores["accuracy"]))
    found = tuple(_found(name, search, accuracies[name]) for name, search in searches.items())
    return replace(study, tuned={each.arm: each.settings for each in found}), found


def value(run: Run) -> float:
    """Return what the search maximises: validation accuracy, and among equals the lower loss."""
    scores = run.scores
    return float(scores["accuracy"]) - 1e-4 * float(scores["loss"])


def _search() -> Any:
    try:
        import optuna
    except ModuleNotFoundError as error:
        raise UserError(f"{setting('tune')} needs Optuna; install it with: pip install 'greffon[tune]'") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=0, n_startup_trials=5))


def _trial(path: Path, study: Study, name: str, search: Any, number: int) -> tuple[Run, Any]:
    """Ask for the next settings, and make the run that tries them."""
    import optuna

    free = {key: bounds for key, bounds in SEARCHED.items() if key not in study.plan.settings}
    wanted = {key: _distribution(optuna, key, *bounds) for key, bounds in free.items()} if number else {}
    trial = search.ask(wanted)  # the first proposes nothing: the settings without a search
    settings = dict(trial.params)
    folder = path / "tuning" / name / f"trial-{number}"
    tried = replace(study, tuned={**study.tuned, name: settings})
    return make_run(tried, name, study.bodies[name], study.data, 0, folder), trial


def _distribution(optuna: Any, name: str, low: float, high: float) -> Any:
    if isinstance(low, int):
        return optuna.distributions.IntDistribution(low, int(high), log=True)
    return optuna.distributions.FloatDistribution(low, high, log=name not in LINEAR)


def _found(name: str, search: Any, accuracies: Sequence[float]) -> Tuning:
    return Tuning(name, TRIALS, dict(search.best_trial.params), accuracies[0], accuracies[search.best_trial.number])


def strengths(trials: int | None = None) -> tuple[float, ...]:
    """Return as many values of C for a classical arm as a neural arm has trials.

    >>> len(strengths()), strengths(3)
    (12, (0.01, 3.16, 1000.0))
    """
    count = TRIALS if trials is None else trials
    return tuple(float(f"{10 ** (-2 + 5 * i / (count - 1)):.3g}") for i in range(count))


def classical_tuning(fits: Mapping[str, Baseline]) -> Iterator[Tuning]:
    """Describe the search of the classical arms: their fits with each value of C."""
    for name, fit in fits.items():
        if fit.c is not None:
            yield Tuning(name, TRIALS, {"c": fit.c}, None, fit.valid_accuracy)
