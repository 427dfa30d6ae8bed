"""The main facts of a run: `greffon.show`."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from greffon.core.errors import UserError
from greffon.core.json_results import JsonResult
from greffon.core.locks import LOCK
from greffon.core.recipe import Recipe
from greffon.nn.task_heads import head_of
from greffon.runs.params import params_of_run
from greffon.runs.run import Run


@dataclass(frozen=True)
class Summary(JsonResult):
    """The main facts of a run."""

    path: str
    """Directory of the run."""
    objective: str
    """What was trained."""
    preset: str
    """Preset that the recipe began with."""
    parameters: int
    """Number of parameters."""
    vocab_size: int
    """Vocabulary size, special tokens included."""
    steps_done: int
    """Steps that were trained; until the end, those that a checkpoint holds."""
    steps: int
    """Steps that the recipe asks for; 0 until minutes have become steps."""
    scores: dict[str, Any]
    """Validation scores of the weights that were kept."""
    seconds: float
    """Time of training."""
    data: tuple[str, ...]
    """Training files."""
    labels: tuple[str, ...]
    """Names of the head's outputs."""
    changed: str
    """When a file of the run was last written, in local time."""
    recipe: Recipe
    finished: bool
    """Whether training has ended; early stopping ends it before all steps are done."""
    task: str
    """What the labelled files asked for; empty for a run without a grafted head."""
    reads: str
    """What the grafted head reads; empty without one."""
    lowercase: bool
    """Whether the tokenizer converts text to lower case."""


def show(run: str | Path | Run) -> Summary:
    """Gather the main facts of a run."""
    run = Run.open(run)
    recipe, metrics = run.recipe, run.metrics()
    files = [file for file in run.path.iterdir() if file.name != LOCK]  # whoever was refused has touched that
    newest = max(map(_changed, files), default=0.0)
    return Summary(
        path=str(run.path),
        objective=recipe.objective,
        preset=recipe.preset,
        parameters=params_of_run(run).total,
        vocab_size=recipe.vocab_size,
        steps_done=max((entry["step"] for entry in metrics), default=0) if run.finished else run.checkpoint_step,
        steps=recipe.training.steps,
        # A name with a slash is a number that was fitted on the held-out texts, such as a threshold.
        scores={name: value for name, value in run.scores.items() if "/" not in name},
        seconds=run.seconds,
        data=tuple(name for name in (*recipe.data.train, recipe.data.source, recipe.data.target) if name),
        labels=recipe.labels,
        changed=time.strftime("%Y-%m-%d %H:%M", time.localtime(newest)),
        recipe=recipe,
        finished=run.finished,
        task="" if recipe.graft is None else recipe.task,
        reads="" if recipe.graft is None else head_of(recipe).reads(recipe.graft),
        lowercase=_lowercase(run),
    )


def _lowercase(run: Run) -> bool:
    try:
        return run.has_tokenizer and run.tokenizer.lowercase
    except UserError:  # a damaged run can still be looked at
        return False


def _changed(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except FileNotFoundError:  # a run in progress moves its files into place
        return 0.0
