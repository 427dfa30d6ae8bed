"""The command line: one thin file a command, over a function of the same name.

A command's module is imported only when it is called, so that `greffon --help` answers at once.
"""

import importlib
import os
import sys
import warnings
from collections.abc import Sequence

from greffon.errors import UserError, did_you_mean

COMMANDS = {
    "tokenizer": "train a subword tokenizer on text files",
    "pretrain": "pretrain a Transformer body on text files, or a translator on pairs",
    "resume": "go on with a run that was stopped, or train it longer",
    "finetune": "graft a class head on a pretrained body and train it on labelled texts",
    "compare": "pretrained against scratch against TF-IDF, over seeds, in one report",
    "evaluate": "score a run on a file",
    "classify": "label texts with a fine-tuned run",
    "generate": "continue a prompt with a causal run",
    "fill": "guess what stands behind each [MASK] of a text, with a masked run",
    "embed": "turn texts into vectors, and find the nearest ones",
    "translate": "translate sentences with a seq2seq run",
    "params": "account for every parameter of a run or a preset",
    "export": "write a run in a form that other tools load",
    "show": "tell what a run is",
    "demo": "the main job on real text that arrives with the install",
}


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 the user's mistake, 130 after Ctrl-C."""
    sys.exit(run(sys.argv[1:] if words is None else words))


def run(words: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    warnings.showwarning = _show_warning
    try:
        if not words or words[0] in ("-h", "--help"):
            say_out(_help())
            return 0
        if words[0] == "--version":
            from greffon import __version__

            say_out(f"greffon {__version__}")
            return 0
        name = words[0]
        if name not in COMMANDS:
            raise UserError(f"unknown command {name!r}{did_you_mean(name, COMMANDS)}")
        importlib.import_module(f"greffon.cli.{name}").main(words[1:])
        sys.stdout.flush()
    except UserError as mistake:
        print(f"greffon: {mistake}", file=sys.stderr)  # noqa: T201
        return 1
    except KeyboardInterrupt as stop:
        how = getattr(stop, "how", "")
        print(f"\nstopped{how and '; go on with: '}{how}", file=sys.stderr)  # noqa: T201
        return 130
    except BrokenPipeError:  # the reader has gone (`greffon … | head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


def say_out(text: str) -> None:
    """Print a result on stdout."""
    print(text)  # noqa: T201


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    print(f"warning: {message}", file=sys.stderr)  # noqa: T201


def _help() -> str:
    lines = [
        "usage: greffon COMMAND …",
        "",
        "Pretrain a compact Transformer on your own text, graft a new head on it, and see honestly",
        "whether it paid off.",
        "",
        *(f"  {name:<10} {what}" for name, what in COMMANDS.items()),
        "",
        "`greffon COMMAND --help` tells the rest; every command takes --config file.toml.",
    ]
    return "\n".join(lines)
