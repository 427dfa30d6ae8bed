"""Labelled files of any task as token ids, batches and outputs: the one place that chooses by the task."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

import numpy as np

from greffon.core.choices import Task
from greffon.core.recipe import Recipe
from greffon.data.corpora import Labelled
from greffon.data.splits import Splits
from greffon.data.tokenizer import Tokenizer
from greffon.nn.model import Model
from greffon.objectives.batch import Batch
from greffon.objectives.labelled_texts import LabelledTexts
from greffon.objectives.protocol import Objective
from greffon.objectives.tasks.pairs import PairTexts
from greffon.objectives.tasks.tokens import TaggedTexts


class TaskTexts(Protocol):
    """What training and scoring need of the texts of a task."""

    ignores: ClassVar[Mapping[str, str]]
    """Settings of a head that have no effect, and why."""
    alternatives: ClassVar[Mapping[str, Mapping[str, str]]]
    """Settings of each head that is tried on validation where none of them was asked for, by its name."""

    @property
    def most_tokens(self) -> int | None:
        """Number of tokens beyond which a text is not read; None if all of it is."""
        ...

    @property
    def objective(self) -> Objective:
        """The loss of a batch."""
        ...

    def encode(self, examples: Sequence[Labelled]) -> Sequence[Any]:
        """Return each text as rows of tokens with its target; it has a `length`, and `some` of its windows."""
        ...

    def batch(self, members: Sequence[Any]) -> Batch:
        """Build a batch of encoded texts."""
        ...

    def for_scoring(self, encoded: Sequence[Any]) -> Any:
        """Lay out encoded texts in batches of bounded size."""
        ...

    def outputs(self, model: Model, texts: Any) -> Sequence[np.ndarray]:
        """Return what a model says of each text that was laid out for scoring."""
        ...

    def digest(self, splits: Splits) -> str:
        """Identify the texts, their labels and the tokenizer."""
        ...


_TEXTS: dict[Task, type[LabelledTexts] | type[TaggedTexts]] = {"pairs": PairTexts, "tokens": TaggedTexts}
"""Tasks that read more or less than one vector a text; all others differ in their targets alone."""


def task_texts(recipe: Recipe, tokenizer: Tokenizer) -> TaskTexts:
    """Return the texts of a recipe's task."""
    return _TEXTS.get(recipe.task, LabelledTexts)(recipe, tokenizer)


def ignored_settings(task: Task) -> Mapping[str, str]:
    """Return the settings of a head that have no effect for a task, and why."""
    return _TEXTS.get(task, LabelledTexts).ignores


def alternatives(task: Task) -> Mapping[str, Mapping[str, str]]:
    """Return the settings of each head that is tried for a task, by its name; nothing where there is but one."""
    return _TEXTS.get(task, LabelledTexts).alternatives


def make_outputs(recipe: Recipe, tokenizer: Tokenizer, model: Model, examples: Sequence[Labelled]) -> list[np.ndarray]:
    """Return what a model says of each text: probabilities of classes or labels, a score, or tags of words."""
    texts = task_texts(recipe, tokenizer)
    return list(texts.outputs(model, texts.for_scoring(texts.encode(examples)))) if examples else []
