"""Files that travel with an imported checkpoint, and with what is trained from it: its card, and its licence."""

from collections.abc import Sequence
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


def inherit_companions(run: Run, sources: Sequence[Run]) -> None:
    """Copy the cards and licences of the runs that a run's weights come from; of two cards, neither speaks for it."""
    for name in (CARD, *LICENCES):
        files = [source.path / name for source in sources]
        texts = {file.read_bytes(): None for file in files if file.is_file()}  # each once, in order
        if len(texts) == 1 or (texts and name != CARD):
            write_atomically(run.path / name, b"\n\n".join(texts))


def give_licence(run: Run, out: Path) -> None:
    """Copy the licence of the checkpoint that a run's weights come from into an export."""
    for name in LICENCES:
        if (run.path / name).is_file():
            write_atomically(out / name, (run.path / name).read_bytes())
