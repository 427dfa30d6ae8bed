"""`greffon import DIR --out RUN`."""

from collections.abc import Sequence
from dataclasses import dataclass

from greffon.cli import say_out
from greffon.cli.options import Checkpoint, Flag, NewRun
from greffon.cli.parsing import parse


@dataclass(frozen=True)
class Args:
    """Convert a Hugging Face checkpoint to a run.

    Families: BERT, RoBERTa, DistilBERT, ModernBERT, EuroBERT, GPT-2, Llama, Qwen2, Qwen3, GPT-NeoX (Pythia), Marian,
    mBART, M2M100 and NLLB.
    """

    checkpoint: Checkpoint
    """Directory with config.json, safetensors and tokenizer files, or hf:owner/name, which is downloaded first."""
    out: NewRun
    """Run directory to create."""
    force: Flag = False
    """Replace an existing run."""


def main(words: Sequence[str]) -> None:
    """Import, and say what the run can be used for."""
    args = parse(Args, "import", words)

    from greffon.runs.huggingface.import_checkpoint import import_checkpoint

    run = import_checkpoint(args.checkpoint, out=args.out, force=args.force)
    say_out(f"{run.path}: a {run.recipe.objective} run; `greffon show {run.path}` tells the rest")
