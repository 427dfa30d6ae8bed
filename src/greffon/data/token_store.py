"""A corpus as one flat file of token ids, memory-mapped; built once for each text and tokenizer.

A store is a folder in the cache: `tokens.bin`, `offsets.npy` and `store.json`. It is written under a temporary
name and then renamed, so that a store in the cache is always complete, even if several processes build it at
the same time. It does not know windows or batches.
"""

import hashlib
import json
import os
import secrets
import shutil
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import numpy as np

from greffon.core.errors import UserError
from greffon.core.files import cache_folder, sync_directory
from greffon.data.corpora import documents, find_files
from greffon.data.tokenizer import Tokenizer

FORMAT = 1
BATCH = 1 << 20  # bytes of text encoded at a time
STALE = 24 * 3600  # seconds without a write after which a half-built store is nobody's
_BUILDING = ".building-"


@dataclass(frozen=True, eq=False)
class TokenStore:
    """The documents of a corpus as token ids, each from its start to its end token."""

    tokens: np.ndarray  # all documents one after another, uint16 or uint32, memory-mapped, read-only
    offsets: np.ndarray  # int64 (documents + 1,): document i is tokens[offsets[i]:offsets[i + 1]]
    digest: str  # the identity of the data: its text and its tokenizer, whatever the files are called
    text_bytes: int  # UTF-8 bytes of all documents

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def document(self, i: int) -> np.ndarray:
        """[start] + ids + [end] of document `i`: a view, nothing is copied."""
        if not 0 <= i < len(self):
            raise IndexError(f"document {i} of a store of {len(self)}")
        return self.tokens[self.offsets[i] : self.offsets[i + 1]]


def open_store(
    sources: Sequence[str | Path],
    tokenizer: Tokenizer,
    text_column: str = "text",
    cache: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> TokenStore:
    """Open the store of some text, or build it; `progress` is called with numbers of bytes of text."""
    files = find_files(sources)
    stores = (cache_folder() if cache is None else Path(cache)) / "stores"
    folder = stores / _key(files, tokenizer, text_column)
    try:
        stores.mkdir(parents=True, exist_ok=True)
        _sweep(stores)
        # Once is enough, unless another process replaces a torn store at the very same moment.
        for _ in range(3):
            store = _load(folder)
            if store is not None:
                return store
            _build(folder, files, tokenizer, text_column, progress or (lambda done: None))
    except OSError as error:
        raise UserError(
            f"{stores}: the token store cannot be written ({error.strerror}); "
            f"free some room or set GREFFON_CACHE to another folder"
        ) from None
    raise UserError(f"{folder}: other processes keep replacing this store; run again when they are done")


def _key(files: Sequence[Path], tokenizer: Tokenizer, text_column: str) -> str:
    """Return the key of a store, which depends only on what is known without reading the text."""
    try:
        found = [(str(path.resolve()), path.stat()) for path in files]
    except OSError as error:
        raise UserError(f"{error.filename}: the file has gone ({error.strerror}); run again") from None
    stats = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in found]
    identity = json.dumps([FORMAT, tokenizer.digest, text_column, stats])
    return hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _load(folder: Path) -> TokenStore | None:
    """Open a store; return None if it is missing, damaged or of another format."""
    try:
        facts = json.loads((folder / "store.json").read_text(encoding="utf-8"))
        dtype, count = np.dtype(facts["dtype"]), int(facts["tokens"])
        whole = (
            facts["format"] == FORMAT
            and (folder / "tokens.bin").stat().st_size == count * dtype.itemsize
            and (folder / "offsets.npy").stat().st_size == facts["offsets_bytes"]
        )
        if not whole:
            return None
        tokens = np.memmap(folder / "tokens.bin", dtype=dtype, mode="r")
        offsets = np.load(folder / "offsets.npy", mmap_mode="r")
        if offsets.shape != (facts["documents"] + 1,) or offsets[-1] != count:
            return None
        return TokenStore(tokens, offsets, str(facts["digest"]), int(facts["text_bytes"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _build(
    folder: Path,
    files: Sequence[Path],
    tokenizer: Tokenizer,
    text_column: str,
    progress: Callable[[int], None],
) -> None:
    """Write a store under a temporary name and rename it; after an error nothing is left behind."""
    beside = _scratch(folder.parent)
    try:
        facts = _write(beside, documents(files, text_column), tokenizer, progress)
        facts["sources"] = [str(path) for path in files]
        with (beside / "store.json").open("wb") as out:
            out.write(json.dumps(facts, indent=1).encode())
            _sync(out)
        sync_directory(beside)
        if _key(files, tokenizer, text_column) != folder.name:
            raise UserError(f"{files[0]}: the text changed while it was read; run again when it is complete")
        _publish(beside, folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _write(
    folder: Path, texts: Iterable[str], tokenizer: Tokenizer, progress: Callable[[int], None]
) -> dict[str, object]:
    """Write the texts to tokens.bin and offsets.npy; return the content of store.json."""
    dtype = np.dtype(np.uint16 if tokenizer.size <= 1 << 16 else np.uint32)
    digest = hashlib.sha256(tokenizer.digest.encode())
    offsets = array("q", [0])
    done = 0
    with (folder / "tokens.bin").open("wb") as out:
        for batch in _batches(texts):
            for text in batch:
                content = text.encode()
                digest.update(len(content).to_bytes(8, "little") + content)
                done += len(content)
            rows = [[tokenizer.start, *ids, tokenizer.end] for ids in tokenizer.encode_many(batch)]
            for row in rows:
                offsets.append(offsets[-1] + len(row))
            np.fromiter(chain.from_iterable(rows), dtype=dtype).tofile(out)
            progress(done)
        _sync(out)
    with (folder / "offsets.npy").open("wb") as out:
        np.save(out, np.frombuffer(offsets, dtype=np.int64))
        _sync(out)
    return {
        "format": FORMAT,
        "documents": len(offsets) - 1,
        "tokens": offsets[-1],
        "text_bytes": done,
        "dtype": dtype.name,
        "offsets_bytes": (folder / "offsets.npy").stat().st_size,
        "digest": digest.hexdigest(),
    }


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield texts in lists of about BATCH characters: enough for all cores, few enough for the memory."""
    batch: list[str] = []
    length = 0
    for text in texts:
        batch.append(text)
        length += len(text)
        if length >= BATCH:
            yield batch
            batch, length = [], 0
    if batch:
        yield batch


def _sync(out: BinaryIO) -> None:
    out.flush()
    os.fsync(out.fileno())


def _publish(beside: Path, folder: Path) -> None:
    """Rename a finished store, unless another process has already built the same one."""
    for _ in range(3):
        try:
            beside.rename(folder)
        except OSError:
            if _load(folder) is not None:
                return
            # A torn store is in the way; it goes under a name that the sweep knows, should we stop here.
            torn = _scratch(folder.parent)
            with suppress(FileNotFoundError):  # another process has removed it
                folder.rename(torn)
            shutil.rmtree(torn, ignore_errors=True)
        else:
            sync_directory(folder.parent)
            return


def _scratch(stores: Path) -> Path:
    """Create a temporary folder, which readers ignore."""
    path = stores / f"{_BUILDING}{os.getpid()}-{secrets.token_hex(4)}"
    path.mkdir()
    return path


def _sweep(stores: Path) -> None:
    """Remove the temporary folders of killed builds, which have not been written to for long."""
    for path in stores.glob(f"{_BUILDING}*"):
        try:
            latest = max(part.stat().st_mtime for part in (path, *path.iterdir()))
        except OSError:  # finished, or swept by another process
            continue
        if time.time() - latest > STALE:
            shutil.rmtree(path, ignore_errors=True)
