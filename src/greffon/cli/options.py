"""The options of the commands: groups that are made from the fields of `greffon.core`, and single types.

The name, type, default and help text of a setting stand there, once; this module only turns them into options.
"""

import ast
import dataclasses
import inspect
import itertools
import textwrap
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import tyro

from greffon.core.answering import Answering, Decoding, EvaluationFiles, Sampling
from greffon.core.choices import Task
from greffon.core.graft import Graft
from greffon.core.own_presets import compact, small
from greffon.core.recipe import Contrast, Masking
from greffon.core.settings import (
    BY_PRESET,
    Budget,
    Comparing,
    Corpus,
    Finetuning,
    Labels,
    Launch,
    Machine,
    Pairs,
    Start,
)
from greffon.core.shape import FREE, Shape
from greffon.core.training import PAIR_SETTINGS, Training

_INSIDE = {Training: ("steps", "minutes"), Shape: ("segments", "position_offset")}
"""Fields that are no options: `Budget` has them, or they follow from other settings."""
ONE_WORD = "numbers between commas"
"""Mark of an option whose numbers are one word: 20,100."""
_METAVARS = {int: "N", float: "NUMBER", bool: "true|false", str: "NAME", Path: "FILE"}


def field_help(kind: type) -> dict[str, str]:
    """Read the docstrings that stand under the fields of a dataclass."""
    inherited: dict[str, str] = {}
    for parent in kind.__bases__:
        inherited |= field_help(parent) if dataclasses.is_dataclass(parent) else {}
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body  # type: ignore[attr-defined]
    return inherited | {
        field.target.id: " ".join(ast.literal_eval(below.value).split())
        for field, below in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr)
    }


def without_none(hint: Any) -> Any:
    """Return the type of an optional value."""
    if get_origin(hint) not in (Union, types.UnionType):
        return hint
    return next(part for part in get_args(hint) if part is not type(None))


def options(
    kind: type, refused: Mapping[str, str] | None = None, presets: Mapping[str, Mapping[str, Any]] | None = None
) -> type:
    """Make a dataclass with one optional option for each field; `refused` says why some fields have none.

    `presets` holds, by the names of presets, the values of settings that are left out: the help text tells them.

    What is not given is None (a flag: False), so that the function behind the command applies its own default.
    """
    refused, made = refused or {}, list[tuple[str, Any, Any]]()
    told, hints = field_help(kind), get_type_hints(kind)
    for f in dataclasses.fields(kind):
        if f.name in _INSIDE.get(kind, ()) or f.name in refused:
            continue
        about = told[f.name]
        if f.metadata.get("flag"):
            made.append((f.name, Annotated[bool, tyro.conf.arg(help=about, help_behavior_hint="")], False))
            continue
        hint = without_none(hints[f.name])
        one = get_args(hint)[0] if get_origin(hint) is tuple else hint
        metavar = f.metadata.get("metavar") or _METAVARS.get(one) or "|".join(get_args(one))
        if kind not in BY_PRESET and f.default not in (None, (), ""):
            about += f" (default: {' '.join(f.default) if isinstance(f.default, tuple) else f.default})"
        if presets and f.name != "seed":
            about += _preset_defaults(f.name, presets)
        several = one is not hint and not set(" ,") & set(metavar)
        shown = tyro.conf.arg(metavar=metavar + "…" * several, help=about, help_behavior_hint="")
        whole = Annotated[hint | None, shown, ONE_WORD] if f.metadata.get("commas") else Annotated[hint | None, shown]
        made.append((f.name, whole, None))
    inside = {"__doc__": (kind.__doc__ or "") + _about_defaults(presets or {}), "refused": refused}
    return dataclasses.make_dataclass(f"{kind.__name__}Options", made, frozen=True, namespace=inside)


def _preset_defaults(name: str, presets: Mapping[str, Mapping[str, Any]]) -> str:
    """Tell the values that presets give to a setting.

    >>> _preset_defaults("layers", {"compact": {"layers": 3}, "lab": {"layers": 4}, "small": {"layers": 4}})
    ' (default: compact 3, lab and small 4)'
    """
    holders: dict[str, list[str]] = {}
    for preset, values in presets.items():
        if name in values:
            holders.setdefault(str(values[name]).lower(), []).append(preset)
    told = ", ".join(f"{' and '.join(names)} {value}" for value, names in holders.items())
    return f" (default: {told})" if told else ""


_DEFAULTS_OF = {
    "compact": "compact (bodies)",
    "compact encoder": "compact encoder (masked and contrastive bodies)",
    "contrastive": "contrastive (contrastive pretraining)",
    "small": "small (translators)",
}
"""The presets whose values the help text tells, and what they are for."""


def _about_defaults(presets: Mapping[str, Any]) -> str:
    """Say what the names of presets mean that follow in the help text.

    >>> _about_defaults({"compact": {}, "small": {}})
    ' Defaults depend on the preset: compact (bodies), small (translators).'
    >>> _about_defaults({"compact": {}})
    " Defaults are those of the body's preset, such as compact."
    """
    told = [about for name, about in _DEFAULTS_OF.items() if name in presets]
    if len(told) > 1:
        return f" Defaults depend on the preset: {', '.join(told)}."
    return " Defaults are those of the body's preset, such as compact." if told else ""


_COMPACT, _SMALL = compact(), small()
_BOTH_WAYS = vars(_COMPACT.shape_for("masked")).items() - vars(_COMPACT.shape).items()
_SHAPES = {"compact": vars(_COMPACT.shape), "compact encoder": dict(_BOTH_WAYS), "small": vars(_SMALL.shape)}
_TRAININGS = {
    "compact": {name: value for name, value in vars(_COMPACT.training).items() if name not in PAIR_SETTINGS},
    "small": {name: value for name, value in vars(_SMALL.training).items() if name != "batch_size"},
    "contrastive": dict(vars(_COMPACT.contrastive).items() - vars(_COMPACT.training).items()),
}
_OF_RANDOM_HEADS = ("learning_rate", "patience", "pooler_activation", "pooler_norm")
"""Settings with another default for a head that starts as the probe; the help text of --head-init tells of it."""


def _by_head(values: Mapping[str, Any], *unsaid: str) -> dict[str, dict[str, Any]]:
    """Divide the values of `compact` for a class head into those of any head and those of a random one."""
    told = {name: value for name, value in values.items() if name not in unsaid}
    random = {name: told.pop(name) for name in _OF_RANDOM_HEADS if name in told}
    return {"compact": told, "a random head of compact": random}


_FINETUNING = _by_head(vars(_COMPACT.finetuning), "evaluate_every")
_GRAFT = _by_head(vars(_COMPACT.graft), "pooling", "head_init")
_GRAFT_SHAPE = {"compact": {"dropout": _COMPACT.finetuning_dropout}}
_FIXED = dict.fromkeys(
    [f.name for f in dataclasses.fields(Shape) if f.name not in FREE],
    "is a fixed part of the pretrained body; only --dropout and --context can change",
)
_PRETRAINING = {
    **dict.fromkeys(PAIR_SETTINGS, "is for translation (`greffon pretrain --objective seq2seq`); leave it out"),
    "eval_tokens": "is for pretraining; fine-tuning always reads all validation texts",
}
_NO_COMPARISON = {
    **_PRETRAINING,
    "evaluate_every": "is for finetune; compare scores once an epoch",
    "seed": "is for finetune; compare trains with several, and --seeds says how many",
}
_NO_FREEZING = {
    "freeze": "is not for compare, which always has a `frozen` arm (logistic regression on the body's vectors); "
    "`greffon finetune --freeze` trains a head alone",
}

StartOptions = options(Start)
CorpusOptions = options(Corpus)
PairOptions = options(Pairs)
BudgetOptions = options(Budget)
MaskingOptions = options(Masking)
ContrastOptions = options(Contrast)
ShapeOptions = options(Shape, presets=_SHAPES)
TrainingOptions = options(Training, presets=_TRAININGS)
LaunchOptions = options(Launch)
TrainingMachineOptions = options(Machine)
MachineOptions = options(Machine, refused={"precision": "is for training; a finished run computes in fp32"})
LabelOptions = options(Labels)
FinetuningOptions = options(Finetuning)
ComparingOptions = options(Comparing)
GraftOptions = options(Graft, presets=_GRAFT)
GraftShapeOptions = options(Shape, refused=_FIXED, presets=_GRAFT_SHAPE)
GraftTrainingOptions = options(Training, refused=_PRETRAINING, presets=_FINETUNING)
SamplingOptions = options(Sampling)
DecodingOptions = options(Decoding)
AnswerOptions = options(Answering)
EvaluationFileOptions = options(EvaluationFiles)
ComparisonGraftOptions = options(Graft, refused=_NO_FREEZING, presets=_GRAFT)
ComparisonTrainingOptions = options(Training, refused=_NO_COMPARISON, presets=_FINETUNING)


Run = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
Checkpoint = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
Runs = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN…", help_behavior_hint="")]
Texts = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TEXT…", help_behavior_hint="")]
Prompt = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PROMPT")]
Query = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="QUERY")]
MaskedText = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TEXT")]
PossibleFile = Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[FILE]", help_behavior_hint="")]
OptionalRun = Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN]", help_behavior_hint="")]

Word = Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")]
SomeText = Annotated[str | None, tyro.conf.arg(metavar="TEXT", help_behavior_hint="")]
Number = Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="")]
OptionalFile = Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")]
OutRun = Annotated[Path | None, tyro.conf.arg(metavar="RUN", help_behavior_hint="")]
Flag = Annotated[bool, tyro.conf.arg(help_behavior_hint="")]
Count = Annotated[int, tyro.conf.arg(metavar="N")]
OptionalReal = Annotated[float | None, tyro.conf.arg(metavar="NUMBER", help_behavior_hint="")]
Real = Annotated[float, tyro.conf.arg(metavar="NUMBER")]
Columns = Annotated[tuple[str, ...], tyro.conf.arg(metavar="A B", help_behavior_hint="")]
TaskName = Annotated[Task | None, tyro.conf.arg(metavar="|".join(get_args(Task)), help_behavior_hint="")]
Column = Annotated[str, tyro.conf.arg(metavar="NAME")]
File = Annotated[Path, tyro.conf.arg(metavar="FILE")]
NewRun = Annotated[Path, tyro.conf.arg(metavar="RUN")]
NewDirectory = Annotated[Path, tyro.conf.arg(metavar="DIR")]
