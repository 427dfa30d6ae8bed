"""A Run in a form that other tools load: `greffon.export`."""

from collections.abc import Callable
from pathlib import Path

from greffon.ctranslate import MARKER, export_ctranslate2
from greffon.errors import UserError, did_you_mean
from greffon.run import Run

TARGETS: dict[str, Callable[[Run, Path, str | None], Path]] = {"ctranslate2": export_ctranslate2}


def export(
    run: str | Path | Run, *, to: str, out: str | Path, quantize: str | None = None, force: bool = False
) -> Path:
    """Write a run for another tool: `export("runs/en-fr", to="ctranslate2", out="en-fr-ct2", quantize="int8")`."""
    if to not in TARGETS:
        raise UserError(f"cannot export to {to!r}{did_you_mean(to, TARGETS)}")
    out = Path(out)
    if (out / MARKER).is_file() and not force:
        raise UserError(f"{out} holds an export already; choose another --out, or add --force to replace it")
    return TARGETS[to](Run.open(run), out, quantize)
