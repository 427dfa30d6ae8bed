"""Locks on directories, which the system releases however their process ends."""

import errno
import os
import shutil
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from greffon.core.errors import UserError, setting

try:
    import fcntl
except ImportError:  # not a Unix: no lock, and nothing else changes
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
_held: dict[tuple[int, int], int] = {}
"""The locks of this process by file, with the thread that holds each."""


@contextmanager
def sole_use(folder: Path) -> Iterator[None]:
    """Keep other processes out of a directory; the thread that holds the lock may enter again.

    >>> import tempfile
    >>> with sole_use(Path(tempfile.mkdtemp())):
    ...     "nobody else trains here"
    'nobody else trains here'
    """
    handle, identity = _lock(folder)
    if handle is None:
        yield
        return
    _held[identity] = threading.get_ident()
    try:
        yield
    finally:
        del _held[identity]
        os.close(handle)


def _lock(folder: Path) -> tuple[int | None, tuple[int, int]]:
    """Lock the file in the directory; None where this thread holds it, or the file system has no locks."""
    file = folder / LOCK
    while True:
        try:
            handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as problem:
            raise UserError(
                f"cannot write in {folder}: {problem.strerror}; free some room, mend its permissions, "
                "or choose another directory"
            ) from None
        status = os.fstat(handle)
        identity = (status.st_dev, status.st_ino)
        if fcntl is None or _held.get(identity) == threading.get_ident():
            os.close(handle)
            return None, identity
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            holder = os.read(handle, 20).decode("ascii", "replace")
            os.close(handle)
            if problem.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise UserError(
                    f"{folder} is in use by process {holder or 'unknown'}; wait until it ends, stop it, "
                    "or choose another directory"
                ) from None
            return None, identity  # some network file systems have no locks
        if _is_still(file, identity):
            _sign(handle)
            return handle, identity
        os.close(handle)  # the directory was replaced in the meantime


def _is_still(file: Path, identity: tuple[int, int]) -> bool:
    try:
        status = file.stat()
    except FileNotFoundError:
        return False
    return (status.st_dev, status.st_ino) == identity


def _sign(handle: int) -> None:
    """Write the process id into the lock file; an error here does not matter."""
    try:
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
    except OSError:
        pass


@contextmanager
def own_directory(path: Path, marker: str, before: Collection[str] = ()) -> Iterator[None]:
    """Make a directory, or open one that Greffon made, and lock it; refuse any other.

    A directory of Greffon has the file `marker`, or nothing but a lock and the files that are written `before` it.
    """
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file; choose a directory for {setting('out')}")
    if path.is_dir() and not (path / marker).is_file():
        names = {entry.name for entry in path.iterdir()}
        if names and not (LOCK in names and names <= {LOCK, *before}):
            raise UserError(f"{path} is a directory with other files in it; choose another {setting('out')}")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UserError(f"cannot write {path}: {problem.strerror}; choose another {setting('out')}") from None
    with sole_use(path):
        yield


def empty_directory(path: Path) -> None:
    """Remove everything in a directory except its lock."""
    for entry in path.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != LOCK:
            entry.unlink()
