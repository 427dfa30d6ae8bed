"""The presets by name."""

from collections.abc import Callable
from typing import get_args

from greffon.core.choices import PretrainingObjective
from greffon.core.errors import UserError, did_you_mean
from greffon.core.own_presets import auto, base, compact, lab, small
from greffon.core.preset import Preset
from greffon.core.published_presets import (
    bert,
    bert_mini,
    distilbert,
    gpt2,
    gpt2_mini,
    llama,
    m2m100,
    marian,
    marian_small,
    mbart,
    modernbert,
)

PRESETS: dict[str, Callable[[], Preset]] = {
    "auto": auto,
    "compact": compact,
    "lab": lab,
    "small": small,
    "base": base,
    "bert": bert,
    "bert-mini": bert_mini,
    "distilbert": distilbert,
    "gpt2": gpt2,
    "gpt2-mini": gpt2_mini,
    "llama": llama,
    "modernbert": modernbert,
    "marian": marian,
    "marian-small": marian_small,
    "mbart": mbart,
    "m2m100": m2m100,
}
DEFAULTS = {"seq2seq": "small"}
"""The preset of an objective where none is named; of all others, `auto`."""


def preset(name: str, objective: str) -> Preset:
    """Look up a preset for an objective; another pairing is an error that names the choices."""
    if name not in PRESETS:
        raise UserError(f"unknown preset {name!r}{did_you_mean(name, PRESETS)}")
    found = PRESETS[name]()
    if objective not in found.objectives:
        fitting = [other for other, make in PRESETS.items() if objective in make().objectives]
        if not fitting:
            raise UserError(f"unknown objective {objective!r}{did_you_mean(objective, get_args(PretrainingObjective))}")
        raise UserError(
            f"preset {name!r} serves {', '.join(found.objectives)}, not {objective}; "
            f"for {objective} choose {' or '.join(fitting)}"
        )
    return found
