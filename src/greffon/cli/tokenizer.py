"""`greffon tokenizer TEXT… --vocab-size 8000 --out TOK`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from greffon.cli import say_out
from greffon.cli.options import Column, Count, Flag, Texts
from greffon.cli.parsing import given, parse

NewTokenizer = Annotated[Path, tyro.conf.arg(metavar="TOK")]


@dataclass(frozen=True)
class Args:
    """Train a subword tokenizer on text files."""

    texts: Texts
    """Text files, directories or globs (.txt, .csv, .tsv, .jsonl, .parquet; also .gz and .xz)."""
    out: NewTokenizer
    """File or directory to write the tokenizer to."""
    vocab_size: Count = 8000
    """Vocabulary size, special tokens included."""
    lowercase: Flag = False
    """Lowercase all text; text that is generated with this tokenizer is then in lower case, too."""
    text_column: Column = "text"
    """Column with the text, in files that have columns."""
    force: Flag = False
    """Replace an existing file."""


def main(words: Sequence[str]) -> None:
    """Train and save a tokenizer."""
    from greffon.data.train_tokenizer import train_tokenizer

    args = parse(Args, "tokenizer", words)
    made = train_tokenizer(args.texts, **given(args, "texts"))
    there = args.out / "tokenizer.json" if args.out.is_dir() else args.out
    say_out(f"{there}: {made.size:,} tokens")
