"""`greffon evaluate RUN FILE | RUN --source F --target F`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from greffon.cli import say_out
from greffon.cli.parsing import OptionalFile, PossibleFile, Run, parse
from greffon.core.config import Backend


@dataclass(frozen=True)
class Args:
    """Score a run: on labelled texts (classifier), plain text (language model), or pairs (translator)."""

    run: Run
    """The run directory."""
    file: PossibleFile = None
    """The file to score it on."""
    source: OptionalFile = None
    """For a translator: sentences, one a line, and"""
    target: OptionalFile = None
    """their translations on the same lines."""
    text_column: str = "text"
    label_column: str = "label"
    source_column: str = "source"
    target_column: str = "target"
    beam_size: int = 4
    """Translations sought side by side; 1 is greedy."""
    length_penalty: float = 1.0
    """How much longer translations are favoured."""
    backend: Backend = "torch"
    """What translates: torch, or the faster ctranslate2."""
    int8: bool = False
    """Compute in 8-bit integers (classifiers and translators): faster, with slightly other results."""
    json: bool = False
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
