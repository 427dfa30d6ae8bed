"""`greffon evaluate RUN FILE`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from greffon.cli import say_out
from greffon.cli.parsing import File, Run, parse


@dataclass(frozen=True)
class Args:
    """Score a run on a file: labelled texts for a classifier, plain text for a language model."""

    run: Run
    """The run directory."""
    file: File
    """The file to score it on."""
    text_column: str = "text"
    label_column: str = "label"
    json: bool = False
    """Print JSON."""


def main(words: Sequence[str]) -> None:
    """Print the scores."""
    args = parse(Args, "evaluate", words)

    from greffon.predict import evaluate

    scores = evaluate(args.run, args.file, text_column=args.text_column, label_column=args.label_column)
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
    else:
        say_out(f"loss {scores['loss']:.4f} nats a token, {scores['bits_per_byte']:.4f} bits per byte")
