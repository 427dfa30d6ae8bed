"""`greffon translate RUN TEXT… | --file F | -`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from greffon.cli import say_out
from greffon.cli.options import Column, Count, DecodingOptions, Flag, MachineOptions, OptionalFile, Run, Texts
from greffon.cli.parsing import given, parse, use_machine
from greffon.cli.texts import asked_texts, check_column


@dataclass(frozen=True)
class Args:
    """Translate sentences. Give the sentences, a file, or - to read them from stdin, one per line."""

    run: Run
    """Seq2seq run."""
    texts: Texts = ()
    """Sentences to translate, or - for stdin."""
    file: OptionalFile = None
    """File of sentences: .txt (one per line; empty lines are kept), .csv, .tsv, .jsonl or .parquet."""
    text_column: Column = "source"
    """Column with the sentences, in files that have columns."""
    n_best: Count = 1
    """Number of translations per sentence, at most the beam size; if above 1, each is printed after its score."""
    json: Flag = False
    """Print one JSON object per line."""
    decoding: DecodingOptions = field(default_factory=DecodingOptions)  # type: ignore[valid-type]
    machine: MachineOptions = field(default_factory=MachineOptions)  # type: ignore[valid-type]


OWN = ("run", "texts", "file", "text_column", "n_best", "json", "machine")
"""What names the sentences and how to print them; the rest says how to translate."""


def main(words: Sequence[str]) -> None:
    """Print a translation of each sentence."""
    args = parse(Args, "translate", words)
    use_machine(args)

    def read(file: Path) -> list[str]:
        from greffon.inference.translate import sentences

        return sentences(file, args.text_column)

    check_column(args)
    texts = asked_texts(args.texts, args.file, read, "translate", "sentences")

    from greffon.core.json_results import json_text
    from greffon.inference.translate import translate_best

    found = translate_best(args.run, texts, n_best=args.n_best, **given(args, *OWN))
    for number, made in enumerate(found):
        if number and args.n_best > 1 and not args.json:
            say_out("")  # between the sentences, each with several translations
        for one in made:
            if args.json:
                say_out(json_text(one))
            else:
                say_out(one.translation if args.n_best == 1 else f"{one.score:.4f}\t{one.translation}")
