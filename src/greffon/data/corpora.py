"""Files of text, read as a stream: documents, labelled texts and pairs.

Reads txt, csv, tsv, jsonl (each also as .gz or .xz) and parquet, strictly: what is broken is named
with its file and line. No file is loaded as a whole. Knows nothing of tokens.
"""

import glob
import os
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

from greffon.core.errors import UserError
from greffon.data.readers import LONGEST, SUFFIXES, has_columns, lines, rows, suffix_of


@dataclass(frozen=True)
class Labelled:
    """A text with its label, and its line in the file (in parquet: its row).

    The label is written in one spelling for each task: a class; labels as `a|b`; a score as `3.5`; spans as in JSON.
    """

    text: str
    label: str
    line: int
    second: str | None = None
    """The second text of a pair."""
    score: float | None = None
    """The label as a number, where the task asks for one."""
    file: str = field(default="", compare=False)
    """Name of the file; empty for a text that came from none."""

    @property
    def whole(self) -> str:
        """All that is read: the text, or both texts of a pair."""
        return self.text if self.second is None else f"{self.text}\n{self.second}"


def find_files(sources: Sequence[str | Path]) -> list[Path]:
    """Return the files that paths, folders, globs and `hf:owner/name` refer to, in order, without duplicates."""
    found: dict[Path, Path] = {}
    for source in sources:
        if not str(source).strip():
            raise UserError("the name of a text file is empty; give files, folders or globs")
        for path in _expand(str(source)):
            # The folder is resolved, the name is not: the Hub's cache keeps the suffix in the link's name.
            found.setdefault(path.parent.resolve() / path.name, path)
    if not found:
        raise UserError("no text was given; give files, folders or globs")
    return list(found.values())


def _expand(source: str) -> list[Path]:
    if source.startswith("hf:"):
        return _files_under(_download(source), source)
    path = Path(source).expanduser()
    try:
        if path.is_file():
            suffix_of(path)
            return [path]
        if path.is_dir():
            return _files_under(path, source)
    except (OSError, ValueError) as error:  # most likely a text that was given for a path
        raise UserError(f"{source[:60]!r} cannot be opened ({error}); give a file, a folder or a glob") from None
    if not glob.has_magic(source):
        raise UserError(f"{source}: there is no such file or folder; check the path")
    matches = sorted(Path(match) for match in glob.glob(str(path), recursive=True))  # noqa: PTH207 (absolute globs)
    files = [match for match in matches if match.is_file() and match.name.endswith(SUFFIXES)]
    if not files:
        raise UserError(f"{source}: the glob matches no text file; known are {', '.join(SUFFIXES)}")
    return files


def _files_under(folder: Path, source: str) -> list[Path]:
    """Return the text files in a folder and its subfolders, sorted, without hidden ones."""
    files: list[Path] = []
    for here, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(here, name) for name in names if name.endswith(SUFFIXES) and not name.startswith(".")]
    if not files:
        raise UserError(f"{source}: no text file in this folder; known are {', '.join(SUFFIXES)}")
    return sorted(files)


def _download(source: str) -> Path:
    """Download a dataset of the Hugging Face Hub; called only if the user wrote `hf:`."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise UserError(f"{source}: this needs a package; install it with: pip install huggingface_hub") from None
    patterns = [f"*{suffix}" for suffix in SUFFIXES]
    try:
        return Path(snapshot_download(source.removeprefix("hf:"), repo_type="dataset", allow_patterns=patterns))
    except Exception as error:  # network, spelling, permission: the hub has an exception for each
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{source}: the download failed ({reason}); check the name and the network") from None


def reason_without_columns(sources: Sequence[str | Path]) -> str | None:
    """Say why the name of a column has no effect on files that are all plain text; None if one is a table."""
    if any(has_columns(path) for path in find_files(sources)):
        return None
    return f"on {sources[0]}{' …' * (len(sources) > 1)}: plain text has no columns; leave it out"


def documents(sources: Sequence[str | Path], text_column: str = "text") -> Iterator[str]:
    """Yield the documents of all sources; empty ones are skipped."""
    return _documents(find_files(sources), text_column)


def texts_of(path: Path, text_column: str = "text") -> list[str]:
    """Return the texts of one file in order: the documents of a .txt, or all rows of a table, empty ones included."""
    path = Path(path)
    if not path.is_file() or suffix_of(path) == ".txt":
        return list(documents([path], text_column))
    return [string_cell(value, path, line, text_column) for line, (value,) in rows(path, {"text": text_column})]


def _documents(files: Sequence[Path], text_column: str) -> Iterator[str]:
    for path in files:
        if suffix_of(path) == ".txt":
            texts = _blocks(path) if _has_gaps(path) else (line for _, line in lines(path))
        else:
            texts = (
                string_cell(value, path, line, text_column) for line, (value,) in rows(path, {"text": text_column})
            )
        empty = True
        for text in texts:
            if text.strip():
                empty = False
                yield text
        if empty:
            raise UserError(f"{path}:1: there is no text in this file; fill it or leave it out")


def _has_gaps(path: Path) -> bool:
    """Return whether there are blank lines between lines of text; stop reading at the first."""
    begun = blank = False
    for _, line in lines(path):
        if not line.strip():
            blank = begun
        elif blank:
            return True
        else:
            begun = True
    return False


def _blocks(path: Path) -> Iterator[str]:
    """Yield the blocks of lines between blank lines."""
    block: list[str] = []
    length = 0
    for number, line in lines(path):
        if line.strip():
            block.append(line)
            length += len(line)
            if length > LONGEST:
                raise UserError(
                    f"{path}:{number}: this document is longer than {LONGEST >> 20} MiB; put a blank line "
                    f"between documents, or none at all if each line is one"
                )
        elif block:
            yield "\n".join(block)
            block, length = [], 0
    if block:
        yield "\n".join(block)


def labelled(path: Path, text_column: str = "text", label_column: str = "label") -> list[Labelled]:
    """Return the labelled texts of one csv, tsv, jsonl or parquet file; empty texts are kept."""
    path = Path(path)
    if path.is_dir():
        raise UserError(f"{path} is a folder; name the file with the labelled texts")
    examples: list[Labelled] = []
    for line, (text, label) in rows(path, {"text": text_column, "label": label_column}):
        name = label_cell(label, path, line, label_column)
        examples.append(Labelled(string_cell(text, path, line, text_column), name, line))
    if not examples:
        raise UserError(f"{path}:1: there is no example in this file; fill it or name another one")
    return examples


def label_cell(value: object, path: Path, line: int, column: str) -> str:
    """Return the class in a cell; numbers and truth values are written as text."""
    if isinstance(value, bool):
        value = str(value).lower()
    elif isinstance(value, int | float):
        value = str(value)
    label = "" if value is None else string_cell(value, path, line, column)
    if not label.strip():
        raise UserError(f"{path}:{line}: the label (column {column!r}) is empty; fill it or remove the row")
    return label


def line_pairs(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """Yield the pairs of two files that are aligned line by line, whatever their suffixes."""
    count = 0
    pairs = zip_longest(lines(Path(source)), lines(Path(target)))
    for count, (left, right) in enumerate(pairs, start=1):
        if left is None or right is None:
            whole = count + sum(1 for _ in pairs)
            counts = (whole, count - 1) if right is None else (count - 1, whole)
            raise UserError(
                f"{source} has {counts[0]} lines but {target} has {counts[1]}; line n of the one must "
                f"translate line n of the other"
            )
        yield left[1], right[1]
    if count == 0:
        raise UserError(f"{source}:1: there is no line in this file nor in {target}; fill them")


def column_pairs(path: Path, source_column: str = "source", target_column: str = "target") -> Iterator[tuple[str, str]]:
    """Yield the pairs in two columns of one csv, tsv, jsonl or parquet file."""
    path, line = Path(path), 0
    for line, (source, target) in rows(path, {"source": source_column, "target": target_column}):
        yield string_cell(source, path, line, source_column), string_cell(target, path, line, target_column)
    if line == 0:
        raise UserError(f"{path}:1: there is no pair in this file; fill it or name another one")


def string_cell(value: object, path: Path, line: int, column: str) -> str:
    """Return a cell; raise a `UserError` if it is not text."""
    if not isinstance(value, str):
        kind = "null" if value is None else type(value).__name__
        raise UserError(f"{path}:{line}: {column!r} must be a string, not {kind}; quote or fill it")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise UserError(
            f"{path}:{line}: {column!r} holds half a character (a lone surrogate escape); write it whole"
        ) from None
    return value


def normal(text: str) -> str:
    """Return the text normalized in case, spacing and Unicode form, to find texts that are practically equal.

    >>> normal("A good  Book ") == normal("a good book")
    True
    """
    return " ".join(unicodedata.normalize("NFC", text).split()).casefold()
