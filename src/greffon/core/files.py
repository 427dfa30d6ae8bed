"""Writing files so that a crash leaves the old one or the new one, never half of one."""

import hashlib
import os
import shutil
from pathlib import Path


def cache_folder() -> Path:
    """Where what can be made again is kept: $GREFFON_CACHE, or a folder in the user's home."""
    named = os.environ.get("GREFFON_CACHE")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "greffon"


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the file, flush it to the disk, and put it in place in one move."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    sync_directory(path.parent)


def sync_file(path: Path) -> None:
    """Make what was appended to a file durable."""
    if path.is_file():
        with path.open("rb") as file:
            os.fsync(file.fileno())


def sweep(folder: Path) -> None:
    """Remove what a killed process left half written; only for who alone writes there."""
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
