"""The fields of a dataclass as rows of a table: name, type and meaning, read from the source.

The reference documentation of every JSON file and answer is made from these rows, so that it cannot
differ from the code.
"""

import ast
import dataclasses
import inspect
import textwrap
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Field:
    """One row of the table."""

    name: str
    """Path of the field: `a.b` inside an object, `a[]` in each item of a list, `a.*` for each name of a table."""
    type: str
    """Type of the field in JSON."""
    doc: str
    """Docstring of the field; for a nested dataclass without one, that of its class."""


def describe(kind: type) -> list[Field]:
    """List the fields of a dataclass, those of nested dataclasses included.

    >>> [(field.name, field.type) for field in describe(Field)]
    [('name', 'string'), ('type', 'string'), ('doc', 'string')]
    """
    assert dataclasses.is_dataclass(kind), f"{kind} is no dataclass"
    return list(_rows(kind, prefix=""))


def markdown(kind: type) -> str:
    """Write the fields of a dataclass as a table in Markdown."""
    lines = ["| field | type | meaning |", "| --- | --- | --- |"]
    lines += [f"| `{field.name}` | {_cell(field.type)} | {_cell(field.doc)} |" for field in describe(kind)]
    return "\n".join(lines)


def field_docs(kind: type) -> dict[str, str]:
    """Read the string below each field of a class, base classes included; a field without one is left out."""
    docs: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if dataclasses.is_dataclass(base):
            docs |= _own_docs(base)
    return docs


@cache
def _own_docs(kind: type) -> dict[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    (definition,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    docs: dict[str, str] = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            value = below.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                docs[field.target.id] = " ".join(value.value.split())
    return docs


def _rows(kind: type, prefix: str) -> Iterator[Field]:
    hints, docs = get_type_hints(kind), field_docs(kind)
    for field in dataclasses.fields(kind):
        inner, suffix = _unwrap(hints[field.name])
        name, doc = f"{prefix}{field.name}", docs.get(field.name, "")
        yield Field(name, type_name(hints[field.name]), doc or (_summary(inner[0]) if inner else ""))
        known: set[str] = set()
        for row in (row for kind in inner for row in _rows(kind, f"{name}{suffix}.")):
            if row.name not in known:  # several kinds share some fields
                yield row
            known.add(row.name)


def _unwrap(hint: Any) -> tuple[list[type], str]:
    """Find the dataclasses inside a type, several in a union, and how a path leads to them."""
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return [hint], ""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        found = [_unwrap(arg) for arg in args]
        return [kind for kinds, _ in found for kind in kinds], next((suffix for kinds, suffix in found if kinds), "")
    if _is_mapping(origin):
        inner, suffix = _unwrap(args[1])
        return inner, f".*{suffix}"
    if origin in (tuple, list):
        inner, suffix = _unwrap(args[0])
        return inner, f"[]{suffix}"
    return [], ""


def type_name(hint: Any) -> str:
    """Name a type in the words of JSON.

    >>> type_name(tuple[float, float] | None), type_name(Mapping[str, int])
    ('[number, number] or null', 'object of integer')
    """
    names = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null", Any: "any"}
    if hint in names:
        return names[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return " or ".join(f'"{choice}"' if isinstance(choice, str) else str(choice) for choice in args)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(type_name(arg) for arg in args))
    if _is_mapping(origin):
        return f"object of {type_name(args[1])}"
    if origin is tuple and Ellipsis not in args:
        return f"[{', '.join(map(type_name, args))}]"
    if origin in (tuple, list):
        return f"list of {type_name(args[0])}"
    return "object" if dataclasses.is_dataclass(hint) else "string"  # a path, say, is written as a string


def _is_mapping(origin: Any) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _summary(kind: type) -> str:
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
