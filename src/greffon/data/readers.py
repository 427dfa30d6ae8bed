"""Lines and rows of one file, read as a stream and strictly.

Unpacks .gz and .xz, checks UTF-8, finds columns; what is broken is named with its file and line. What
the lines and rows mean is for `corpora.py` to say.
"""

import csv
import gzip
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from greffon.core.errors import LONG, SHOWN, UserError, did_you_mean, setting

# No line and no document may be longer (in bytes): what has no line ends cannot be streamed.
LONGEST = 16 << 20

_LINE_SUFFIXES = (".txt", ".csv", ".tsv", ".jsonl")
SUFFIXES = (*(suffix + packed for suffix in _LINE_SUFFIXES for packed in ("", ".gz", ".xz")), ".parquet")


def suffix_of(path: Path) -> str:
    """Return the suffix of a file without that of its compression: ".csv" for "a.csv.gz"."""
    known = [suffix for suffix in SUFFIXES if path.name.endswith(suffix)]
    if not known:
        raise UserError(f"{path}: unknown kind of file; rename it to end in one of {', '.join(SUFFIXES)}")
    return known[0].removesuffix(".gz").removesuffix(".xz")


def has_columns(path: Path) -> bool:
    """Whether a file is a table; any other is read as plain text."""
    return path.name.endswith(SUFFIXES) and suffix_of(path) != ".txt"


def rows(path: Path, columns: Mapping[str, str]) -> Iterator[tuple[int, list[object]]]:
    """Yield the line and the wanted cells of each row of a table.

    `columns` maps the content of a column to its name: `{"text": "avis"}` for `--text-column avis`.
    """
    suffix = suffix_of(path)
    if suffix not in _TABLES:
        raise UserError(f"{path}: a table is needed here; give a .csv, .tsv, .jsonl or .parquet file")
    return _TABLES[suffix](path, columns)


def whole_rows(path: Path) -> Iterator[dict[str, object]]:
    """Yield all cells of each row of a table by their columns; JSON rows may have different ones."""
    if suffix_of(path) == ".jsonl":
        yield from (row for _, row in _json_objects(path, "text"))
        return
    names = _HEADERS[suffix_of(path)](path)
    yield from (dict(zip(names, cells, strict=True)) for _, cells in rows(path, {name: name for name in names}))


def first_row(path: Path) -> dict[str, object]:
    """Return the columns of a table with the cells of its first row, which are None if it has no rows."""
    names = _HEADERS[suffix_of(path)](path)
    if len({*names}) < len(names):  # which `rows` says better
        return dict.fromkeys(names)
    found = next(rows(path, {name: name for name in names}), None)
    return dict.fromkeys(names) if found is None else dict(zip(names, found[1], strict=True))


def _csv_header(path: Path, delimiter: str = ",") -> list[str]:
    try:
        return next(csv.reader((line for _, line in lines(path, ends=True)), delimiter=delimiter, strict=True), [])
    except csv.Error:  # which `rows` says better
        return []


def _json_header(path: Path) -> list[str]:
    for _, line in lines(path):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                return []
            return list(row) if isinstance(row, dict) else []
    return []


def _parquet_header(path: Path) -> list[str]:
    try:
        from pyarrow import parquet

        return list(parquet.read_schema(path).names)
    except Exception:  # no package, or a broken file: `rows` says which
        return []


def _csv_rows(path: Path, columns: Mapping[str, str], delimiter: str = ",") -> Iterator[tuple[int, list[object]]]:
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST))  # the module has one limit for all readers
    budget = _Budget(path)
    reader = csv.reader(budget.spent(lines(path, ends=True)), delimiter=delimiter, strict=True)
    header: list[str] | None = None
    wanted: list[int] = []
    line = 1
    try:
        for row in reader:
            budget.left = LONGEST
            if header is None:
                header = row
                wanted = [_position(column, header, f"{path}:{line}", what) for what, column in columns.items()]
            elif row and len(row) != len(header):
                remedy = "add what is missing" if len(row) < len(header) else "quote the cells that hold a separator"
                cells = f"{len(row)} cell{'s' * (len(row) != 1)}"
                raise UserError(f"{path}:{line}: {cells} where the header has {len(header)}; {remedy}")
            elif row:
                yield line, [row[index] for index in wanted]
            line = reader.line_num + 1  # a quoted cell may span lines: the next row begins here
    except csv.Error as error:
        if "new-line character" in str(error):
            raise UserError(f"{path}:{line}: its lines end in \\r alone; save the file with \\n as line end") from None
        raise UserError(f"{path}:{line}: broken row ({error}); check its quotes") from None


class _Budget:
    """Limit on the length of one row of a table: quoted cells can span any number of lines."""

    def __init__(self, path: Path) -> None:
        self.path, self.left = path, LONGEST

    def spent(self, numbered: Iterator[tuple[int, str]]) -> Iterator[str]:
        """Yield lines; raise a `UserError` when a row exceeds the limit."""
        for number, line in numbered:
            self.left -= len(line)
            if self.left < 0:
                raise UserError(f"{self.path}:{number}: this row is longer than {LONGEST >> 20} MiB; check its quotes")
            yield line


def _tsv_rows(path: Path, columns: Mapping[str, str]) -> Iterator[tuple[int, list[object]]]:
    return _csv_rows(path, columns, delimiter="\t")


def _json_rows(path: Path, columns: Mapping[str, str]) -> Iterator[tuple[int, list[object]]]:
    for number, row in _json_objects(path, *columns.values()):
        names = list(row)
        found = [_position(column, names, f"{path}:{number}", what) for what, column in columns.items()]
        yield number, [row[names[index]] for index in found]


def _json_objects(path: Path, *columns: str) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the numbered rows of a JSONL file; `columns` are those that an error message shows."""
    for number, line in lines(path):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{path}:{number}: broken JSON ({error}); mend or remove this line") from None
        if not isinstance(row, dict):
            example = json.dumps(dict.fromkeys(columns, "…"), ensure_ascii=False)
            raise UserError(f"{path}:{number}: not a JSON object; each line must read {example}")
        yield number, row


def _parquet_rows(path: Path, columns: Mapping[str, str]) -> Iterator[tuple[int, list[object]]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise UserError(f"{path}: parquet needs pyarrow; pip install 'greffon[parquet]'") from None
    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            for what, column in columns.items():
                _position(column, names, str(path), what)
            for batch in file.iter_batches(batch_size=1024, columns=list(columns.values())):
                cells = [batch.column(column).to_pylist() for column in columns.values()]
                for row in zip(*cells, strict=True):
                    number += 1
                    yield number, list(row)
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise UserError(f"{path}: broken parquet after row {number} ({reason}); write it anew") from None


_TABLES: dict[str, Callable[[Path, Mapping[str, str]], Iterator[tuple[int, list[object]]]]] = {
    ".csv": _csv_rows,
    ".tsv": _tsv_rows,
    ".jsonl": _json_rows,
    ".parquet": _parquet_rows,
}


_HEADERS: dict[str, Callable[[Path], list[str]]] = {
    ".txt": lambda path: [],
    ".csv": _csv_header,
    ".tsv": lambda path: _csv_header(path, "\t"),
    ".jsonl": _json_header,
    ".parquet": _parquet_header,
}


def _position(column: str, names: Sequence[str], where: str, what: str) -> int:
    """Return the index of a column; raise a `UserError` unless it occurs exactly once."""
    if names.count(column) == 1:
        return names.index(column)
    if column in names:
        raise UserError(f"{where}: there are {names.count(column)} columns {column!r}; rename all but one")
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        mark = next(mark for mark in ";\t|" if mark in names[0])
        raise UserError(
            f"{where}: the columns are separated by {mark!r}; save the file with commas (or as .tsv with tabs)"
        )
    hint = did_you_mean(column, names)
    if "choose from" not in hint:  # which lists them already
        shown = [name[:LONG] for name in names[:SHOWN]]
        hint = f" among {', '.join(shown)}{', …' * (len(names) > SHOWN)}{hint}"
    others = "pair_columns" if what.startswith("pair_") else f"{what}_column"
    raise UserError(f"{where}: no column {column!r}{hint} ({setting(others)} names another)")


def lines(path: Path, ends: bool = False) -> Iterator[tuple[int, str]]:
    r"""Yield the numbered lines of a UTF-8 file. Only \n and \r\n end a line: U+2028 and similar are text."""
    with _opened(path) as stream:
        yield from stream_lines(stream, str(path), ends)


def stream_lines(stream: BinaryIO, name: str, ends: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines of an open binary file; `name` appears in error messages."""
    number = 0
    while line := _next_line(stream, name, number + 1):
        number += 1
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if b"\0" in line:
            raise UserError(f"{name}:{number}: a NUL byte, so this is no text; save it as UTF-8 text")
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(
                f"{name}:{number}: byte 0x{line[error.start]:02x} is not UTF-8; convert it to UTF-8 "
                "(if it is Latin-1, with `iconv -f latin1 -t utf-8`)"
            ) from None
        yield number, text if ends else text.removesuffix("\n").removesuffix("\r")


def _next_line(stream: BinaryIO, name: str, number: int) -> bytes:
    """Return one line with its line break, or nothing at the end of the file; at most LONGEST bytes."""
    try:
        line = stream.readline(LONGEST + 1)
    except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
        raise UserError(
            f"{name}:{number}: the file breaks off or is damaged here ({error}); fetch or pack it again"
        ) from None
    if len(line) > LONGEST:
        raise UserError(f"{name}:{number}: this line is longer than {LONGEST >> 20} MiB; break it up")
    return line


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading bytes, decompressed."""
    try:
        if path.suffix == ".gz":
            stream = cast(BinaryIO, gzip.open(path))  # noqa: SIM115 (closed below)
        elif path.suffix == ".xz":
            stream = cast(BinaryIO, lzma.open(path))  # noqa: SIM115
        else:
            stream = path.open("rb")
    except OSError as error:
        raise UserError(f"{path}: the file cannot be read ({error.strerror}); check the path") from None
    with stream:
        yield stream
