"""`greffon embed RUN --file F --out vectors.npy`."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import tyro

from greffon.cli import say_out
from greffon.cli.options import Column, Count, Flag, MachineOptions, Number, OptionalFile, Run, SomeText
from greffon.cli.parsing import given, parse, use_machine
from greffon.cli.texts import check_column
from greffon.core.choices import LongTexts, Pool
from greffon.core.conflicts import Idle, Values, refuse_idle
from greffon.core.console import say
from greffon.core.errors import UserError, out_of_range, setting


@dataclass(frozen=True)
class Args:
    """Turn texts into vectors, or find the texts that are most similar to one. Give --out, --nearest or both."""

    run: Run
    """Any run but a translator; its body is used without the head."""
    file: OptionalFile = None
    """File of texts (required): .txt (one per line, or blocks separated by blank lines), .csv, .tsv, .jsonl or
    .parquet."""
    out: OptionalFile = None
    """NumPy file (.npy) to write the vectors to, one row per text."""
    pooling: Annotated[Pool | None, tyro.conf.arg(metavar="cls|mean|last", help_behavior_hint="")] = None
    """Vector of a text: the mean of its hidden states (default), the last one, or that of [CLS]; of an imported
    sentence-transformers checkpoint, its own (default)."""
    context: Number = None
    """Number of tokens that are read at once (default: the run's; of an imported sentence-transformers checkpoint, its
    max_seq_length)."""
    long_texts: LongTexts = "windows"
    """Texts longer than the context: read in windows, whose vectors are averaged, or truncated."""
    nearest: SomeText = None
    """Text to search for: print the most similar texts of the file, with their cosine similarity and number."""
    top_k: Count = 5
    """Number of similar texts to print."""
    json: Flag = False
    """Print one JSON object per similar text."""
    text_column: Column = "text"
    """Column with the text, in files that have columns."""
    machine: MachineOptions = field(default_factory=MachineOptions)  # type: ignore[valid-type]


def _without_nearest(values: Values) -> str | None:
    return None if values.get("nearest") else f"without {setting('nearest')}; leave it out"


def main(words: Sequence[str]) -> None:
    """Write the vectors, or print the nearest texts."""
    args = parse(Args, "embed", words)
    use_machine(args)

    from greffon.core.json_results import json_text
    from greffon.data.corpora import texts_of
    from greffon.inference.embed import embed, save_vectors
    from greffon.inference.nearest import kept_embeddings, nearest
    from greffon.runs.run import Run as OpenRun

    if args.file is None:
        raise UserError("no texts; name a file with --file")
    if args.out is None and args.nearest is None:
        raise UserError("nothing to do with the vectors; name a file with --out, or a text with --nearest")
    if args.top_k < 1:
        raise out_of_range("top_k", args.top_k, "choose 1 or more")
    refuse_idle([Idle(("top_k", "json"), _without_nearest)], given(args))
    check_column(args)
    texts = texts_of(args.file, args.text_column)
    if not texts:
        raise UserError(f"{args.file}:1: there is no text in this file; fill it or name another one")
    run = OpenRun.open(args.run)
    how: Any = {"pooling": args.pooling, "long_texts": args.long_texts, "context": args.context}
    found = [] if args.nearest is None else nearest(run, args.nearest, texts, top_k=args.top_k, **how)
    if args.out is not None:
        vectors = embed(run, texts, **how) if args.nearest is None else kept_embeddings(run, texts, **how)
        save_vectors(args.out, vectors)
        (say if args.json else say_out)(f"{args.out}: {len(vectors):,} vectors of {vectors.shape[1]:,} numbers")
    for near in found:
        told = f"{near.cosine:6.3f}  {near.index + 1:>6,}  {textwrap.shorten(near.text, 90, placeholder='…')}"
        say_out(json_text(near) if args.json else told)
