"""Label texts with a fine-tuned run, as its task says: `greffon.classify`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from greffon.core.answering import Answering
from greffon.core.choices import Task
from greffon.core.config import override
from greffon.core.errors import UserError, setting
from greffon.core.recipe import Data, Recipe
from greffon.core.settings import takes
from greffon.data.corpora import Labelled
from greffon.data.tasks import FORMS
from greffon.inference.loading import load
from greffon.inference.measures import measure_of
from greffon.inference.tasks.classes import Classification, PairClassification
from greffon.inference.tasks.multilabel import Labelling
from greffon.inference.tasks.regression import PairRating, Rating
from greffon.inference.tasks.tokens import Marking
from greffon.objectives.task_texts import make_outputs
from greffon.runs.run import Run

Said = Classification | PairClassification | Labelling | Rating | PairRating | Marking
"""What a run says of a text, or of a pair of texts."""


@takes(Answering)
def classify(
    run: str | Path | Run,
    texts: str | Sequence[str] | Sequence[tuple[str, str]],
    **settings: Any,
) -> list[Said]:
    """Label texts with a fine-tuned run: `classify("runs/reviews", "Un beau livre.")[0].label`.

    A run for pairs takes pairs: `classify("runs/pairs", [("A dog runs.", "Un chien court.")])`. By the run's task the
    answers are classes, labels, scores or spans. Of what is less probable than `min_probability` it says nothing: then
    the label is None. A `task` that is named must be the run's. With `int8` the body computes in 8-bit integers:
    faster, with slightly different probabilities. `settings` are the fields of `Answering` in `greffon.core`.
    """
    asked = Answering(**settings)
    run = grafted(run)
    check_task(run, asked.task)
    given: list[str | tuple[str, str]] = [texts] if isinstance(texts, str) else [*texts]
    return answers(run, examples_of(run, given), asked)


def examples_of(run: Run, texts: Sequence[str | tuple[str, str]]) -> list[Labelled]:
    """Return texts or pairs as the run's task reads them."""
    return [_example(run, text) for text in texts]


def _example(run: Run, text: str | tuple[str, str]) -> Labelled:
    if FORMS[run.recipe.task].paired == isinstance(text, str):
        wanted = (
            f"pairs of texts: give two each ({setting('pair')})" if isinstance(text, str) else "single texts, not pairs"
        )
        raise UserError(f"{run.path} reads {wanted}")
    return Labelled(text, "", 0) if isinstance(text, str) else Labelled(text[0], "", 0, text[1])


def answers(run: Run, examples: Sequence[Labelled], asked: Answering) -> list[Said]:
    """Return what a run says of each text: nothing of which it is less sure than it was asked to be."""
    if asked.min_probability and not measure_of(run.recipe).has_probabilities:
        raise UserError(f"{run.path} gives scores, which have no probabilities; leave out {setting('min_probability')}")
    found = measure_of(run.recipe).answers(run.recipe, run.scores, examples, outputs(run, examples, int8=asked.int8))
    least = asked.min_probability
    return [answer.above(least) for answer in found] if least else list(found)


def read_inputs(run: Run, file: Path, columns: Mapping[str, object]) -> list[Labelled]:
    """Return the texts of a file, which needs no labels."""
    data = own_columns(run, columns)
    return FORMS[data.task].inputs(Path(file), data)


def own_columns(run: Run, columns: Mapping[str, object]) -> Data:
    """Describe files of a run's task, with the columns that the user names."""
    own = run.recipe.data
    known = Data(task=own.task, label_separator=own.label_separator, pair_columns=own.pair_columns)
    return override(replace(known, scored=not run.recipe.labels), columns)


def outputs(run: Run, examples: Sequence[Labelled], *, int8: bool = False) -> list[np.ndarray]:
    """Return what the head of a run says of each text."""
    return make_outputs(run.recipe, run.tokenizer, load(run, int8=int8), examples)


def probabilities(run: Run, examples: Sequence[Labelled], *, int8: bool = False) -> np.ndarray:
    """Return the probability of each class for each text: (N, C)."""
    return np.stack(outputs(run, examples, int8=int8))


def unknown_labels(recipe: Recipe, examples: Sequence[Labelled], file: str | Path) -> str:
    """Say which label of the texts a run does not know; nothing if it knows them all."""
    form = FORMS[recipe.task]
    for example in examples:
        if unknown := form.unknown(example, recipe.labels):
            return f"{file}:{example.line}: the run does not know {unknown}"
    return ""


def check_task(run: Run, task: Task | None) -> None:
    """Refuse a task that was named and is not the run's."""
    recipe = run.recipe
    if task is None or task == recipe.task or (recipe.data.scored and task == recipe.answer):
        return
    raise UserError(f"{run.path} is a run for {recipe.task}, not for {task}; leave out {setting('task')}")


def grafted(run: str | Path | Run) -> Run:
    """Open a fine-tuned run; raise a `UserError` for any other."""
    run = Run.open(run)
    if run.recipe.objective != "classify":
        remedy = f"fine-tune it first with `greffon finetune {run.path} --train F --valid F --out RUN`"
        if run.recipe.objective == "seq2seq":
            remedy = f"it translates: `greffon translate {run.path} TEXT`"
        raise UserError(f"{run.path} is a {run.recipe.objective} run, no classifier; {remedy}")
    return run


def classifier(run: str | Path | Run) -> Run:
    """Open a run that gives single texts a class; raise a `UserError` for any other."""
    run = grafted(run)
    if run.recipe.task != "classes":
        raise UserError(f"{run.path} is a run for {run.recipe.task}; give one that gives each text a class")
    return run
