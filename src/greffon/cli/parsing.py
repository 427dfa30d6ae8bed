"""From words on the command line, and a TOML file under them, to one dataclass of arguments.

Settings: defaults < `--config file.toml` < command line. Every mistake is a UserError of one sentence.
The fields of the dataclass are the options; tyro draws the help page from the same fields, and does nothing else.
"""

import dataclasses
import inspect
import itertools
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import tyro

from greffon.cli.options import ONE_WORD, field_help, without_none
from greffon.core.config import read_value, unknown_setting
from greffon.core.errors import UserError, did_you_mean, option
from greffon.core.synonyms import OUR_COMMANDS, our_name

Args = TypeVar("Args")

ALIKE = 0.6
"""Likeness (difflib's ratio, with its usual cutoff) from which on an unknown option looks like a slip of the finger."""

_ABOUT_CONFIG = (
    "With --config FILE.toml, settings are read from a TOML file; options on the command line take precedence."
)


_GIVEN = "_given"
"""Attribute of parsed arguments that holds the names of those that the user wrote."""


def given(args: Any, *left_out: str) -> dict[str, Any]:
    """Return the settings that the user wrote, of all groups, but for those that a command handles by itself.

    A default value that was written counts: a command may have to say that the setting has no effect.
    """
    found: dict[str, Any] = {}
    for f in dataclasses.fields(args):
        value = getattr(args, f.name)
        if f.name in left_out:
            continue
        if dataclasses.is_dataclass(value):
            found |= given(value)
        elif f.name in getattr(args, _GIVEN):
            found[f.name] = value
    return found


def use_machine(args: Any) -> None:
    """Compute on the device and with the threads that a command was given, until the process ends."""
    if settings := given(args.machine):
        from greffon.core.device import use
        from greffon.core.settings import Machine

        use(Machine(**settings))


@dataclass(frozen=True)
class _Argument:
    """One field of a command's dataclass, or of a group inside it."""

    name: str
    hint: Any
    group: str
    """The field that holds its group; empty for a field of the command's own."""
    metavar: str
    positional: bool
    required: bool
    flag: bool
    commas: bool
    """Whether one word holds all its numbers."""

    @property
    def label(self) -> str:
        return self.metavar.strip("[…]") if self.positional else option(self.name)

    @property
    def many(self) -> bool:
        return get_origin(self.hint) is tuple and not self.commas


def arguments(kind: type, group: str = "") -> Iterator[_Argument]:
    """List the arguments of a command, those of its groups included."""
    hints = get_type_hints(kind, include_extras=True)
    for f in dataclasses.fields(kind):
        if dataclasses.is_dataclass(hints[f.name]):
            yield from arguments(hints[f.name], f.name)
            continue
        hint, *marks = get_args(hints[f.name]) if get_origin(hints[f.name]) is Annotated else (hints[f.name],)
        hint = without_none(hint)
        metavar = next((mark.metavar for mark in marks if getattr(mark, "metavar", None)), f.name.upper())
        absent = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        positional = tyro.conf.Positional in marks
        required = absent and get_origin(hint) is not tuple
        flag = hint is bool and f.default is False
        yield _Argument(f.name, hint, group, metavar, positional, required, flag, ONE_WORD in marks)


def parse(kind: type[Args], command: str, words: Sequence[str]) -> Args:
    """Read the arguments of one command."""
    before = list(itertools.takewhile(lambda word: word != "--", words))
    if "--help" in before or "-h" in before:
        _help(kind, command)
    words, config = _take_config(list(words), command)
    known = {argument.name: argument for argument in arguments(kind)}
    refused = _refused(kind)
    try:
        read = _read_words(known, refused, words)
    except _WordError as mistake:
        raise UserError(f"{mistake} (see `greffon {command} --help`)") from None
    values = ({} if config is None else _read_config(config, known, refused)) | read
    for argument in known.values():
        if argument.name not in values and argument.required:
            raise UserError(f"{argument.label} is missing (see `greffon {command} --help`)")
        if argument.name not in values and argument.many and not argument.group:
            values[argument.name] = ()
    return _build(kind, known, values)


def _build(kind: type[Args], known: Mapping[str, _Argument], values: Mapping[str, Any]) -> Args:
    """Put the values where they belong: into the command's own fields, and into those of its groups."""
    own = {name: value for name, value in values.items() if not known[name].group}
    hints = get_type_hints(kind)
    for group in {argument.group for argument in known.values()} - {""}:
        inside = {name: value for name, value in values.items() if known[name].group == group}
        own[group] = _with_given(hints[group], inside)
    return _with_given(kind, own)


def _with_given(kind: type[Args], values: dict[str, Any]) -> Args:
    made = kind(**values)
    object.__setattr__(made, _GIVEN, frozenset(name for name, value in values.items() if value != ()))
    return made


def _help(kind: type, command: str) -> None:
    """Print the help page of a command, and exit."""
    width, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), os.environ.get("COLUMNS", "100")
    marks = (tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes, tyro.conf.HelptextFromCommentsOff)
    about = f"{_flowing(inspect.cleandoc(kind.__doc__ or ''))}\n\n{_ABOUT_CONFIG}"
    try:
        tyro.cli(_with_flowing_help(kind), prog=f"greffon {command}", description=about, args=["--help"], config=marks)
    finally:
        if width is None:
            del os.environ["COLUMNS"]


def _flowing(text: str) -> str:
    """Join the lines of each paragraph: where they end is for the reader's terminal to say, not for the source."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _with_flowing_help(kind: type) -> type:
    """Return the dataclass with the docstrings of its fields on one line each, in which tyro would keep the breaks."""
    told, hints = field_help(kind), get_type_hints(kind, include_extras=True)
    made: list[tuple[str, Any, Any]] = []
    for f in dataclasses.fields(kind):
        hint = hints[f.name]
        if f.name in told:
            hint = Annotated[hint, tyro.conf.arg(help=told[f.name])]
        plain = without_none(get_args(hint)[0] if get_origin(hint) is Annotated else hint)
        if get_origin(plain) is Literal and not any(getattr(mark, "metavar", None) for mark in get_args(hint)):
            hint = Annotated[hint, tyro.conf.arg(metavar="|".join(get_args(plain)))]
        made.append((f.name, hint, dataclasses.field(default=f.default, default_factory=f.default_factory)))
    return dataclasses.make_dataclass(kind.__name__, made, frozen=True, kw_only=True)


def _refused(kind: type) -> dict[str, str]:
    """Collect the settings that are no options of a command, and why."""
    return {name: why for f in dataclasses.fields(kind) for name, why in getattr(f.type, "refused", {}).items()}


class _WordError(Exception):
    """A word on the command line that cannot be read."""


def _read_words(known: Mapping[str, _Argument], refused: Mapping[str, str], words: list[str]) -> dict[str, Any]:
    """Read options with their values, and positional words in their order."""
    values: dict[str, Any] = {}
    loose: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            loose += rest
            break
        if not _is_option(word):
            loose.append(word)
            continue
        written, equals, attached = word.partition("=")
        argument, on = _look_up(written, known, refused)
        if argument.flag:
            if equals:
                raise _WordError(f"{argument.label} is a flag and takes no value; leave out {attached!r}")
            values[argument.name] = on
            continue
        following = [attached] if equals else list(itertools.takewhile(lambda word: not _is_option(word), rest))
        taken = following if argument.many else following[:1]
        if not taken:
            raise _WordError(f"{argument.label} needs a value")
        if not equals:
            del rest[: len(taken)]
        values[argument.name] = _values(argument, taken)
    return values | _read_positionals([argument for argument in known.values() if argument.positional], loose)


def _read_positionals(positionals: list[_Argument], words: list[str]) -> dict[str, Any]:
    """Give each positional argument its word, and to the last one, where it takes many, all that remain."""
    values: dict[str, Any] = {}
    for argument in positionals:
        taken = words if argument.many else words[:1]
        words = words[len(taken) :]
        if taken:
            values[argument.name] = _values(argument, taken)
    if words:
        raise _WordError(f"unexpected word {words[0]!r}; put a text with spaces in quotes")
    return values


def _is_option(word: str) -> bool:
    """Whether a word is meant as an option: neither a negative number, nor -, nor a text that begins with a dash."""
    if len(word) < 2 or not word.startswith("-") or any(map(str.isspace, word.partition("=")[0])):
        return False
    try:
        float(word)
    except ValueError:
        return True
    return False


def _look_up(written: str, known: Mapping[str, _Argument], refused: Mapping[str, str]) -> tuple[_Argument, bool]:
    """Find the option of this name, and whether it turns a flag on; or say what it is called here."""
    name = written.removeprefix("--").replace("-", "_")
    found = known.get(name)
    if written.startswith("--") and found is not None and not found.positional:
        return found, True
    if written.startswith("--") and found is not None:
        order = " ".join(argument.label for argument in known.values() if argument.positional)
        raise _WordError(f"{written} is no option: {found.label} stands without one, in the order {order}")
    off = known.get(name.removeprefix("no_"))
    if written.startswith("--no") and off is not None and off.flag:  # where a TOML file has turned it on
        return off, False
    if name in refused:
        raise UserError(f"{option(name)} {refused[name]}")
    if name in OUR_COMMANDS:
        raise _WordError(f"unknown option {written}: it is a command here, {OUR_COMMANDS[name]}")
    names = [argument.name for argument in known.values() if not argument.positional]
    ours = our_name(name.lstrip("_"), list(known))
    if ours is not None:
        raise _WordError(f"unknown option {written}: it is {known[ours].label} here")
    if not names:
        raise _WordError(f"unknown option {written}; this command has none")
    likeness = {other: SequenceMatcher(None, name.strip("_"), other).ratio() for other in names}
    nearest = max(names, key=lambda other: likeness[other])
    if likeness[nearest] < ALIKE and not nearest.startswith(name.strip("_")):
        raise _WordError(f"unknown option {written}; nothing here has a name like it, the nearest is {option(nearest)}")
    raise _WordError(f"unknown option {written}; did you mean {option(nearest)}?")


def _values(argument: _Argument, words: Sequence[str]) -> Any:
    """Read the words given for one argument."""
    if argument.commas:
        return _numbers(argument.label, words[0])
    if argument.many:
        return tuple(_value(argument.label, get_args(argument.hint)[0], word) for word in words)
    return _value(argument.label, argument.hint, words[0])


def _numbers(label: str, word: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in word.removesuffix(",").split(","))
    except ValueError:
        raise UserError(f"{label} is {word!r}; give numbers separated by commas, such as 20,100") from None


def _value(label: str, hint: Any, word: str) -> Any:
    """Read one word as the type of its argument."""
    if get_origin(hint) is Literal:
        if word not in get_args(hint):
            raise _WordError(f"{label}: unknown choice {word!r}{did_you_mean(word, get_args(hint))}")
        return word
    if hint is bool:
        if word.lower() not in ("true", "false"):
            raise _WordError(f"{label}: {word!r} is not a truth value; choose true or false")
        return word.lower() == "true"
    try:
        return hint(word)
    except ValueError:
        raise _WordError(f"{label}: {word!r} is no {'whole number' if hint is int else 'number'}") from None


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


def _read_config(path: Path, known: Mapping[str, _Argument], refused: Mapping[str, str]) -> dict[str, Any]:
    """Read the settings of a TOML file, as strictly as a recipe's; tables only group them."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise UserError(f"cannot read {path}: {problem.strerror}; give a TOML file with --config") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise UserError(f"{path} is not valid TOML: {problem}") from None
    flat: dict[str, Any] = {}
    for name, value in table.items():
        flat.update(value if isinstance(value, dict) else {name: value})
    values: dict[str, Any] = {}
    for written, value in flat.items():
        name = written.replace("-", "_")
        if name in refused:
            raise UserError(f"{path}: {name} {refused[name]}")
        if name not in known:
            raise UserError(f"{path}: {unknown_setting(name, list(known))}")
        if known[name].commas and isinstance(value, str):
            values[name] = _numbers(f"{path}: {name}", value)
        else:
            values[name] = _config_value(known[name].hint, value, f"{path}: {name}")
    return values


def _config_value(hint: Any, value: Any, where: str) -> Any:
    """Check one value of a TOML file, where a path is written as a string."""
    if hint is Path:
        return Path(read_value(str, value, where))
    if hint == tuple[Path, ...]:
        return tuple(map(Path, read_value(tuple[str, ...], value, where)))
    return read_value(hint, value, where)
