"""Files made to harm: each is read within bounded memory and time, and refused in one sentence.

`python tests/reliability/hostile.py` tries each in a process of its own with limited memory, and prints what it took.
"""

import gzip
import json
import lzma
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

MEMORY = 2 << 30
"""Bytes of address space that a reader may take, the interpreter and NumPy included."""

MIB = 1 << 20
READ = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
from greffon.core.errors import UserError
from greffon.data.corpora import documents, labelled, texts_of
path = Path(sys.argv[1])
said = "read"
try:
    if path.name.partition(".")[2].startswith("txt"):
        sum(1 for _ in documents([path]))
    else:
        labelled(path)
except UserError as refusal:
    said = str(refusal)
status = Path("/proc/self/status").read_text()
peak = int(status.partition("VmHWM:")[2].split()[0]) // 1024
print(said[:4000])
print(peak)
"""


def _repeat(part: bytes, size: int, before: bytes = b"", after: bytes = b"") -> Callable[[Path], None]:
    def write(path: Path) -> None:
        times = size // len(part)
        with path.open("wb") as out:
            out.write(before)
            for _ in range(times // 1000):
                out.write(part * 1000)
            out.write(after)

    return write


def _packed(suffix: str, size: int) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with gzip.open(path, "wb", 6) if suffix == ".gz" else lzma.open(path, "wb", preset=0) as out:
            for _ in range(size // MIB):
                out.write(b"a" * MIB)

    return write


def _columns(count: int) -> Callable[[Path], None]:
    return lambda path: (
        path.write_text(",".join(f"c{i}" for i in range(count)) + "\n" + "," * (count - 1) + "\n") and None
    )


def _content(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content) and None


def files(megabytes: int) -> dict[str, tuple[str, Callable[[Path], None], str]]:
    """Name each file: how it is called, how it is written, and what must be said of it ("read": it is sound)."""
    size, million = megabytes * MIB, 10_000 * megabytes
    surrogate = json.dumps({"text": "\ud800", "label": "a"}).encode()
    return {
        "one line": ("line.txt", _repeat(b"a", size), "line is longer than 16 MiB"),
        "one line, packed by gzip": ("line.txt.gz", _packed(".gz", 4 * size), "line is longer than 16 MiB"),
        "one line, packed by xz": ("line.txt.xz", _packed(".xz", 4 * size), "line is longer than 16 MiB"),
        "one document": ("block.txt", _repeat(b"a" * 60 + b"\n", size, b"a\n\nb\n"), "document is longer than 16 MiB"),
        "one cell": ("cell.csv", _repeat(b"a" * 60 + b"\n", size, b'text,label\n"'), "longer than 16 MiB"),
        "one row of many cells": (
            "row.csv",
            _repeat(b'"a\n",b,c,d,e,f,', size, b"text,label\n"),
            "row is longer than 16 MiB",
        ),
        "a bomb of columns": ("columns.csv", _columns(million), "no column 'text'"),
        "a bomb of columns (JSON)": (
            "columns.jsonl",
            lambda path: path.write_text(json.dumps({f"c{i}": i for i in range(million // 2)})) and None,
            "no column 'text'",
        ),
        "deep JSON": ("deep.jsonl", _content(b'{"text":' + b"[" * 10_000 * megabytes), "broken JSON"),
        "a number of many digits": ("digits.jsonl", _content(b'{"text": ' + b"1" * 100_000 + b"}"), "broken JSON"),
        "half a character": ("surrogate.jsonl", _content(surrogate), "half a character"),
        "NUL": ("nul.csv", _content(b"text,label\na\0b,c\n"), "nul.csv:2: a NUL byte"),
        "UTF-16": ("wide.csv", _content("text,label\na,b\n".encode("utf-16")), "wide.csv:1: a NUL byte"),
        "a byte-order mark": ("mark.csv", _content(b"\xef\xbb\xbftext,label\na,b\nc,d\n"), "read"),
        "lines that end in \\r": (
            "old.csv",
            _content(b"text,label\ra,b\rc,d\r"),
            "old.csv:1: its lines end in \\r alone",
        ),
        "rows that end in \\r\\n": ("rows.csv", _content(b"text,label\r\na,b\r\nc,d\r\n"), "read"),
    }


def measure(name: str, write: Callable[[Path], None], folder: Path) -> dict[str, object]:
    """Read one file in a process of its own."""
    path = folder / name
    write(path)
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", READ.format(memory=MEMORY), path],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    seconds = time.perf_counter() - started
    path.unlink()
    if done.returncode:
        return {"said": done.stderr.strip()[-300:], "crashed": True, "seconds": round(seconds, 1), "megabytes": 0}
    said, peak = done.stdout.strip().rsplit("\n", 1)
    return {"said": said, "crashed": False, "seconds": round(seconds, 1), "megabytes": int(peak)}


def main() -> None:
    """Try every file, at full size."""
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for title, (name, write, wanted) in files(100).items():
            found = measure(name, write, Path(folder))
            right = not found["crashed"] and wanted in str(found["said"])
            failed += not right
            print(json.dumps({"file": title, "right": right, **found}, ensure_ascii=False), flush=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
