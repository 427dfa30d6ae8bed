"""`greffon classify RUN TEXT… | --file F | -`."""

from collections.abc import Sequence
from dataclasses import dataclass

from greffon.cli import say_out
from greffon.cli.parsing import OptionalFile, Run, Texts, asked_texts, parse


@dataclass(frozen=True)
class Args:
    """Label texts with a fine-tuned run: those given, those of a file, or (-) those on stdin, one a line."""

    run: Run
    """The run directory."""
    texts: Texts = ()
    """Texts, or - for stdin."""
    file: OptionalFile = None
    """A file of texts: .txt (one a line, or blocks between blank lines), or a table with a text column."""
    text_column: str = "text"
    int8: bool = False
    """Compute in 8-bit integers: faster, with slightly other probabilities; `evaluate --int8` tells what it costs."""
    json: bool = False
    """Print one JSON object a line."""


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
