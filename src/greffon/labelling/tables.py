"""The labels as tables: one to train on, one of the texts kept aside."""

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from greffon.core.errors import UserError
from greffon.core.files import write_atomically
from greffon.labelling.desk import Desk

LABELS, ASIDE = "labels.csv", "aside.csv"
_HEADER = ("text", "label", "author", "time")


def write_tables(folder: Path, desk: Desk) -> Path:
    """Write both tables; return the path of the one to train on."""
    tables = {LABELS: desk.training(), ASIDE: desk.aside()}
    try:
        for name, labelled in tables.items():
            write_atomically(folder / name, table(desk, labelled))
    except OSError as problem:
        raise UserError(f"{folder}: {LABELS} cannot be written ({problem.strerror}); free some room") from None
    return folder / LABELS


def table(desk: Desk, labelled: Mapping[int, str]) -> bytes:
    """Return labelled texts as CSV in UTF-8."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_HEADER)
    for text, label in labelled.items():
        mark = desk.marks.current(text)
        assert mark is not None
        writer.writerow((desk.heap.texts[text], label, mark.author, mark.time))
    return out.getvalue().encode()
