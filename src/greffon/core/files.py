"""Writing files so that a crash leaves the old one or the new one, never half of one."""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from greffon.core.errors import UserError

COPY = "restore it from a copy"
"""The remedy for a damaged file."""


def cache_folder() -> Path:
    """Return the folder for files that can be made again: $GREFFON_CACHE, or one in the user's home."""
    named = os.environ.get("GREFFON_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "greffon"


def write_atomically(path: Path, content: bytes) -> None:
    """Write a temporary file, flush it to the disk, and rename it in one move."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    sync_directory(path.parent)


def sync_file(path: Path) -> None:
    """Make what was appended to a file durable."""
    if path.is_file():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def sweep(folder: Path) -> None:
    """Remove what a killed process left half written; the caller must be the only one that writes there."""
    for left in folder.glob(".*.part"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable, where the system can."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # not every system opens directories
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def sha256(path: Path) -> str:
    """Return the digest of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, or say what is wrong with the file."""
    value = _parsed(path)
    if not isinstance(value, dict):
        raise UserError(f"{path} should hold a JSON object; {COPY}")
    return value


def read_json_list(path: Path) -> list[Any]:
    """Read a JSON list, or say what is wrong with the file."""
    value = _parsed(path)
    if not isinstance(value, list):
        raise UserError(f"{path} should hold a JSON list; {COPY}")
    return value


def _parsed(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise UserError(f"cannot read {path}: {problem}; {COPY}") from None


def write_json(path: Path, value: Mapping[str, Any] | Sequence[Any]) -> None:
    """Write a JSON object or list, indented for people."""
    try:
        content = json.dumps(value, indent=2, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # the name of a file that is not Unicode
        content = json.dumps(value, indent=2).encode()
    write_atomically(path, content + b"\n")
