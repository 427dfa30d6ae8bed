"""The directory of an export, which a later one may replace because it knows it by a file."""

import shutil
from pathlib import Path
from typing import Any

from greffon.core.errors import UserError
from greffon.runs.run import Run, write_json

MARKER = "greffon.json"
"""It says what was exported, from which run, and what goes in and comes out."""


def refuse_old(out: Path, force: bool) -> None:
    """Keep an export that is there already, unless the user wants another in its place."""
    if (out / MARKER).is_file() and not force:
        raise UserError(f"{out} holds an export already; choose another --out, or add --force to replace it")


def open_directory(out: Path, run: Run, to: str, **more: Any) -> None:
    """Make the directory; one that holds anything but an older export is left alone."""
    clear(out)
    recipe = run.recipe
    told = {"to": to, "run": run.name, "objective": recipe.objective, "context": recipe.shape.context}
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / MARKER, {**told, "labels": list(recipe.labels), **more})
    except OSError as problem:
        raise UserError(f"cannot write {out}: {problem.strerror}; choose another --out") from None


def clear(out: Path) -> None:
    """Remove an older export; a directory that holds anything else is left alone."""
    if (out / MARKER).is_file():
        shutil.rmtree(out)
    elif out.is_dir() and any(out.iterdir()):
        raise UserError(f"{out} is a directory with other files in it; choose another --out")
    elif out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; choose a directory for --out")
