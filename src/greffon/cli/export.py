"""`greffon export RUN --to huggingface --out DIR`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from greffon.cli import say_out
from greffon.cli.options import Flag, NewDirectory, Run
from greffon.cli.parsing import parse


@dataclass(frozen=True)
class Args:
    """Write a run in a format that other tools load."""

    run: Run
    """Run directory."""
    to: Literal["huggingface", "onnx", "ctranslate2", "gguf"]
    """Format: huggingface (AutoModel, AutoTokenizer), onnx (classifiers, encoders), ctranslate2 (translators) or gguf
    (causal runs, for llama.cpp)."""
    out: NewDirectory
    """Directory to create."""
    quantize: Annotated[
        Literal["int8", "f32", "f16", "q8_0"] | None,
        tyro.conf.arg(metavar="int8|f32|f16|q8_0", help_behavior_hint=""),
    ] = None
    """Store the weights as 8-bit integers (ctranslate2: int8; gguf: q8_0) or in 16 bits (gguf: f16)."""
    force: Flag = False
    """Replace an existing export."""


def main(words: Sequence[str]) -> None:
    """Export, and say where."""
    args = parse(Args, "export", words)

    from greffon.inference.export import export

    say_out(str(export(args.run, to=args.to, out=args.out, quantize=args.quantize, force=args.force)))
