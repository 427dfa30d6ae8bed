"""The command line: one thin file a command, over a function of the same name.

A command's module is imported only when it is called, so that `greffon --help` answers at once.
"""

import importlib
import os
import signal
import sys
import warnings
from collections.abc import Sequence

from greffon.core.console import for_command_line, show_warning
from greffon.core.errors import ToldError, UserError, did_you_mean
from greffon.core.machine import is_main_process, launched_by_torchrun, reports_errors

COMMANDS = {
    "tokenizer": "train a subword tokenizer on text files",
    "pretrain": "pretrain a Transformer body on text files, or a translator on sentence pairs",
    "resume": "continue an interrupted run, or train a finished one for longer",
    "finetune": "graft a head on a pretrained body and train it on labelled texts",
    "compare": "compare pretrained bodies with scratch and TF-IDF, over seeds, in one report",
    "evaluate": "score a run on a file",
    "classify": "classify texts with a fine-tuned run",
    "generate": "continue a prompt with a causal run",
    "fill": "predict the token behind each [MASK] of a text with a masked run",
    "label": "label texts on a local page, the most useful ones first",
    "embed": "turn texts into vectors, or find the most similar ones",
    "rank": "find the texts of a file that answer a query best",
    "translate": "translate sentences with a seq2seq run",
    "params": "count the parameters of a run or a preset, component by component",
    "import": "convert a Hugging Face checkpoint to a run",
    "export": "write a run in a format that other tools load",
    "show": "describe a run or the result of a comparison",
    "serve": "serve a local web page to query, inspect and watch runs",
    "draw": "draw masks, positions, attention, costs, learning curves and embeddings",
    "completion": "print a script by which a shell completes this command line",
    "demo": "run a complete example on real text",
}

SHARED = ("pretrain", "finetune", "resume")
"""The commands that several processes of a launcher can carry out together."""


def main(words: Sequence[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 the user's mistake, 130 after Ctrl-C, 143 after SIGTERM."""
    signal.signal(signal.SIGTERM, _terminate)
    sys.exit(run(sys.argv[1:] if words is None else words))


@for_command_line()
def run(words: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    warnings.showwarning = show_warning
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
        if launched_by_torchrun() and os.environ["WORLD_SIZE"] != "1" and name not in SHARED:
            raise UserError(f"{name} is a command for one process; torchrun is for {', '.join(SHARED)}")
        importlib.import_module(f"greffon.cli.{name}").main(words[1:])
        sys.stdout.flush()
    except UserError as mistake:
        if reports_errors():
            print(f"greffon: {mistake.on_command_line()}", file=sys.stderr)  # noqa: T201
        return 1
    except ToldError as told:
        return told.code
    except KeyboardInterrupt as stop:
        how = getattr(stop, "how", "")
        print(f"\nstopped{how and '; go on with: '}{how}", file=sys.stderr)  # noqa: T201
        return 128 + int(getattr(stop, "signal", signal.SIGINT))
    except BrokenPipeError:  # the reader has gone (`greffon … | head`)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as problem:  # a full disk, most likely
        where = problem.filename or "a file could not be read or written"
        print(f"greffon: {where}: {problem.strerror}; free some room or check the path", file=sys.stderr)  # noqa: T201
        return 1
    except MemoryError:
        print("greffon: out of memory; give it less at a time, or a larger machine", file=sys.stderr)  # noqa: T201
        return 1
    return 0


class _Terminated(KeyboardInterrupt):
    """SIGTERM: stop like Ctrl-C."""

    signal = signal.SIGTERM


def _terminate(number: int, frame: object) -> None:
    raise _Terminated


def say_out(text: str) -> None:
    """Print a result on stdout; of several processes, one does."""
    if is_main_process():
        print(text)  # noqa: T201


def _help() -> str:
    lines = [
        "usage: greffon COMMAND …",
        "",
        "Pretrain a compact Transformer on your own text, fine-tune it with a new head, and measure",
        "whether pretraining paid off.",
        "",
        *(f"  {name:<10} {what}" for name, what in COMMANDS.items()),
        "",
        "`greffon COMMAND --help` lists the options; every command takes --config FILE.toml.",
    ]
    return "\n".join(lines)
