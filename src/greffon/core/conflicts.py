"""Settings that would have no effect together with what else was given: they are refused, never ignored.

A rule names settings and says under which condition they have no effect. Functions with a fixed list of parameters
are checked by the decorator `refuses`; those that take `**settings` call `refuse_idle`.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from greffon.core.config import check_keywords
from greffon.core.errors import UserError, setting
from greffon.core.graft import Graft
from greffon.core.shape import Shape
from greffon.core.training import PAIR_SETTINGS, Training

Values = Mapping[str, Any]
P = ParamSpec("P")
R = TypeVar("R")

_ON_BY_DEFAULT = {f.name for kind in (Shape, Training, Graft) for f in dataclasses.fields(kind) if f.default is True}
"""Settings that ask for something when they are False."""


@dataclass(frozen=True)
class Idle:
    """Settings that have no effect under a condition."""

    names: tuple[str, ...]
    """The settings."""
    reason: Callable[[Values], str | None]
    """Return the rest of the sentence "--x has no effect …" from all values; None where the settings have an effect."""


def beside(name: str, value: object, why: str) -> Callable[[Values], str | None]:
    """Make the reason of settings that have no effect where another one has a value."""
    other = setting(name) if value is True else setting(name, value)
    return lambda values: f"with {other}: {why}; give one of them" if values.get(name) == value else None


def unless(name: str, wanted: object, why: str) -> Callable[[Values], str | None]:
    """Make the reason of settings that have an effect only where another one has a value."""

    def reason(values: Values) -> str | None:
        found = values.get(name)
        return None if found == wanted else f"with {setting(name, found)}: {why}; give one of them"

    return reason


def refuse_idle(rules: Iterable[Idle], given: Values, values: Values | None = None) -> None:
    """Refuse a setting that was given and has no effect; `values` are those of settings that were left out.

    >>> refuse_idle(TRAINING_RULES, {"muon_learning_rate": 0.01}, {"optimizer": "adamw"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    greffon.core.errors.UserError: muon_learning_rate has no effect with optimizer=adamw: AdamW trains ...
    """
    together = {**(values or {}), **{name: value for name, value in given.items() if value is not None}}
    for rule in rules:
        for name in rule.names:
            value = given.get(name)
            off = not value or value == "none"  # what switches itself off asks nothing
            if off and not (value is False and name in _ON_BY_DEFAULT):
                continue
            reason = rule.reason(together)
            if reason is not None:
                raise UserError(f"{setting(name, value if isinstance(value, str) else None)} has no effect {reason}")


def refuses(*rules: Idle) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Check the arguments of a function by rules: only those count as given that the caller wrote.

    Where the function `takes` settings, a name that is none of them is refused with the nearest one.
    """

    def check(verb: Callable[P, R]) -> Callable[P, R]:
        signature, settings = inspect.signature(verb), hasattr(verb, "__signature__")

        @functools.wraps(verb)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            if settings:
                check_keywords(signature, kwargs)
            bound = signature.bind(*args, **kwargs)
            given = dict(bound.arguments)
            bound.apply_defaults()
            refuse_idle(rules, given, bound.arguments)
            return verb(*args, **kwargs)

        return checked

    return check


def _muon_of_a_frozen_body(values: Values) -> str | None:
    frozen_muon = values.get("freeze") and values.get("optimizer") == "muon"
    return f"with {setting('freeze')}: Muon trains only matrices of the body; give one of them" if frozen_muon else None


def _outside_translation(values: Values) -> str | None:
    return (
        None
        if values.get("objective") == "seq2seq"
        else f"here: it is for translation ({setting('objective', 'seq2seq')})"
    )


_UNFREEZING = ("layer_decay", "gradual_unfreezing", "unfreeze_every")

TRAINING_RULES = (
    Idle(_UNFREEZING, beside("freeze", True, "no layer of the body is trained")),
    Idle(("optimizer",), _muon_of_a_frozen_body),
    Idle(("muon_learning_rate",), beside("freeze", True, "Muon trains only matrices of the body")),
    Idle(("muon_learning_rate",), beside("optimizer", "adamw", "AdamW trains all parameters")),
    Idle(("unfreeze_every",), beside("gradual_unfreezing", True, "both set when a layer begins to learn")),
    Idle(PAIR_SETTINGS, _outside_translation),
)
"""Rules of every training."""

_OF_LLAMA3 = ("rope_low_freq_factor", "rope_high_freq_factor", "rope_original_context")
_ROPE = ("rope_theta", "local_rope_theta", "partial_rotary_factor", "rope_scaling", "rope_factor", *_OF_LLAMA3)

SHAPE_RULES = (
    Idle(_ROPE, unless("positions", "rotary", "it is for rotary positions")),
    Idle(("rope_factor",), beside("rope_scaling", "none", "positions are not stretched")),
    Idle(_OF_LLAMA3, unless("rope_scaling", "llama3", "it is for the stretching of Llama 3")),
    Idle(
        ("global_attention_every", "local_rope_theta"),
        beside("local_attention", 0, "every layer attends to the whole document"),
    ),
    Idle(("untied_head_bias",), beside("tie_embeddings", True, "a tied head has no matrix of its own")),
    Idle(("untied_head_bias",), beside("bias", False, "no linear layer has a bias")),
    Idle(("qkv_bias",), beside("bias", True, "every linear layer has a bias")),
)
"""Rules of the shape of a body."""

PRETRAINING_RULES = (
    *TRAINING_RULES,
    *SHAPE_RULES,
    Idle(("head_bias",), beside("tie_embeddings", False, "an untied head has the biases of `bias`")),
    Idle(
        ("tie_embeddings", "head_transform", "head_bias", "untied_head_bias"),
        beside("objective", "contrastive", "a contrastive body has no vocabulary head"),
    ),
    Idle(("block_share",), beside("norm_place", "post", "a norm after each sublayer undoes it")),
    Idle(("batch_size",), beside("objective", "seq2seq", f"{setting('batch_tokens')} sizes a batch of sentence pairs")),
)
"""Rules of pretraining."""

_LENGTH = f"in fine-tuning: {setting('epochs')} says how long it takes; leave it out"

FINETUNING_RULES = (
    *TRAINING_RULES,
    Idle(("steps", "minutes"), lambda values: _LENGTH),
    Idle(("eval_tokens",), lambda values: "in fine-tuning, which always reads all validation texts; leave it out"),
)
"""Rules of fine-tuning."""


def _of_task(task: str, what: str) -> Callable[[Values], str | None]:
    return lambda values: (
        None if values["task"] == task else f"here: it is for {what}, and this is for {values['task']}; leave it out"
    )


def _text_of_a_pair(values: Values) -> str | None:
    named = f"here: {setting('pair_columns')} names the two texts of a pair; leave it out"
    return named if values["task"] == "pairs" else None


LABEL_RULES = (
    Idle(("pair_columns",), _of_task("pairs", "pairs of texts")),
    Idle(("label_separator",), _of_task("multilabel", "texts with several labels")),
    Idle(("text_column",), _text_of_a_pair),
)
"""Rules of labelled files; they need the task of the files."""


def _windows_of_a_pair(values: Values) -> str | None:
    cross = values.get("pair_reading") == "cross" and values.get("long_texts") == "windows"
    return f"with {setting('pair_reading', 'cross')}: long pairs are truncated; give one of them" if cross else None


GRAFT_RULES = (Idle(("long_texts",), _windows_of_a_pair),)
"""Rules of a head, for every task."""
