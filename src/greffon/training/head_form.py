"""The form of a grafted head: what was asked for, and otherwise what suits the task and the body."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from greffon.core.choices import Task
from greffon.core.config import override
from greffon.core.conflicts import GRAFT_RULES, Idle, Values, refuse_idle
from greffon.core.errors import UserError, setting
from greffon.core.graft import Graft
from greffon.core.recipe import Data, Recipe
from greffon.objectives.labelled_texts import LINKS
from greffon.objectives.task_texts import alternatives, ignored_settings
from greffon.runs.huggingface.fit import head_form

PROBE_LEARNING_RATE = 3e-4
"""Highest default learning rate of a head that starts as a probe, and of the body below it."""
PROBE_FORM = {"pooler_activation": "identity", "pooler_bias": True, "pooler_norm": True, "class_bias": True}
"""The form of a head that can start as a probe."""
AUTO = "auto"
"""The value of a setting that trials are to choose."""


def make_grafts(
    found: Graft, base: Recipe, data: Data, settings: Mapping[str, Any], *, scratch: bool
) -> dict[str, Graft]:
    """Describe the head, or each of those that are to be tried, by name; `found` is the preset's."""
    refuse_ignored(data.task, settings)
    known = alternatives(data.task)
    rest = {name: value for name, value in settings.items() if value != AUTO}
    fitting = {name: own for name, own in known.items() if _fits(own, rest)}
    made = {name: {**rest, **own} for name, own in fitting.items()} or {data.task: rest}
    return {name: _graft(found, base, data, asked, scratch=scratch) for name, asked in made.items()}


def _fits(own: Mapping[str, str], settings: Mapping[str, Any]) -> bool:
    """Whether the settings of a head leave those that were given as they are, and in effect."""
    if any(settings.get(name, value) != value for name, value in own.items()):
        return False
    return not any(rule.reason({**settings, **own}) for rule in GRAFT_RULES if any(n in settings for n in rule.names))


def _graft(found: Graft, base: Recipe, data: Data, settings: Mapping[str, Any], *, scratch: bool) -> Graft:
    """Describe the head: for trained weights one that starts as the probe, unless another form was asked for.

    A head of another task than classes has the form that the family of the body has for it, and starts as the probe
    where that is the form of one.
    """
    against = [name for name, value in PROBE_FORM.items() if settings.get(name) not in (None, value)]
    if settings.get("head_init") == "probe" and against:
        raise UserError(
            f"{setting(against[0])} does not go with a head that starts as a probe; "
            f"add {setting('head_init', 'random')}"
        )
    kind = settings.get("head_init") or ("random" if against else "probe")
    pairs_apart = data.task == "pairs" and settings.get("pair_reading") != "cross"
    probed = data.task in LINKS
    form = {} if data.task == "classes" or pairs_apart else head_form(base, data.task)
    is_probe_s = all(form.get(name, value) == value for name, value in PROBE_FORM.items())
    if form and not (probed and (is_probe_s or "head_init" in settings) and kind == "probe"):
        if base.embedding is not None and "pooling" in form:
            form["pooling"] = base.embedding.pooling
        if settings.get("pooler_activation") == "none":
            form["pooler_norm"] = False
        return override(found, {**form, **settings, "head_init": "random"})
    if kind == "random" or not probed:
        return override(found, {"pooling": _pooling(base), **settings, "head_init": "random"})
    # Fresh weights have the same form as pretrained ones, so that pretraining is all that differs.
    pooling = "mean" if base.embedding is None else base.embedding.pooling
    return override(
        found, {"pooling": pooling, **settings, **PROBE_FORM, "head_init": "random" if scratch else "probe"}
    )


def refuse_ignored(task: Task, settings: Mapping[str, Any]) -> None:
    """Refuse settings of the head that a task would ignore."""
    if settings.get("head_init") == "probe" and task not in LINKS:
        why = f"here: a head for {task} has no probe to start as; leave it out"
        refuse_idle([Idle(("head_init",), lambda values: why)], settings)
    ignored = ignored_settings(task)
    refuse_idle([*(Idle((name,), partial(_here, why)) for name, why in ignored.items()), *GRAFT_RULES], settings)


def _here(why: str, values: Values) -> str:
    return f"here: {why}"


def _pooling(base: Recipe) -> str | None:
    """Return the pooling that suits how a body was pretrained, or None for the preset's."""
    if base.embedding is not None:
        return base.embedding.pooling
    if base.contrast is not None:
        return "mean"
    return "cls" if base.body == "encoder" else None
