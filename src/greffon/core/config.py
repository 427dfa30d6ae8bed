"""Read descriptions strictly: an unknown name is an error with the nearest known one.

Each setting is defined once, as a field of a frozen dataclass: its name, type, default, help text (the docstring below
it) and checks.
"""

import dataclasses
import inspect
import os
import types
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from greffon.core.errors import UserError, did_you_mean, setting
from greffon.core.synonyms import our_name

Description = TypeVar("Description")


def from_dict(kind: type[Description], values: Mapping[str, Any], where: str) -> Description:
    """Read a description strictly.

    >>> from greffon.core.shape import Shape
    >>> from_dict(Shape, {"n_laers": 3}, "recipe.json")
    Traceback (most recent call last):
    greffon.core.errors.UserError: recipe.json: unknown setting 'n_laers'; did you mean 'layers'?
    """
    if not isinstance(values, Mapping):
        raise UserError(f"{where}: expected a table of settings, found {type(values).__name__}")
    hints = get_type_hints(kind)
    for name in values:
        if name not in hints:
            raise UserError(f"{where}: {unknown_setting(name, list(hints))}")
    read = {name: read_value(hints[name], value, f"{where}: {name}") for name, value in values.items()}
    required = [
        f.name
        for f in dataclasses.fields(kind)  # type: ignore[arg-type]
        if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    for name in required:
        if name not in read:
            raise UserError(f"{where}: the setting {name!r} is missing")
    try:
        return kind(**read)
    except UserError as mistake:
        raise UserError(f"{where}: {mistake}") from None


def override(description: Description, settings: Mapping[str, Any]) -> Description:
    """Return the description with those of the settings that it has and that are not None."""
    names = {f.name for f in dataclasses.fields(description)}  # type: ignore[arg-type]
    given = {name: value for name, value in settings.items() if name in names and value is not None}
    return dataclasses.replace(description, **given)  # type: ignore[type-var]


def unknown_setting(name: str, known: list[str]) -> str:
    """Say that there is no such setting, and what it is called here or what was meant.

    >>> unknown_setting("lr", ["steps", "learning_rate"])
    "unknown setting 'lr': it is 'learning_rate' here"
    """
    ours = our_name(name, known)
    return f"unknown setting {name!r}" + (did_you_mean(name, known) if ours is None else f": it is {ours!r} here")


def check_names(settings: Mapping[str, Any], *kinds: type, where: str = "") -> None:
    """Refuse settings that none of the descriptions has."""
    known = [f.name for kind in kinds for f in dataclasses.fields(kind)]
    for name in settings:
        if name not in known:
            raise UserError(f"{where}{unknown_setting(name, known)}")


def check_keywords(signature: inspect.Signature, keywords: Collection[str]) -> None:
    """Refuse keyword arguments that a function does not have, with the nearest one."""
    for name in keywords:
        if name not in signature.parameters:
            raise UserError(unknown_setting(name, list(signature.parameters)))


def read_keyword(hint: Any, value: Any, name: str) -> Any:
    """Check the value of a keyword argument; numbers may be NumPy's, paths strings, several values any sequence.

    >>> read_keyword(float | None, 3, "minutes")
    3.0
    >>> read_keyword(tuple[str, ...], "valid.txt", "valid")
    ('valid.txt',)
    >>> read_keyword(int, 5.5, "steps")
    Traceback (most recent call last):
    greffon.core.errors.UserError: steps: expected int, found 5.5
    """
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(part for part in get_args(hint) if part is not type(None))
    if value is None or (get_origin(hint) is Literal and isinstance(value, str)):  # its own class tells the choices
        return value
    items = get_args(hint)[0] if get_origin(hint) is tuple else hint
    if items in (str, Path) and isinstance(value, str | os.PathLike):
        return value if items is hint else (value,)
    if items is not hint and isinstance(value, Iterable) and not isinstance(value, str):
        return tuple(read_keyword(items, each, name) for each in value)
    plain = value.item() if hasattr(value, "item") and not getattr(value, "ndim", 0) else value
    return read_value(hint, plain, setting(name))


def read_value(hint: Any, value: Any, where: str) -> Any:
    """Check one value against its annotation; JSON's lists become tuples, its integers floats."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return from_dict(hint, value, where)
    origin = get_origin(hint)
    if origin is Literal:
        if value in get_args(hint):
            return value
        raise UserError(f"{where}: unknown choice {value!r}{did_you_mean(str(value), get_args(hint))}")
    if origin in (Union, types.UnionType):
        if value is None:
            return None
        members = [arg for arg in get_args(hint) if arg is not type(None)]
        return read_value(next((arg for arg in members if _has_the_names_of(value, arg)), members[0]), value, where)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(read_value(get_args(hint)[0], item, where) for item in value)
    if origin is list and isinstance(value, list):
        return [read_value(get_args(hint)[0], item, where) for item in value]
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, Mapping):
        return {str(name): read_value(get_args(hint)[1], item, where) for name, item in value.items()}
    if hint is Any:
        return value
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(hint, type) and type(value) is hint:
        return value
    wanted = hint.__name__ if isinstance(hint, type) else str(hint)
    raise UserError(f"{where}: expected {wanted}, found {value!r}")


def _has_the_names_of(value: Any, kind: Any) -> bool:
    """Whether a table has just the names of a description: so one of several kinds is known."""
    names = {f.name for f in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else None
    return isinstance(value, Mapping) and names == set(value)
