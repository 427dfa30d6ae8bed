"""`greffon import DIR --out RUN`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from greffon.cli import say_out
from greffon.cli.parsing import Checkpoint, parse


@dataclass(frozen=True)
class Args:
    """Turn a Hugging Face checkpoint (BERT, RoBERTa, DistilBERT, GPT-2, Marian) into a run."""

    checkpoint: Checkpoint
    """A directory with config.json, safetensors and tokenizer files; hf:owner/name is downloaded first."""
    out: Path
    """The run directory to make."""
    force: bool = False
    """Replace a run that is there already."""


def main(words: Sequence[str]) -> None:
    """Import, and say what the run can be used for."""
    args = parse(Args, "import", words)

    from greffon.runs.huggingface.import_checkpoint import import_checkpoint

    run = import_checkpoint(args.checkpoint, out=args.out, force=args.force)
    say_out(f"{run.path}: a {run.recipe.objective} run; `greffon show {run.path}` tells the rest")
