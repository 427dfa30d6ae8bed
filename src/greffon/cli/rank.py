"""`greffon rank RUN QUERY --file F`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from greffon.cli import say_out
from greffon.cli.options import Column, Count, File, Flag, MachineOptions, Query, Run, Word
from greffon.cli.parsing import parse, use_machine
from greffon.cli.texts import check_column
from greffon.core.choices import Pool


@dataclass(frozen=True)
class Args:
    """Find the texts of a file that answer a query best. Their vectors are computed once, and kept in the cache."""

    run: Run
    """Any run but a translator; one that was fine-tuned on pairs ranks as it has learned to."""
    query: Query
    """Text to search for."""
    file: File
    """File of texts: .txt (one per line, or blocks separated by blank lines), .csv, .tsv, .jsonl or .parquet."""
    top_k: Count = 10
    """Number of texts to print."""
    label: Word = None
    """Label of pairs by whose probability to rank (run that was fine-tuned on pairs with labels)."""
    pooling: Annotated[Pool | None, tyro.conf.arg(metavar="cls|mean|last", help_behavior_hint="")] = None
    """Vector of a text: the mean of its hidden states (default), the last one, or that of [CLS]; of an imported
    sentence-transformers checkpoint, its own (default). Not for runs that were fine-tuned on pairs."""
    text_column: Column = "text"
    """Column with the text, in files that have columns."""
    json: Flag = False
    """Print one JSON object per line."""
    machine: MachineOptions = field(default_factory=MachineOptions)  # type: ignore[valid-type]


def main(words: Sequence[str]) -> None:
    """Print the best texts with their scores."""
    args = parse(Args, "rank", words)
    use_machine(args)

    from greffon.core.json_results import json_text
    from greffon.data.corpora import texts_of
    from greffon.inference.rank import rank

    check_column(args)
    texts = texts_of(args.file, args.text_column)
    found = rank(args.run, args.query, texts, top_k=args.top_k, pooling=args.pooling, label=args.label)
    for one in found:
        say_out(json_text(one) if args.json else f"{one.score:.3f}\t{one.index + 1}\t{' '.join(one.text.split())}")
