"""`greffon evaluate RUN FILE | RUN --source F --target F`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from greffon.cli import say_out
from greffon.cli.options import (
    Column,
    Columns,
    Count,
    Flag,
    MachineOptions,
    OptionalFile,
    PossibleFile,
    Real,
    Run,
    TaskName,
    Word,
)
from greffon.cli.parsing import given, parse, use_machine
from greffon.core.choices import Backend

if TYPE_CHECKING:
    from greffon.inference.evaluate import Scores


@dataclass(frozen=True)
class Args:
    """Score a run on labelled texts (fine-tuned run), plain text (language model) or sentence pairs (translator)."""

    run: Run
    """Run directory."""
    file: PossibleFile = None
    """Test file; for a translator, a table of pairs, unless --source and --target are given."""
    source: OptionalFile = None
    """File of source sentences, one per line; needs --target (translator)."""
    target: OptionalFile = None
    """File of the reference translations of --source, line by line (translator)."""
    text_column: Column = "text"
    """Column with the text, in files that have columns."""
    label_column: Word = None
    """Column with the label (fine-tuned run; default: that of the task, as for finetune)."""
    task: TaskName = None
    """Task of the files, which must be the run's (fine-tuned run)."""
    pair_columns: Columns = ()
    """Columns with the two texts of a pair (fine-tuned run; default: those that it was trained with)."""
    label_separator: Word = None
    """What stands between the labels of a text (fine-tuned run; default: what it was trained with)."""
    source_column: Column = "source"
    """Column with the source sentence (translator)."""
    target_column: Column = "target"
    """Column with the reference translation (translator)."""
    beam_size: Count = 4
    """Number of beams in beam search; 1 is greedy search (translator)."""
    length_penalty: Real = 1.0
    """Exponent of the length by which scores are divided; larger values favour longer translations (translator)."""
    backend: Backend = "torch"
    """Inference engine: torch, or ctranslate2, which is faster (translator)."""
    int8: Flag = False
    """Compute with 8-bit integers: faster, but slightly less exact (classifier, translator)."""
    source_lang: str = ""
    """Language of the sources, for a translator of many: fr_XX (mBART), fr (M2M100), fra_Latn (NLLB)."""
    target_lang: str = ""
    """Language to translate into, for a translator of many."""
    json: Flag = False
    """Print JSON."""
    machine: MachineOptions = field(default_factory=MachineOptions)  # type: ignore[valid-type]


def main(words: Sequence[str]) -> None:
    """Print the scores."""
    args = parse(Args, "evaluate", words)
    use_machine(args)

    from greffon.core.json_results import json_text
    from greffon.inference.evaluate import evaluate

    scores = evaluate(args.run, **given(args, "run", "json", "machine"))
    for line in [json_text(scores)] if args.json else _lines(scores, args.run):
        say_out(line)


def _lines(scores: "Scores", run: Path) -> list[str]:
    """Return the scores as lines for a person."""
    from greffon.cli.outcome import a_token
    from greffon.inference.bleu import TranslationScores
    from greffon.inference.evaluate import ContrastScores
    from greffon.inference.tasks.base import TaskScores
    from greffon.runs import run as runs

    if isinstance(scores, TaskScores):
        return scores.lines()
    if isinstance(scores, TranslationScores):
        low, high = scores.bleu_interval
        bleu = f"BLEU {scores.bleu:.1f} (95 % interval {low:.1f} to {high:.1f})"
        return [f"{bleu}, chrF {scores.chrf:.1f}, {scores.n:,} pairs", f"  {scores.signature}"]
    if isinstance(scores, ContrastScores):
        low, high = scores.interval
        found = f"partner found for {scores.accuracy:.1%} of the views (95 % interval {low:.1%} to {high:.1%})"
        return [f"{found}, loss {scores.loss:.4f} nats, {scores.n:,} views"]
    interval = "" if scores.interval is None else " (95 % interval {:.4f} to {:.4f})".format(*scores.interval)
    pairs = "" if scores.pair_accuracy is None else f"; next-sentence accuracy {scores.pair_accuracy:.1%}"
    loss = f"loss {scores.loss:.4f} nats {a_token(runs.Run.open(run))}{interval}"
    return [f"{loss}, {scores.bits_per_byte:.4f} bits per byte, {scores.n:,} tokens{pairs}"]
