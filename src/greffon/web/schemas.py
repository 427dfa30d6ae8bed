"""Requests as dataclasses: the names, types and bounds of their fields, from which the description is generated."""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from greffon.core.answering import Sampling, Search
from greffon.core.config import from_dict
from greffon.core.errors import UserError

Question = TypeVar("Question")


@dataclass(frozen=True)
class Between:
    """Smallest and largest number that is allowed."""

    least: float
    greatest: float


@dataclass(frozen=True)
class AtMost:
    """Maximum length: characters of a text, or entries of a list."""

    length: int


Name = Annotated[str, AtMost(255)]
Text = Annotated[str, AtMost(20_000)]
Texts = Annotated[tuple[Text, ...], AtMost(64)]


@dataclass(frozen=True)
class Generate:
    """Continue a prompt; the same seed gives the same text."""

    run: Name
    prompt: Text = ""
    max_new_tokens: Annotated[int, Between(1, 400)] = Sampling.max_new_tokens
    temperature: Annotated[float, Between(0, 100)] = Sampling.temperature
    top_k: Annotated[int, Between(0, 1_000_000)] = Sampling.top_k
    top_p: Annotated[float, Between(0, 1)] = Sampling.top_p
    seed: Annotated[int, Between(0, 2**53 - 1)] = Sampling.seed


@dataclass(frozen=True)
class Stream(Generate):
    """Continue a prompt token by token, with the most probable tokens at each place."""

    alternatives: Annotated[int, Between(0, 20)] = 5


@dataclass(frozen=True)
class Fill:
    """Predict the tokens at each [MASK] of a text."""

    run: Name
    text: Text
    top_k: Annotated[int, Between(1, 50)] = 5


@dataclass(frozen=True)
class Classify:
    """Label texts."""

    run: Name
    texts: Texts


@dataclass(frozen=True)
class Answer:
    """Ask a run for several labels, scores, pairs (with `second`) or spans about a text."""

    run: Name
    text: Text
    second: Text | None = None


@dataclass(frozen=True)
class Occlude:
    """Label a text, and return the influence of each word on the label."""

    run: Name
    text: Text
    label: Name | None = None


@dataclass(frozen=True)
class Translate:
    """Translate sentences."""

    run: Name
    texts: Texts
    beam_size: Annotated[int, Between(1, 16)] = Search.beam_size
    length_penalty: Annotated[float, Between(0, 10)] = Search.length_penalty
    source_lang: Name | None = None
    target_lang: Name | None = None


@dataclass(frozen=True)
class Attend:
    """Return the attention weights of one layer on a text (and, for a translator, its translation)."""

    run: Name
    text: Text
    to: Text | None = None
    kind: Literal["self", "source", "target", "cross"] | None = None
    layer: Annotated[int, Between(1, 1000)] | None = None


@dataclass(frozen=True)
class Embed:
    """Turn texts into vectors."""

    run: Name
    texts: Texts
    pooling: Literal["cls", "mean", "last"] = "mean"


def read(kind: type[Question], values: Any) -> Question:
    """Make a request of a JSON value; raise a `UserError` that names the field that is wrong."""
    try:
        question = from_dict(kind, values, "the request")
    except OverflowError:
        raise UserError("the request: a number is too large") from None
    for name, hint in get_type_hints(kind, include_extras=True).items():
        _check(hint, getattr(question, name), name)
    return question


def _check(hint: Any, value: Any, name: str) -> None:
    """Check a value against the bounds in its annotation, and the entries of a list against theirs."""
    inner, bounds = unwrap(hint)
    if value is None:
        return
    for bound in bounds:
        if isinstance(bound, Between) and not bound.least <= value <= bound.greatest:
            raise UserError(f"{name} is {value}; choose a number from {bound.least:,} to {bound.greatest:,}")
        if isinstance(bound, AtMost) and len(value) > bound.length:
            what = "texts" if isinstance(value, tuple) else "characters"
            raise UserError(f"{name} has {len(value):,} {what}; send {bound.length:,} at most")
    if isinstance(value, tuple):
        for item in value:
            _check(get_args(inner)[0], item, name)


def unwrap(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Split an annotation into the type, without "or None", and its bounds."""
    bounds: tuple[Any, ...] = ()
    while True:
        if get_origin(hint) is Annotated:
            hint, *more = get_args(hint)
            bounds += tuple(more)
        elif type(None) in get_args(hint):
            (hint,) = (part for part in get_args(hint) if part is not type(None))
        else:
            return hint, bounds


def required(kind: type) -> list[str]:
    """Return the names of the fields without a default."""
    return [f.name for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING]
