"""`greffon tokenizer TEXT… --vocab-size 8000 --out TOK`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from greffon.cli import say_out
from greffon.cli.parsing import Texts, parse


@dataclass(frozen=True)
class Args:
    """Train a subword tokenizer on text files."""

    texts: Texts
    """Text files, directories or globs (.txt, .csv, .tsv, .jsonl, .parquet; .gz and .xz)."""
    out: Path
    """Where to write the tokenizer."""
    vocab_size: int = 8000
    """Tokens in all, special ones included."""
    lowercase: bool = False
    """Read every text in lower case: Excellent and excellent are one word; what is generated is in lower case, too."""
    text_column: str = "text"
    """The column with the text, in files that have columns."""
    force: bool = False
    """Replace a file that is there already."""


def main(words: Sequence[str]) -> None:
    """Train and save a tokenizer."""
    from greffon.data.train_tokenizer import train_tokenizer

    args = parse(Args, "tokenizer", words)
    made = train_tokenizer(
        args.texts,
        out=args.out,
        vocab_size=args.vocab_size,
        lowercase=args.lowercase,
        text_column=args.text_column,
        force=args.force,
    )
    there = args.out / "tokenizer.json" if args.out.is_dir() else args.out
    say_out(f"{there}: {made.size:,} tokens")
