"""`greffon classify RUN TEXT… | --file F | -`."""

from collections.abc import Sequence
from dataclasses import dataclass

from greffon.cli import say_out
from greffon.cli.options import Column, Flag, OptionalFile, Run, Texts
from greffon.cli.parsing import asked_texts, parse


@dataclass(frozen=True)
class Args:
    """Classify texts with a fine-tuned run. Give the texts, a file, or - to read them from stdin, one per line."""

    run: Run
    """Fine-tuned run."""
    texts: Texts = ()
    """Texts to classify, or - for stdin."""
    file: OptionalFile = None
    """File of texts: .txt (one per line, or blocks separated by blank lines), .csv, .tsv, .jsonl or .parquet."""
    text_column: Column = "text"
    """Column with the text, in files that have columns."""
    int8: Flag = False
    """Compute with 8-bit integers: faster, but slightly less exact; `greffon evaluate --int8` measures the loss."""
    json: Flag = False
    """Print one JSON object per line."""


def main(words: Sequence[str]) -> None:
    """Print a label for each text."""
    args = parse(Args, "classify", words)

    from greffon.data.corpora import texts_of

    texts = asked_texts(args.texts, args.file, lambda file: texts_of(file, args.text_column), "classify")

    from greffon.core.json_results import json_text
    from greffon.inference.classify import classify

    for found in classify(args.run, texts, int8=args.int8):
        if args.json:
            say_out(json_text(found))
        else:
            say_out(f"{found.label}\t{found.probabilities[found.label]:.3f}\t{' '.join(found.text.split())}")
