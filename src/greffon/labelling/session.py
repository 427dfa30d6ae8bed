"""A labelling session on the disk, for one process and any number of its threads.

OUT/
  session.json   the body, the labels, how texts are chosen; written before anything else
  texts.jsonl    the texts, a JSON string a line
  vectors.npy    frozen vector of each text, memory-mapped
  clusters.npz   clusters of the vectors
  log.jsonl      every mark, appended and synced before the next text is shown
  labels.csv     texts and labels to train on; `greffon finetune --train` takes it as it is
  aside.csv      texts and labels that were kept aside; never among labels.csv
  .lock          held by the process that labels
"""

import datetime
import threading
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from greffon.core.errors import UserError
from greffon.core.files import COPY
from greffon.labelling.answers import answers_of
from greffon.labelling.desk import Desk, Question
from greffon.labelling.heap import Text
from greffon.labelling.log import Kind, Log, Mark, Source
from greffon.labelling.progress import Progress
from greffon.labelling.storage import LOG, Stored
from greffon.labelling.tables import Tables
from greffon.labelling.worker import Worker

_LONGEST_NAME = 200


class Session:
    """Texts to label, and the labels so far: `greffon.label(...)` makes one, and `with` closes it."""

    def __init__(self, stored: Stored, held: ExitStack, author: str = "") -> None:
        self.path = stored.path
        self.author = author
        self.settings = stored.settings
        self._held = held
        self._change = threading.RLock()
        answers = answers_of(stored.settings.task, stored.settings.labels)
        self.desk = Desk(stored.heap, answers, stored.settings.choosing)
        self._log = Log(stored.path / LOG)
        try:
            self._replay()
        except BaseException:
            self._log.close()
            raise
        self._closed = False
        self._tables = Tables(self.path, self.desk, self._change)
        self._tables.write()
        self._worker = Worker(self.desk, self._change, self._tables, stored.settings.aim)
        self._worker.poke()
        self._finalizer = weakref.finalize(self, Worker.stop, self._worker)

    def _replay(self) -> None:
        for line, mark in enumerate(self._log.marks, start=1):
            problem = self.desk.why_impossible(mark)
            if problem:
                raise UserError(f"{self._log.path}:{line}: this line is damaged ({problem}); {COPY}")
            self.desk.add(mark)

    # -- the two verbs ----------------------------------------------------------------------------

    def next_texts(self, n: int = 1) -> list[Text]:
        """Return the next n texts or pairs to label, the same until they are labelled; fewer if no more are left."""
        if n < 1:
            raise UserError(f"n is {n}; ask for 1 text or more")
        with self._open():
            asked = [self.desk.next(f"python {number}" if number else "") for number in range(n)]
            found = [question.text for question in asked if question is not None]
            if not found and (left := self.desk.take_over("")) is not None:
                found = [left.text]
        return found

    def add(self, text: Text, label: str | Sequence[str], *, author: str | None = None) -> None:
        """Write the label of a text of the session; a second label of a text replaces the first.

        With several labels a text they are a list, which may be empty, or written `food|price`.
        """
        with self._open():
            index = self.desk.number(text)
            asked = self.desk.asked(index)
            self.mark("label", index, label=label, source=asked, author=author)

    def skip(self, text: Text) -> None:
        """Do not ask for this text again."""
        with self._open():
            index = self.desk.number(text)
            self.mark("skip", index, source=self.desk.asked(index))

    def flag(self, text: Text) -> None:
        """Put a text aside as odd: it gets no label."""
        with self._open():
            index = self.desk.number(text)
            self.mark("flag", index, source=self.desk.asked(index))

    def undo(self, client: str = "", key: str = "") -> Question | None:
        """Take back the last mark of a client, and return its text; None where there is nothing to take back."""
        with self._open():
            if key and key in self.desk.marks.keys:
                return self.desk.held(client) or self.desk.next(
                    client
                )  # the client has not heard the answer the first time
            number = self.desk.marks.last_of(client)
            if number is None:
                return None
            before = self.desk.marks.all[number]
            _check_names(client=client, key=key)
            self._write(Mark("undo", number, author=before.author, time=_now(), client=client, key=key))
            return self.desk.lease(client, before.text, before.source)

    # -- marks ------------------------------------------------------------------------------------

    def mark(
        self,
        kind: Kind,
        text: int,
        *,
        label: str | Sequence[str] = "",
        source: Source = "chosen",
        author: str | None = None,
        client: str = "",
        key: str = "",
    ) -> int:
        """Write one mark, and return its number once it is on the disk; a key that was seen writes nothing."""
        author = self.author if author is None else author
        with self._open():
            if key and key in self.desk.marks.keys:
                return self.desk.marks.keys[key]
            if not 0 <= text < len(self.desk.heap):
                raise UserError(f"there is no text {text}; choose 0 to {len(self.desk.heap) - 1}")
            spelled = self.desk.answers.spelled(label) if kind == "label" else ""
            _check_names(author=author, client=client, key=key)
            return self._write(Mark(kind, text, spelled, source, author, _now(), client, key))

    def _write(self, mark: Mark) -> int:
        number = self._log.append(mark)
        self.desk.add(mark)
        self._worker.poke()
        return number

    # -- what is known ----------------------------------------------------------------------------

    def progress(self, wait: bool = True) -> Progress:
        """Say where the labelling stands; without `wait`, as of the last fit that is finished."""
        if wait:
            self._worker.wait()
        with self._open():
            return self._worker.progress

    def labels(self) -> dict[Text, str]:
        """Return the label of each text that has one; several labels as in labels.csv, `food|price`."""
        with self._open():
            return {self.desk.heap.texts[text]: label for text, label in self.desk.marks.labels().items()}

    def export(self) -> Path:
        """Write labels.csv and aside.csv as of now, and return the path of the first."""
        self._open()
        return self._tables.write()

    def tables(self) -> dict[str, bytes]:
        """Return labels.csv and aside.csv as of now, by their names."""
        self._open()
        return self._tables.content()

    # -- opening and closing ----------------------------------------------------------------------

    def _open(self) -> threading.RLock:
        if self._closed:
            again = f"greffon.label(out={str(self.path)!r})"
            raise UserError(f"the session {self.path} is closed; open it again with {again}")
        return self._change

    @property
    def lock(self) -> threading.RLock:
        """Held while several steps must not be interleaved with others."""
        return self._open()

    def close(self) -> None:
        """Write the tables, and let other processes in."""
        with self._change:
            if self._closed:
                return
            self._closed = True
        self._finalizer()
        self._tables.write()
        self._log.close()
        self._held.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Session({str(self.path)!r}, {len(self.desk.marks.labels())} of {len(self.desk.heap)} texts labelled)"


def _check_names(**names: str) -> None:
    for name, value in names.items():
        if len(value) > _LONGEST_NAME or not value.isprintable():
            raise UserError(f"the {name} {value[:20]!r} is too long or not printable; choose a short name")


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
