"""`greffon evaluate RUN FILE | RUN --source F --target F`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from greffon.cli import say_out
from greffon.cli.options import Column, Count, Flag, OptionalFile, PossibleFile, Real, Run
from greffon.cli.parsing import parse
from greffon.core.config import Backend


@dataclass(frozen=True)
class Args:
    """Score a run on labelled texts (classifier), plain text (language model) or sentence pairs (translator)."""

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
    label_column: Column = "label"
    """Column with the label (classifier)."""
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
    json: Flag = False
    """Print JSON."""


def main(words: Sequence[str]) -> None:
    """Print the scores."""
    args = parse(Args, "evaluate", words)

    from greffon.cli.outcome import a_token
    from greffon.inference.evaluate import evaluate
    from greffon.runs import run as runs

    scores = evaluate(args.run, **{name: value for name, value in vars(args).items() if name not in ("run", "json")})
    if args.json:
        say_out(json.dumps(scores, ensure_ascii=False))
    elif "accuracy" in scores:
        low, high = scores["interval"]
        say_out(
            f"accuracy {scores['accuracy']:.1%} (95 % interval {low:.1%} to {high:.1%}), "
            f"macro F1 {scores['macro_f1']:.3f}, {scores['n']:,} texts"
        )
        widest = max(map(len, scores["labels"]))
        for label, row in zip(scores["labels"], scores["confusion"], strict=True):
            found = ", ".join(f"{count:,} as {name}" for name, count in zip(scores["labels"], row, strict=True))
            say_out(f"  {label:<{widest}}  read {found}")
    elif "bleu" in scores:
        low, high = scores["bleu_interval"]
        say_out(
            f"BLEU {scores['bleu']:.1f} (95 % interval {low:.1f} to {high:.1f}), chrF {scores['chrf']:.1f}, "
            f"{scores['n']:,} pairs"
        )
        say_out(f"  {scores['signature']}")
    else:
        pairs = f"; pairs judged right {scores['pair_accuracy']:.1%}" if "pair_accuracy" in scores else ""
        tokens = a_token(runs.Run.open(args.run))
        say_out(f"loss {scores['loss']:.4f} nats {tokens}, {scores['bits_per_byte']:.4f} bits per byte{pairs}")
