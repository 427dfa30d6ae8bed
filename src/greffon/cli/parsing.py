"""From words on the command line, and a TOML file under them, to one dataclass of arguments.

Settings: defaults < `--config file.toml` < command line. Every mistake is a UserError of one sentence.
"""

import ast
import contextlib
import dataclasses
import inspect
import io
import itertools
import os
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_type_hints

import tyro

from greffon.core.config import FREE, PAIR_SETTINGS, Graft, Shape, Training, read_value
from greffon.core.errors import UserError, did_you_mean
from greffon.data.readers import stream_lines

Args = TypeVar("Args")

_ABOUT_CONFIG = "With --config FILE.toml, settings come from a file; the command line wins over it."
_OWN = {"steps", "minutes", "seed", "freeze", "segments", "position_offset"}
"""Fields that commands offer under the same name by themselves, or that follow from others."""


def _field_help(kind: type) -> dict[str, str]:
    """Read the docstrings that stand under the fields of a dataclass."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body  # type: ignore[attr-defined]
    return {
        field.target.id: ast.literal_eval(below.value)
        for field, below in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr)
    }


def _boolean(words: list[str]) -> bool:
    """Read true or false, in capitals or not."""
    if words[0].lower() not in ("true", "false"):
        raise ValueError("choose true or false")
    return words[0].lower() == "true"


_BOOLEAN = tyro.constructors.PrimitiveConstructorSpec(
    nargs=1,
    metavar="BOOL",
    instance_from_str=_boolean,
    is_instance=lambda value: value is None or isinstance(value, bool),
    str_from_instance=lambda value: [str(value)],
)


def _settings(name: str, *kinds: type, refused: Mapping[str, str] | None = None) -> type:
    """Make a dataclass with one optional flag for each field: `--layers 6`; but `refused` tells why some have none."""
    made = []
    for kind in kinds:
        told, types = _field_help(kind), get_type_hints(kind)
        for f in dataclasses.fields(kind):
            if f.name in _OWN or (refused and f.name in refused):
                continue
            wanted = types[f.name]
            choices = get_args(wanted)
            about = tyro.conf.arg(
                metavar="|".join(choices) if choices else wanted.__name__.upper(),
                help=told.get(f.name, ""),
                help_behavior_hint="",
            )
            made.append((f.name, Annotated[wanted | None, about, *([_BOOLEAN] if wanted is bool else [])], None))
    inside = {"__doc__": "Left out, they are the preset's.", "refused": refused or {}}
    return dataclasses.make_dataclass(name, made, frozen=True, namespace=inside)


_NO_GRAFT = {
    **dict.fromkeys(
        [f.name for f in dataclasses.fields(Shape) if f.name not in FREE],
        "is a fixed part of the pretrained body; only --dropout and --context can change",
    ),
    **dict.fromkeys(PAIR_SETTINGS, "is for translation (`greffon pretrain --objective seq2seq`); leave it out"),
}
_NO_COMPARISON = {
    **_NO_GRAFT,
    "evaluate_every": "is for finetune; compare scores once an epoch",
    "freeze": "is not for compare, which always has a `frozen` arm (logistic regression on the body's vectors); "
    "`greffon finetune --freeze` trains a head alone",
}

Settings = _settings("Settings", Shape, Training)
ShapeSettings = _settings("ShapeSettings", Shape)
GraftSettings = _settings("GraftSettings", Graft, Shape, Training, refused=_NO_GRAFT)
ComparisonSettings = _settings("ComparisonSettings", Graft, Shape, Training, refused=_NO_COMPARISON)


Run = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
Checkpoint = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
Runs = Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN…", help_behavior_hint="")]
Texts = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TEXT…", help_behavior_hint="")]
Prompt = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="PROMPT")]
MaskedText = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TEXT")]
PossibleFile = Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[FILE]", help_behavior_hint="")]
OptionalRun = Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN]", help_behavior_hint="")]


Word = Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="")]
SomeText = Annotated[str | None, tyro.conf.arg(metavar="TEXT", help_behavior_hint="")]
Number = Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="")]
Minutes = Annotated[float | None, tyro.conf.arg(metavar="M", help_behavior_hint="")]
Share = Annotated[float | None, tyro.conf.arg(metavar="SHARE", help_behavior_hint="")]
OptionalFile = Annotated[Path | None, tyro.conf.arg(metavar="F", help_behavior_hint="")]
OutRun = Annotated[Path | None, tyro.conf.arg(metavar="RUN", help_behavior_hint="")]


def given(settings: Any) -> dict[str, Any]:
    """Return the settings that the user gave."""
    return {name: value for name, value in vars(settings).items() if value is not None}


def asked_texts(
    texts: Sequence[str], file: Path | None, read: Callable[[Path], list[str]], what: str, noun: str = "texts"
) -> list[str]:
    """Return the texts that a command is about: those given, those of a file, or (-) the lines of stdin."""
    if (file is None) == (not texts):
        raise UserError(f"nothing to {what}, or too much; give {noun}, --file F, or - for stdin")
    if file is not None:
        found = read(file)
    elif tuple(texts) == ("-",):
        found = [line for _, line in stream_lines(sys.stdin.buffer, "standard input")]
    else:
        found = list(texts)
    if not found:
        raise UserError(f"{file or 'standard input'} is empty: nothing to {what}; give {noun} in it")
    return found


def parse(kind: type[Args], command: str, words: Sequence[str]) -> Args:
    """Read the arguments of one command."""
    words, config = _take_config(list(words), command)
    refused = {f"--{name.replace('_', '-')}": why for name, why in _refused(kind).items()}
    for word in itertools.takewhile(lambda word: word != "--", words):
        option = word.partition("=")[0].replace("_", "-")
        if option in refused:
            raise UserError(f"{option} {refused[option]}")
    default = _with_config(kind, config) if config is not None else None
    complaint = io.StringIO()
    width, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), os.environ.get("COLUMNS", "100")
    try:
        with contextlib.redirect_stderr(complaint):
            made: Args = tyro.cli(  # type: ignore[assignment]
                kind,
                prog=f"greffon {command}",
                description=f"{kind.__doc__}\n\n{_ABOUT_CONFIG}",
                args=words,
                default=default,
                config=(
                    tyro.conf.FlagCreatePairsOff,
                    tyro.conf.OmitArgPrefixes,
                    tyro.conf.HelptextFromCommentsOff,
                ),
            )
            return made
    except SystemExit as stop:
        if stop.code in (0, None):
            raise
        raise UserError(_one_sentence(complaint.getvalue(), command)) from None
    finally:
        if width is None:
            del os.environ["COLUMNS"]


def _refused(kind: type) -> dict[str, str]:
    """Collect the settings that are no options of a command, and why."""
    return {name: why for f in dataclasses.fields(kind) for name, why in getattr(f.type, "refused", {}).items()}


def _take_config(words: list[str], command: str) -> tuple[list[str], Path | None]:
    for i, word in enumerate(words):
        if word == "--":
            break
        if word.startswith("--config="):
            return words[:i] + words[i + 1 :], Path(word.removeprefix("--config="))
        if word == "--config":
            if i + 1 == len(words):
                raise UserError(f"--config needs a file; see `greffon {command} --help`")
            return words[:i] + words[i + 2 :], Path(words[i + 1])
    return words, None


def _with_config(kind: type[Args], path: Path) -> Args:
    """Build the command's defaults with the values of a TOML file; tables only group them."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise UserError(f"cannot read {path}: {problem.strerror}; give a TOML file with --config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise UserError(f"{path} is no valid TOML: {problem}") from None
    flat: dict[str, Any] = {}
    for name, value in table.items():
        flat.update(value if isinstance(value, dict) else {name: value})
    flat = {name.replace("-", "_"): value for name, value in flat.items()}
    defaults: dict[str, Any] = {}
    known: list[str] = []
    for f in dataclasses.fields(kind):  # type: ignore[arg-type]
        if f.type in (Settings, ShapeSettings, GraftSettings, ComparisonSettings):
            names = [g.name for g in dataclasses.fields(f.type)]
            known += names
            defaults[f.name] = f.type(
                **{name: _checked(f.type, name, flat[name], path) for name in names if name in flat}
            )
            continue
        known.append(f.name)
        if f.name in flat:
            defaults[f.name] = _checked(kind, f.name, flat[f.name], path)
        elif f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING:
            defaults[f.name] = tyro.MISSING
    refused = _refused(kind)
    for name in flat:
        if name in refused:
            raise UserError(f"{path}: {name} {refused[name]}")
        if name not in known:
            raise UserError(f"{path}: unknown setting {name!r}{did_you_mean(name, known)}")
    return kind(**defaults)


def _checked(kind: type, name: str, value: Any, path: Path) -> Any:
    """Check a value of a TOML file as strictly as a recipe's."""
    wanted = get_type_hints(kind)[name]
    parts = get_args(wanted) if type(None) in get_args(wanted) else (wanted,)
    if Path in parts or Path in get_args(wanted):
        wanted = str
    return read_value(wanted, value, f"{path}: {name}")


KINDS = {"INT": "whole number", "FLOAT": "number", "N": "whole number", "M": "number"}


def _one_sentence(box: str, command: str) -> str:
    """Turn tyro's boxed complaint, drawn in Unicode or ASCII, into one sentence."""
    sections: list[list[str]] = [[]]
    title, *lines = box.splitlines()
    for raw in lines if title.startswith("╭") else lines[1:]:
        if raw.startswith("╰"):
            break
        line = raw.strip("│ ")
        if line and not line.strip("─-"):
            sections.append([])
        elif line and not line.startswith("- <class"):
            sections[-1].append(line)
    said, *others = (" ".join(section) for section in sections)
    meant = [other.split()[3] for other in others if other.startswith("Perhaps you meant: ")]
    return f"{_reword(said, meant)} (see `greffon {command} --help`)"


def _reword(said: str, meant: list[str]) -> str:
    """Say in our own words what tyro found."""
    if found := re.match(r"invalid choice '(.*)' for argument '(\S+)'. Expected one of \((.*)\)", said):
        choices = [choice.strip("' ") for choice in found[3].split(",")]
        known = [choice for choice in choices if choice and choice != "None"]
        return f"{found[2]}: unknown choice {found[1]!r}{did_you_mean(found[1], known)}"
    if found := re.match(r"Error parsing (\S+): no type matching (\S+) could be instantiated from \['(.*?)'\]", said):
        kind = found[2].removeprefix("{None}|")
        return f"{found[1]}: {found[3]!r} is no {KINDS.get(kind, kind)}"
    if found := re.match(r"Error parsing (\S+): .*invalid literal for int\(\) with base 10: '(.*?)'", said):
        return f"{found[1]}: {found[2]!r} is no whole number"
    if found := re.match(r"Unrecognized options: (\S+?)(,|$)", said):
        if not found[1].startswith("-"):
            return f"unexpected word {found[1]!r}; put a text with spaces in quotes"
        return f"unknown option {found[1]}" + (f"; did you mean {meant[0]}?" if meant else "")
    if found := re.match(r"Missing from greffon [\w ]+: (\S+)", said):
        return f"{found[1]} is missing"
    return said.rstrip(".:")
