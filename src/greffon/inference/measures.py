"""The answers and scores of each kind of label: the one place that chooses by it."""

from greffon.core.choices import Answer
from greffon.core.recipe import Recipe
from greffon.inference.tasks.base import Measure
from greffon.inference.tasks.classes import Classes
from greffon.inference.tasks.multilabel import Multilabel
from greffon.inference.tasks.regression import Regression
from greffon.inference.tasks.tokens import Tokens

MEASURES: dict[Answer, Measure] = {
    "classes": Classes(),
    "multilabel": Multilabel(),
    "regression": Regression(),
    "tokens": Tokens(),
}


def measure_of(recipe: Recipe) -> Measure:
    """Return the answers and scores of a run with a grafted head."""
    return MEASURES[recipe.answer]
