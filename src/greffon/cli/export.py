"""`greffon export RUN --to huggingface --out DIR`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from greffon.cli import say_out
from greffon.cli.parsing import Run, parse


@dataclass(frozen=True)
class Args:
    """Write a run in a form that other tools load."""

    run: Run
    """The run directory."""
    to: Literal["huggingface", "onnx"]
    """huggingface: for `AutoModel` and `AutoTokenizer`; onnx: a graph of a classifier or an encoder."""
    out: Path
    """The directory to make."""
    force: bool = False
    """Replace an export that is there already."""


def main(words: Sequence[str]) -> None:
    """Export, and say where."""
    args = parse(Args, "export", words)

    from greffon.huggingface.exporting import export

    say_out(str(export(args.run, to=args.to, out=args.out, force=args.force)))
