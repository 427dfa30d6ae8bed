import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from greffon.core.recipe import Recipe
from greffon.core.schema import Field, describe, field_docs, markdown, type_name


@dataclass(frozen=True)
class Inner:
    """An estimate. More about it."""

    mean: float
    """Mean over the seeds,
    as a share."""


@dataclass(frozen=True)
class Outer:
    """A result."""

    kind: Literal["a", "b"]
    """One | the other."""
    first: Inner
    arms: Mapping[str, Inner]
    """By name."""
    points: tuple[Inner, ...]
    perhaps: Inner | None = None
    """None: not measured."""
    silent: int = 0


@dataclass(frozen=True)
class Derived(Outer):
    """A result with one field more."""

    more: bool = False
    """Whether there is more."""


def test_rows_hold_names_types_and_docstrings():
    mean = ("number", "Mean over the seeds, as a share.")
    assert describe(Outer) == [
        Field("kind", '"a" or "b"', "One | the other."),
        Field("first", "object", "An estimate. More about it."),
        Field("first.mean", *mean),
        Field("arms", "object of object", "By name."),
        Field("arms.*.mean", *mean),
        Field("points", "list of object", "An estimate. More about it."),
        Field("points[].mean", *mean),
        Field("perhaps", "object or null", "None: not measured."),
        Field("perhaps.mean", *mean),
        Field("silent", "integer", ""),
    ]


def test_a_derived_class_keeps_the_docstrings_of_its_base():
    assert field_docs(Derived) == field_docs(Outer) | {"more": "Whether there is more."}
    assert describe(Derived)[-1] == Field("more", "boolean", "Whether there is more.")


@pytest.mark.parametrize(
    ("hint", "name"),
    [
        (tuple[float, float], "[number, number]"),
        (tuple[tuple[int, ...], ...], "list of list of integer"),
        (Mapping[str, float | None], "object of number or null"),
        (dict[str, Any], "object of any"),
        (list[str], "list of string"),
    ],
)
def test_types_are_named_as_in_json(hint, name):
    assert type_name(hint) == name


def test_the_table_escapes_what_would_end_a_cell():
    lines = markdown(Outer).splitlines()
    assert lines[0] == "| field | type | meaning |"
    assert lines[2] == '| `kind` | "a" or "b" | One \\| the other. |'
    assert len(lines) == 2 + len(describe(Outer))


def test_any_description_of_a_run_can_be_described():
    names = [field.name for field in describe(Recipe)]
    assert {field.name for field in dataclasses.fields(Recipe)} <= set(names)
    assert "training.batch_size" in names
