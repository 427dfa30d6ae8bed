"""`greffon export RUN --to huggingface --out DIR`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from greffon.cli import say_out
from greffon.cli.parsing import Run, parse


@dataclass(frozen=True)
class Args:
    """Write a run in a form that other tools load."""

    run: Run
    """The run directory."""
    to: Literal["huggingface", "onnx", "ctranslate2"]
    """huggingface: for `AutoModel` and `AutoTokenizer`; onnx: a graph of a classifier or an encoder; ctranslate2: a
    translator as a CTranslate2 model."""
    out: Path
    """The directory to make."""
    quantize: Annotated[Literal["int8"] | None, tyro.conf.arg(metavar="int8", help_behavior_hint="")] = None
    """Store the weights as 8-bit integers (ctranslate2): a quarter of the size."""
    force: bool = False
    """Replace an export that is there already."""


def main(words: Sequence[str]) -> None:
    """Export, and say where."""
    args = parse(Args, "export", words)

    from greffon.inference.export import export

    say_out(str(export(args.run, to=args.to, out=args.out, quantize=args.quantize, force=args.force)))
