"""The OpenAPI description of the API, generated from the types of requests and results."""

import dataclasses
import inspect
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from greffon import __version__
from greffon.runs.params import Ledger
from greffon.web import schemas
from greffon.web.catalogue import Served
from greffon.web.curves import Curve
from greffon.web.handlers import ANSWERS, question_of, stream
from greffon.web.schemas import AtMost, Between, unwrap

Schema = dict[str, Any]

_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}
_NAME = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}


def schema(hint: Any) -> Schema:
    """Return the JSON schema of a type."""
    inner, bounds = unwrap(hint)
    described = _schema(inner)
    for bound in bounds:
        if isinstance(bound, Between):
            described |= {"minimum": bound.least, "maximum": bound.greatest}
        elif isinstance(bound, AtMost):
            described |= {"maxItems" if described.get("type") == "array" else "maxLength": bound.length}
    if inner is not hint and type(None) in _alternatives(hint):
        return {"anyOf": [described, {"type": "null"}]}
    return described


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else ()


def _schema(kind: Any) -> Schema:
    origin, inside = get_origin(kind), get_args(kind)
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _object(kind)
    if origin is Literal:
        return {"type": "string", "enum": list(inside)}
    if origin is tuple and inside[-1] is not Ellipsis:
        return {"type": "array", "prefixItems": [schema(part) for part in inside]}
    if origin in (list, tuple):
        return {"type": "array", "items": schema(inside[0])}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": schema(inside[1])}
    raise AssertionError(f"no schema for {kind}")


def _object(kind: type) -> Schema:
    hints = get_type_hints(kind, include_extras=True)
    parts = {name: schema(hint) for name, hint in hints.items()}
    for f in dataclasses.fields(kind):
        if f.default is not dataclasses.MISSING:
            parts[f.name]["default"] = f.default
    described: Schema = {"type": "object", "description": inspect.getdoc(kind), "properties": parts}
    needed = schemas.required(kind)
    return {**described, "required": needed} if needed else described


def _ledger() -> Schema:
    """Describe `Ledger.to_json`, whose total is computed from the components."""
    described = _object(Ledger)
    return {**described, "properties": {"total": schema(int), **described["properties"]}}


def _content(described: Schema, media: str = "application/json") -> Schema:
    return {media: {"schema": described}}


def _failures(*codes: int) -> Schema:
    reasons = {
        400: "the request is invalid; `error` says why",
        404: "nothing of this name is served",
        408: "the request did not arrive in time",
        413: "the request is too large",
        415: "the request is no JSON",
        503: "too many requests are waiting; try again after the seconds in Retry-After",
    }
    error = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    return {str(code): {"description": reasons[code], "content": _content(error)} for code in codes}


def _post(name: str, asked: type, found: Schema, media: str = "application/json") -> Schema:
    return {
        "post": {
            "operationId": name,
            "summary": inspect.getdoc(asked),
            "requestBody": {"required": True, "content": _content(_object(asked) | {"additionalProperties": False})},
            "responses": {
                "200": {"description": "the answer", "content": _content(found, media)},
                **_failures(400, 404, 408, 413, 415, 503),
            },
        }
    }


def _get(name: str, summary: str, content: Schema, named: bool) -> Schema:
    described: Schema = {
        "operationId": name,
        "summary": summary,
        "responses": {"200": {"description": "the answer", "content": content}, **_failures(*([404] if named else []))},
    }
    return {"get": described | ({"parameters": [_NAME]} if named else {})}


def description() -> Schema:
    """Describe the whole API."""
    paths = {
        f"/api/{name}": _post(name, question_of(answer), schema(get_type_hints(answer)["return"]))
        for name, answer in ANSWERS.items()
    }
    (written,) = get_args(get_type_hints(stream)["return"])
    whole = schema(get_type_hints(ANSWERS["generate"])["return"])
    line: Schema = {
        "type": "object",
        "description": "One JSON object a line: `written` for each token, then `generation`, or `error`.",
        "properties": {"written": schema(written), "generation": whole, "error": {"type": "string"}},
    }
    paths["/api/generate/stream"] = _post("stream", schemas.Stream, line, "application/x-ndjson")
    paths["/api/runs"] = _get(
        "runs", "All runs and comparisons that are served.", _content(schema(Served)), named=False
    )
    paths["/api/runs/{name}/curve"] = _get("curve", "Logged scores of a run.", _content(schema(Curve)), named=True)
    paths["/api/runs/{name}/ledger"] = _get(
        "ledger", "Parameters of a run, component by component.", _content(_ledger()), named=True
    )
    page = _content({"type": "string"}, "text/html")
    paths["/api/comparisons/{name}/report"] = _get("report", "The report of a comparison.", page, named=True)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Greffon",
            "version": __version__,
            "description": "Use the runs that `greffon serve` was given. Every failure is one sentence in `error`.",
        },
        "paths": paths,
    }
