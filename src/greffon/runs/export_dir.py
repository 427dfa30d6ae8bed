"""The directory of an export; a marker file in it allows a later export to replace it."""

import shutil
from pathlib import Path
from typing import Any

from greffon.core.errors import UserError, setting
from greffon.core.files import write_json
from greffon.runs.run import Run

MARKER = "greffon.json"
"""The marker file: the format of the export, its run, objective, context and labels."""


def refuse_old(out: Path, force: bool) -> None:
    """Raise a `UserError` if there is an export already, unless `force` is set."""
    if (out / MARKER).is_file() and not force:
        raise UserError(
            f"{out} holds an export already; choose another {setting('out')}, or add {setting('force')} to replace it"
        )


def open_directory(out: Path, run: Run, to: str, **more: Any) -> None:
    """Create the directory; raise a `UserError` if it holds anything but an older export."""
    clear(out)
    recipe = run.recipe
    told = {"to": to, "run": run.name, "objective": recipe.objective, "context": recipe.shape.context}
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / MARKER, {**told, "labels": list(recipe.labels), **more})
    except OSError as problem:
        raise UserError(f"cannot write {out}: {problem.strerror}; choose another {setting('out')}") from None


def clear(out: Path) -> None:
    """Remove an older export; raise a `UserError` if the directory holds anything else."""
    if (out / MARKER).is_file():
        shutil.rmtree(out)
    elif out.is_dir() and any(out.iterdir()):
        raise UserError(f"{out} is a directory with other files in it; choose another {setting('out')}")
    elif out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; choose a directory for {setting('out')}")
