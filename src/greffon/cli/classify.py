"""`greffon classify RUN TEXT… | --file F | -`."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from greffon.cli import say_out
from greffon.cli.parsing import OptionalFile, Run, Texts, parse
from greffon.errors import UserError


@dataclass(frozen=True)
class Args:
    """Label texts with a fine-tuned run: those given, those of a file, or (-) those on stdin, one a line."""

    run: Run
    """The run directory."""
    texts: Texts = ()
    """Texts, or - for stdin."""
    file: OptionalFile = None
    """A file of texts (.txt one a line; .csv, .tsv, .jsonl, .parquet with a text column)."""
    text_column: str = "text"
    json: bool = False
    """Print one JSON object a line."""


def main(words: Sequence[str]) -> None:
    """Print a label for each text."""
    args = parse(Args, "classify", words)
    if (args.file is None) == (not args.texts):
        raise UserError("nothing to classify, or too much; give texts, --file F, or - for stdin")

    from greffon.predict import classify
    from greffon.text.corpora import texts_of

    if args.file is not None:
        texts = texts_of(args.file, args.text_column)
    elif args.texts == ("-",):
        texts = [line.rstrip("\r\n") for line in sys.stdin]
    else:
        texts = list(args.texts)
    for found in classify(args.run, texts):
        if args.json:
            say_out(json.dumps(asdict(found), ensure_ascii=False))
        else:
            say_out(f"{found.label}\t{found.probabilities[found.label]:.3f}\t{' '.join(found.text.split())}")
