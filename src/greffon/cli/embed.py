"""`greffon embed RUN --file F --out vectors.npy`."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from greffon.cli import say_out
from greffon.cli.parsing import OptionalFile, Run, SomeText, parse
from greffon.core.config import Pool


@dataclass(frozen=True)
class Args:
    """Turn texts into vectors, and find the texts nearest to one."""

    run: Run
    """A run with one body (all but translators), which is used without its head."""
    file: OptionalFile = None
    """Texts: .txt (one a line, or blocks between blank lines), .csv, .tsv or .jsonl."""
    out: OptionalFile = None
    """Where to write the vectors: a NumPy file, one row a text."""
    pooling: Pool = "mean"
    """What stands for a text: the mean of its tokens, the last one, or [CLS]."""
    nearest: SomeText = None
    """A text: print those of the file that are nearest to it, with their cosine and number."""
    top_k: int = 5
    """How many of the nearest."""
    text_column: str = "text"
    """The column with the text, in files that have columns."""


def main(words: Sequence[str]) -> None:
    """Write the vectors, or print the nearest texts."""
    args = parse(Args, "embed", words)

    from greffon.core.errors import UserError
    from greffon.data.corpora import texts_of
    from greffon.inference.embed import embed, nearest_vectors, save_vectors

    if args.file is None:
        raise UserError("no texts; name a file with --file")
    if args.out is None and args.nearest is None:
        raise UserError("nothing to do with the vectors; name a file with --out, or a text with --nearest")
    if args.top_k < 1:
        raise UserError(f"top_k is {args.top_k}; choose 1 or more")
    texts = texts_of(args.file, args.text_column)
    if not texts:
        raise UserError(f"{args.file}:1: there is no text in this file; fill it or name another one")
    if args.nearest is not None and not args.nearest.strip():
        raise UserError("--nearest is empty; give the text to look for")
    vectors = embed(args.run, texts, pooling=args.pooling)
    if args.out is not None:
        save_vectors(args.out, vectors)
        say_out(f"{args.out}: {len(vectors):,} vectors of {vectors.shape[1]:,} numbers")
    if args.nearest is not None:
        asked = embed(args.run, args.nearest, pooling=args.pooling)[0]
        for found in nearest_vectors(asked, vectors, texts, args.top_k):
            say_out(f"{found.cosine:6.3f}  {found.index + 1:>6,}  {textwrap.shorten(found.text, 90, placeholder='…')}")
