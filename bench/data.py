"""The texts that contestants work on: movie reviews, as `greffon demo` reads them.

Files are made once, before a contest; a contestant that finds them there imports no more than it needs.
"""

import csv
import io
import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from greffon.core.files import write_atomically
from greffon.data.corpora import documents
from greffon.data.tokenizer import Tokenizer

LABELS = ("negative", "positive")


def labelled_reviews(source: str) -> Iterator[tuple[str, str]]:
    """Yield texts and labels: `imdb` has reviews of some hundred words, `rotten_tomatoes` single sentences."""
    from greffon.cli.demos.reviews import NAMES, plain, read_source

    rows = csv.reader(io.StringIO(read_source(), newline=""))
    return ((plain(text), NAMES[label]) for text, label, origin in rows if origin == source)


def text_file(folder: Path, megabytes: float) -> Path:
    """A file of so many megabytes, a review a line; beyond what there is, from the beginning again."""
    path = folder / f"reviews-{megabytes:g}.txt"
    if not path.is_file():
        lines, size = [], 0.0
        while size < 1e6 * megabytes:
            for text, _ in labelled_reviews("imdb"):
                lines.append(text.encode() + b"\n")
                size += len(lines[-1])
                if size >= 1e6 * megabytes:
                    break
        write_atomically(path, b"".join(lines))
    return path


def tokenizer_file(folder: Path, vocabulary: int, megabytes: float) -> Path:
    """A tokenizer of so many tokens, trained on a text of so many megabytes."""
    path = folder / f"tokenizer-{vocabulary}-{megabytes:g}.json"
    if not path.is_file():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a quick trial's text may be too small for its vocabulary
            Tokenizer.train(documents([text_file(folder, megabytes)]), vocabulary).save(path)
    return path


def labelled_table(folder: Path, sources: Sequence[str], texts: int, skip: int) -> Path:
    """A table of labelled texts, as many of each source and class; of two sources they are of very different length."""
    path = folder / f"{'-'.join(sources)}-{skip}-{texts}.csv"
    if not path.is_file():
        # In the source all texts of a class stand together: take every class's own.
        members: list[tuple[str, str]] = []
        share = len(sources) * len(LABELS)
        for source in sources:
            for label in LABELS:
                of_class = (pair for pair in labelled_reviews(source) if pair[1] == label)
                members += islice(of_class, skip // share, (skip + texts) // share)
        table = io.StringIO(newline="")
        csv.writer(table, lineterminator="\n").writerows([("text", "label"), *members])
        write_atomically(path, table.getvalue().encode())
    return path
