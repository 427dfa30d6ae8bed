"""What labelled files can ask for: one file per task says how its files are read, divided and checked.

A task's `Form` knows files and labels; what is learned from them is in `objectives`, what is measured in `inference`.
"""

from dataclasses import replace
from pathlib import Path

from greffon.core.choices import Task
from greffon.core.errors import UserError
from greffon.core.recipe import Data
from greffon.data.corpora import Labelled
from greffon.data.tasks.base import Form, columns_of
from greffon.data.tasks.classes import Classes
from greffon.data.tasks.multilabel import Multilabel
from greffon.data.tasks.pairs import Pairs
from greffon.data.tasks.regression import Regression
from greffon.data.tasks.tokens import Tokens

FORMS: dict[Task, Form] = {
    "tokens": Tokens(),
    "pairs": Pairs(),
    "multilabel": Multilabel(),
    "regression": Regression(),
    "classes": Classes(),
}
"""The form of each task; a file is taken for the first that it fits."""


def guess_task(path: Path, data: Data) -> tuple[Task, str]:
    """Return the task that a file is written for, and by what it was recognized; classes if by nothing."""
    path = Path(path)
    if path.is_file():
        for task, form in FORMS.items():
            if sign := form.sign(path, data):
                return task, sign
    return "classes", ""


def with_task(path: Path, data: Data, task: Task | None) -> Data:
    """Give files their task: the one that was named, or that the first file shows; a regression of pairs is theirs."""
    task = guess_task(path, data)[0] if task is None else task
    path = Path(path)
    if task == "regression" and FORMS["pairs"].sign(path, data) and data.text_column not in columns_of(path):
        return replace(data, task="pairs", scored=True)
    return replace(data, task=task)


def read_examples(path: Path, data: Data) -> list[Labelled]:
    """Return the labelled texts of one file, as its task reads it."""
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{path} is a folder; name the file with the labelled texts")
    examples = FORMS[data.task].read(path, data)
    if not examples:
        raise UserError(f"{path}:1: there is no example in this file; fill it or name another one")
    return [replace(example, file=path.name) for example in examples]
