"""Make the directory of a new run; an old run in it is kept until the new one has weights."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from greffon.core.errors import UserError, setting
from greffon.core.locks import empty_directory, own_directory, sole_use
from greffon.data.tokenizer import FILES as TOKENIZER_FILES
from greffon.runs.run import WEIGHTS

LAID_OUT_FIRST = (*TOKENIZER_FILES, "adapted")
"""Files of a fine-tuning that are written before its recipe."""


@contextmanager
def room_for(path: str | Path, force: bool) -> Iterator[Path]:
    """Make and lock the directory of a new run; with `force`, an old run is removed once the new one has weights.

    A run that stopped before it had any weights is replaced without `force`.
    """
    path = Path(path)
    whole = path.absolute()
    if not whole.name:
        raise UserError(f"{path} cannot be a run; choose another directory for {setting('out')}")
    aside = whole.with_name(f".{whole.name}.replaced")
    _end_replacement(path, aside)
    with own_directory(path, "recipe.json", LAID_OUT_FIRST):
        if not _has_weights(path):
            empty_directory(path)
            try:
                yield path
            except UserError:
                if not (path / "metrics.jsonl").exists():  # refused before it began: nothing to resume
                    shutil.rmtree(path, ignore_errors=True)
                raise
            return
        if not force:
            raise UserError(
                f"{path} holds a run already; choose another {setting('out')}, add {setting('force')} to replace it, "
                f"or go on with `greffon resume {path}`"
            )
        path.rename(aside)  # with its lock
        path.mkdir()
        with sole_use(path):
            try:
                yield path
            finally:
                if _has_weights(path):
                    shutil.rmtree(aside)
                else:
                    shutil.rmtree(path, ignore_errors=True)
                    aside.rename(path)


def _end_replacement(path: Path, aside: Path) -> None:
    """Finish a replacement that was killed: the old run is restored unless the new one has weights."""
    if not aside.is_dir():
        return
    with sole_use(aside), sole_use(path) if path.is_dir() else nullcontext():
        if _has_weights(path):
            shutil.rmtree(aside)
        else:
            shutil.rmtree(path, ignore_errors=True)
            aside.rename(path)


def _has_weights(path: Path) -> bool:
    return (path / "recipe.json").is_file() and (path / WEIGHTS).exists()
