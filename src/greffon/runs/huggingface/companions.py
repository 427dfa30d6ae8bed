"""Files that travel with an imported checkpoint: its card, and its licence."""

from pathlib import Path

from greffon.core.errors import UserError
from greffon.core.files import write_atomically
from greffon.runs.run import Run

CARD = "card.md"
"""The card of an imported checkpoint, in the run."""
LICENCES = ("LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "LICENCE.txt", "LICENCE.md", "NOTICE", "NOTICE.txt")
LARGEST = 1 << 20


def keep_companions(path: Path, run: Run) -> None:
    """Copy the card and the licence of a checkpoint into the run."""
    for name, kept in [("README.md", CARD), *((name, name) for name in LICENCES)]:
        file = path / name
        if file.is_file():
            if file.stat().st_size > LARGEST:
                raise UserError(f"{file} is larger than a text that people read; remove it, or restore the right one")
            write_atomically(run.path / kept, file.read_bytes())


def give_licence(run: Run, out: Path) -> None:
    """Copy the licence of the checkpoint that a run was imported from into an export."""
    for name in LICENCES:
        if (run.path / name).is_file():
            write_atomically(out / name, (run.path / name).read_bytes())
