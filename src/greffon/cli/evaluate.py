"""`greffon evaluate RUN FILE | RUN --source F --target F`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from greffon.cli import say_out
from greffon.cli.options import DecodingOptions, EvaluationFileOptions, Flag, MachineOptions, PossibleFile, Run
from greffon.cli.parsing import given, parse, use_machine

if TYPE_CHECKING:
    from greffon.inference.evaluate import Scores


@dataclass(frozen=True)
class Args:
    """Score a run on labelled texts (fine-tuned run), plain text (language model) or sentence pairs (translator)."""

    run: Run
    """Run directory."""
    file: PossibleFile = None
    """Test file; for a translator, a table of pairs, unless --source and --target are given."""
    json: Flag = False
    """Print JSON."""
    files: EvaluationFileOptions = field(default_factory=EvaluationFileOptions)  # type: ignore[valid-type]
    decoding: DecodingOptions = field(default_factory=DecodingOptions)  # type: ignore[valid-type]
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
