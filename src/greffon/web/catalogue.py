"""The runs and comparisons that are served, by name.

The list is made when the server starts. A client names an entry of it or gets nothing: no path that a
client sends ever reaches the disk.
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from greffon.core.errors import UserError
from greffon.core.files import read_json
from greffon.core.json_results import JsonResult
from greffon.runs.params import Ledger, params_of_run
from greffon.runs.run import Run
from greffon.runs.summary import show
from greffon.web.curves import Curve, curve

LIVE_SECONDS = 180.0
"""A training that has written nothing for this long has stopped: it saves at least every two minutes."""

ABILITIES = {
    "causal": ("generate", "embed", "attention"),
    "masked": ("fill", "embed", "attention"),
    "contrastive": ("embed", "attention"),
    "body": ("embed", "attention"),
    "classify": ("classify", "occlude", "embed", "attention"),
    "seq2seq": ("translate", "attention"),
}
"""Endpoints that accept a run of each objective."""

OTHER_TASKS = ("answer", "embed", "attention")
"""Abilities of a run that was fine-tuned for something else than one class a text."""


class Unknown(Exception):  # noqa: N818 - the client's mistake, not ours
    """A client named something that is not served."""


@dataclass(frozen=True)
class ServedRun(JsonResult):
    """A run, as the API describes it."""

    name: str
    state: Literal["training", "finished", "stopped", "damaged"]
    objective: str
    preset: str
    abilities: tuple[str, ...]
    """Endpoints that accept this run; empty as long as it has no weights."""
    parameters: int
    vocab_size: int
    layers: int
    heads: int
    hidden_size: int
    context: int
    labels: tuple[str, ...]
    task: str
    """What a fine-tuned run gives: classes, multilabel, regression, pairs or tokens; `classes` for other runs."""
    steps_done: int
    steps: int
    seconds: float
    scores: dict[str, float | None]
    """Scores of the best weights; one that is not finite is sent as null."""
    problem: str | None = None
    """Why the run cannot be read, if it is damaged."""


@dataclass(frozen=True)
class ServedComparison(JsonResult):
    """A comparison, as the API describes it."""

    name: str
    verdict: str | None
    """None as long as the comparison is not finished."""
    metric: str
    """Name of the score of the arms."""
    arms: dict[str, float]
    """Mean score of each arm on the test texts."""


@dataclass(frozen=True)
class Served(JsonResult):
    """All runs and comparisons that are served."""

    version: str
    runs: list[ServedRun]
    comparisons: list[ServedComparison]


class Catalogue:
    """The runs and comparisons that clients may name: `Catalogue(["runs/body", "runs/verdict"])`."""

    def __init__(self, paths: Sequence[str | Path | Run]) -> None:
        if not paths:
            raise UserError("nothing to serve; name at least one run")
        self._runs: dict[str, Path] = {}
        self._comparisons: dict[str, Path] = {}
        self._opened: dict[str, tuple[int, Run]] = {}
        self._described: dict[str, tuple[tuple[int, ...], ServedRun]] = {}
        self._curves: dict[str, tuple[tuple[int, int], Curve]] = {}
        self._lock = threading.RLock()
        for given in paths:
            path = given.path if isinstance(given, Run) else Path(given)
            kind = self._runs
            if (path / "comparison.json").is_file():
                kind = self._comparisons
            else:
                Run.open(path)  # or say why it is none
            if path.resolve() not in kind.values():
                kind[self._free_name(path.resolve().name or "run")] = path.resolve()

    def _free_name(self, name: str) -> str:
        taken = self._runs.keys() | self._comparisons.keys()
        names = (name if number == 1 else f"{name}-{number}" for number in range(1, len(taken) + 2))
        return next(free for free in names if free not in taken)

    def told(self, problem: str) -> str:
        """Replace directories in an error message by the names of runs, so that a client learns no paths."""
        for name, path in sorted((self._runs | self._comparisons).items(), key=lambda item: -len(str(item[1]))):
            problem = problem.replace(str(path), name)
        return problem

    def require(self, name: str) -> Path:
        """Look up the path of a run, without touching the disk."""
        if name not in self._runs:
            raise Unknown(f"no run of the name {name[:80]!r} is served; GET /api/runs lists those that are")
        return self._runs[name]

    def run(self, name: str) -> Run:
        """Open a run by its name; reopen it if its recipe has changed, as it does when training starts."""
        path = self.require(name)
        changed = _changed(path / "recipe.json")
        with self._lock:
            before = self._opened.get(name)
            if before is not None and before[0] == changed:
                return before[1]
            run = Run.open(path)
            self._opened[name] = (changed, run)
            return run

    def curve(self, name: str) -> Curve:
        """Return the scores that a run has logged so far."""
        run = self.run(name)
        file = run.path / "metrics.jsonl"
        stamp = (_changed(file), _changed(run.path / "recipe.json"))
        with self._lock:
            before = self._curves.get(name)
            if before is None or before[0] != stamp:
                self._curves[name] = (stamp, curve(run.metrics(), run.recipe.training.steps))
            return self._curves[name][1]

    def ledger(self, name: str) -> Ledger:
        """Count the parameters of a run, component by component."""
        return params_of_run(self.run(name))

    def report(self, name: str) -> str:
        """Return the report of a comparison."""
        if name not in self._comparisons:
            raise Unknown(f"no comparison of the name {name[:80]!r} is served")
        try:
            return (self._comparisons[name] / "report.html").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            raise Unknown(f"the comparison {name!r} has no report yet") from None

    def describe(self) -> Served:
        """Describe all runs and comparisons."""
        from greffon import __version__

        return Served(
            __version__,
            [self._describe_run(name) for name in self._runs],
            [self._describe_comparison(name) for name in self._comparisons],
        )

    def _describe_run(self, name: str) -> ServedRun:
        path = self._runs[name]
        files = ("recipe.json", "metrics.jsonl", "manifest.json", "finished", "model.safetensors", "checkpoints")
        stamp = tuple(_changed(path / file) for file in files)
        # Whether a run is training also depends on the time; the rest only changes with the files.
        live = time.time() - max(stamp) / 1e9 < LIVE_SECONDS
        with self._lock:
            before = self._described.get(name)
            if before is not None and before[0] == (*stamp, live):
                return before[1]
            try:
                described = _describe(name, self.run(name), live)
            except UserError as problem:
                described = ServedRun(
                    name, "damaged", "", "", (), 0, 0, 0, 0, 0, 0, (), "", 0, 0, 0.0, {}, str(problem)
                )
            self._described[name] = ((*stamp, live), described)
            return described

    def _describe_comparison(self, name: str) -> ServedComparison:
        file = self._comparisons[name] / "results.json"
        try:
            results = read_json(file) if file.is_file() else {}
            arms = {arm: float(found["test_score"]["mean"]) for arm, found in results.get("arms", {}).items()}
            return ServedComparison(name, results.get("verdict"), results["metric"] if arms else "", arms)
        except (UserError, KeyError, TypeError, ValueError):
            return ServedComparison(name, None, "", {})


def _describe(name: str, run: Run, live: bool) -> ServedRun:
    summary, shape = show(run), run.recipe.shape
    metrics_step = max((entry.get("step", 0) for entry in run.metrics()), default=0)
    return ServedRun(
        name=name,
        state="finished" if run.finished else "training" if live else "stopped",
        objective=summary.objective,
        preset=summary.preset,
        abilities=_abilities(run) if run.has_model else (),
        parameters=summary.parameters,
        vocab_size=summary.vocab_size,
        layers=shape.layers,
        heads=shape.heads,
        hidden_size=shape.hidden_size,
        context=shape.context,
        labels=summary.labels,
        task=run.recipe.task,
        steps_done=metrics_step,
        steps=summary.steps,
        seconds=summary.seconds,
        scores={name: value for name, value in summary.scores.items() if isinstance(value, int | float)},
    )


def _abilities(run: Run) -> tuple[str, ...]:
    """Return the endpoints that accept a run."""
    return ABILITIES[run.recipe.objective] if run.recipe.task == "classes" else OTHER_TASKS


def _changed(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
