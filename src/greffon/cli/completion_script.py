"""Scripts by which shells complete the command line, made from the fields that are its options."""

import dataclasses
import importlib
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from greffon.cli import COMMANDS
from greffon.cli.draw import FIGURES
from greffon.cli.options import field_help
from greffon.cli.parsing import arguments
from greffon.core.errors import UserError, did_you_mean


@dataclass(frozen=True)
class Option:
    """An option of a command, or a positional word."""

    name: str
    help: str
    choices: tuple[str, ...]
    takes: Literal["nothing", "choice", "file", "value"]

    @property
    def short(self) -> str:
        """The help text up to its first full stop, colon or bracket, without characters that shells read specially."""
        first = re.split(r"\. |: | \(", self.help)[0].rstrip(".:")
        return re.sub(r"[^\w ,;.%/-]", "", first)


@dataclass(frozen=True)
class Page:
    """A command, or a figure of `draw`, with its options and its positional words."""

    words: str
    help: str
    options: tuple[Option, ...]
    positional: tuple[Option, ...]


def completion(shell: str) -> str:
    """Return the script of a shell, bash, zsh or fish: `print(completion("bash"))`."""
    if shell not in SCRIPTS:
        raise UserError(f"no script for the shell {shell!r}{did_you_mean(shell, SCRIPTS)}")
    return "\n".join(SCRIPTS[shell](list(pages())))


def pages() -> Iterator[Page]:
    """Describe every command, from the dataclasses that they are parsed with."""
    for name, about in COMMANDS.items():
        if name == "draw":
            for figure, (_, kind, what) in FIGURES.items():
                yield _page(f"draw {figure}", kind, f"draw {what}")
        else:
            yield _page(name, importlib.import_module(f"greffon.cli.{name}").Args, about)


def _page(words: str, kind: type, about: str) -> Page:
    options, positional = list[Option](), list[Option]()
    told = dict(_helps(kind))
    for argument in arguments(kind):
        hint = get_args(argument.hint)[0] if argument.many else argument.hint
        choices = get_args(hint) if get_origin(hint) is Literal else ("true", "false") if hint is bool else ()
        file = hint is Path or argument.metavar.startswith(("TEXT", "DIR"))
        takes: Any = "nothing" if argument.flag else "choice" if choices else "file" if file else "value"
        (positional if argument.positional else options).append(
            Option(argument.label, told[argument.name], () if argument.flag else tuple(map(str, choices)), takes)
        )
    options += [
        Option("--config", "TOML file with settings", (), "file"),
        Option("--help", "Show the options", (), "nothing"),
    ]
    return Page(words, about, tuple(options), tuple(positional))


def _helps(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the help text of each option: of those in groups it is in the hint, of the others under the field."""
    hints, own = get_type_hints(kind, include_extras=True), field_help(kind)
    for name, hint in hints.items():
        if dataclasses.is_dataclass(hint):
            for inner, marked in get_type_hints(hint, include_extras=True).items():
                yield inner, next(mark.help for mark in get_args(marked)[1:] if getattr(mark, "help", None))
        else:
            yield name, own[name]


def _bash(known: list[Page]) -> Iterator[str]:
    choices = [(page, option) for page in known for option in page.options if option.choices]
    yield f"""_greffon() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} page=${{COMP_WORDS[1]}} found=
    COMPREPLY=()
    if [[ $COMP_CWORD -eq 1 ]]; then
        COMPREPLY=($(compgen -W "{" ".join(COMMANDS)} --help --version" -- "$word"))
        return
    fi
    if [[ $page == draw ]]; then
        if [[ $COMP_CWORD -eq 2 ]]; then
            COMPREPLY=($(compgen -W "{" ".join(FIGURES)} --help" -- "$word"))
            return
        fi
        page="draw ${{COMP_WORDS[2]}}"
    fi
    case "$page $before" in"""
    for page, option in choices:
        yield f"        '{page.words} {option.name}') found='{' '.join(option.choices)}' ;;"
    yield """    esac
    if [[ -z $found && $word == -* ]]; then
        case $page in"""
    for page in known:
        yield f"            '{page.words}') found='{' '.join(option.name for option in page.options)}' ;;"
    yield """        esac
    elif [[ -z $found && $before != -* ]]; then
        case $page in"""
    for page in known:
        if words := [choice for option in page.positional for choice in option.choices]:
            yield f"            '{page.words}') found='{' '.join(words)}' ;;"
    yield """        esac
    fi
    [[ -n $found ]] && COMPREPLY=($(compgen -W "$found" -- "$word"))
}
complete -o default -F _greffon greffon"""


def _zsh(known: list[Page]) -> Iterator[str]:
    yield "#compdef greffon"
    yield "_greffon() {"
    yield "    local -a commands figures"
    yield f"    commands=({' '.join(shlex.quote(f'{name}:{about}') for name, about in COMMANDS.items())})"
    yield f"    figures=({' '.join(shlex.quote(f'{name}:{what}') for name, (_, _, what) in FIGURES.items())})"
    yield """    if (( CURRENT == 2 )); then _describe command commands; return; fi
    local page=$words[2]
    shift words; (( CURRENT-- ))
    if [[ $page == draw ]]; then
        if (( CURRENT == 2 )); then _describe figure figures; return; fi
        page="draw $words[2]"
        shift words; (( CURRENT-- ))
    fi
    case $page in"""
    for page in known:
        yield f"        {shlex.quote(page.words)}) _arguments \\"
        for option in (*page.options, *page.positional[:1]):
            told = f"{option.name}[{option.short}]" if option.name.startswith("--") else "*"
            action = f"({' '.join(option.choices)})" if option.choices else "_files" if option.takes == "file" else ""
            value = "" if option.takes == "nothing" else f":{option.name.lstrip('-')}:{action}"
            yield f"            {shlex.quote(told + value)} \\"
        yield "            ;;"
    yield "    esac"
    yield "}"
    yield 'if [[ $funcstack[1] == _greffon ]]; then _greffon "$@"; else compdef _greffon greffon; fi'


def _fish(known: list[Page]) -> Iterator[str]:
    for name, about in COMMANDS.items():
        yield f"complete -c greffon -f -n __fish_use_subcommand -a {name} -d {shlex.quote(about)}"
    seen, figures = "__fish_seen_subcommand_from", " ".join(FIGURES)
    for figure, (_, _, what) in FIGURES.items():
        here = f"{seen} draw; and not {seen} {figures}"
        yield f"complete -c greffon -f -n {shlex.quote(here)} -a {figure} -d {shlex.quote(what)}"
    for page in known:
        here = shlex.quote("; and ".join(f"{seen} {word}" for word in page.words.split()))
        for option in page.options:
            takes = {"nothing": "", "choice": f" -x -a '{' '.join(option.choices)}'", "file": " -r", "value": " -x"}
            told = f"-l {option.name.removeprefix('--')}{takes[option.takes]} -d '{option.short}'"
            yield f"complete -c greffon -n {here} {told}"
        for option in page.positional:
            if option.choices:
                yield f"complete -c greffon -f -n {here} -a '{' '.join(option.choices)}'"


SCRIPTS: dict[str, Callable[[list[Page]], Iterator[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
