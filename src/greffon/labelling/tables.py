"""The labels as tables: one to train on, one of the texts kept aside."""

import csv
import io
import itertools
import threading
from collections.abc import Mapping
from pathlib import Path

from greffon.core.errors import UserError
from greffon.core.files import write_atomically
from greffon.core.recipe import Data
from greffon.labelling.desk import Desk
from greffon.labelling.heap import parts_of

LABELS, ASIDE = "labels.csv", "aside.csv"


class Tables:
    """The tables of a desk; whoever labels waits for their content at most, never for the disk."""

    def __init__(self, folder: Path, desk: Desk, change: threading.RLock) -> None:
        self.folder = folder
        self._desk = desk
        self._change = change
        self._writing = threading.Lock()
        self._turns = itertools.count(1)
        self._written = 0

    def content(self) -> dict[str, bytes]:
        """Return the bytes of both tables as of now, by their names."""
        with self._change:
            return {
                LABELS: _table(self._desk, self._desk.training()),
                ASIDE: _table(self._desk, self._desk.aside()),
            }

    def write(self) -> Path:
        """Write both tables; return the path of the one to train on."""
        with self._change:
            turn, content = next(self._turns), self.content()
        with self._writing:
            if turn > self._written:  # otherwise another thread has written newer ones
                self._store(content)
                self._written = turn
        return self.folder / LABELS

    def _store(self, content: Mapping[str, bytes]) -> None:
        try:
            for name, table in content.items():
                write_atomically(self.folder / name, table)
        except OSError as problem:
            raise UserError(f"{self.folder}: {LABELS} cannot be written ({problem.strerror}); free some room") from None


def _table(desk: Desk, labelled: Mapping[int, str]) -> bytes:
    """Return labelled texts as CSV in UTF-8; all values in quotes, as a lone carriage return is data only there."""
    out = io.StringIO()
    texts = ",".join(Data.pair_columns) if isinstance(desk.heap.texts[0], tuple) else Data.text_column
    out.write(f"{texts},{desk.answers.column},author,time\n")
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for text, label in labelled.items():
        mark = desk.marks.current(text)
        assert mark is not None
        writer.writerow((*parts_of(desk.heap.texts[text]), label, mark.author, mark.time))
    return out.getvalue().encode()
