"""The labelling itself, in memory: what was marked, what is asked next. Knows no files, threads or pages.

The session on disk, the page and the simulation all go through this one class.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from greffon.core.errors import UserError
from greffon.core.json_results import JsonResult
from greffon.core.rng import generator
from greffon.labelling.answers import OneClass
from greffon.labelling.fit import Fit, fit
from greffon.labelling.heap import Heap, Text, whole
from greffon.labelling.log import Mark, Source
from greffon.labelling.marks import Marks
from greffon.labelling.strategy import Choosing, pick

_ASKED = ("aside", "random", "uncertain", "diverse")
"""Sources of texts that the desk chose."""


@dataclass(frozen=True)
class Question(JsonResult):
    """A text to judge."""

    index: int
    text: Text
    source: Source


class Desk:
    """Texts, marks, and the latest fit."""

    def __init__(self, heap: Heap, answers: OneClass, choosing: Choosing) -> None:
        self.heap = heap
        self.answers = answers
        self.choosing = choosing
        self.marks = Marks()
        self.fit: Fit | None = None
        self.aside_order = heap.aside(choosing.aside_share)
        self.is_aside = np.isin(heap.groups, self.aside_order)
        self._aside_turn = {int(text): turn for turn, text in enumerate(self.aside_order)}
        self._free = (heap.groups >= 0) & ~self.is_aside
        self._members: dict[int, list[int]] = {}
        for text in np.flatnonzero(heap.groups != np.arange(len(heap))):
            self._members.setdefault(int(heap.groups[text]), []).append(int(text))
        self._leases: dict[str, Question] = {}
        self._asked = 0
        self._seen: list[int] = []

    # -- marks ---------------------------------------------------------------------------------

    def add(self, mark: Mark) -> None:
        """Take a mark into account."""
        self.marks.add(mark)
        taken_back = self.marks.all[mark.text] if mark.kind == "undo" else mark
        self._asked += (taken_back.source in _ASKED) * (-1 if mark.kind == "undo" else 1)
        text = taken_back.text
        self._leases = {client: asked for client, asked in self._leases.items() if asked.index != text}
        if self.is_aside[text]:
            return
        group = self._group(text)
        self._free[group] = all(self.marks.current(member) is None for member in group)
        if self.marks.current(text) is None:
            if text in self._seen:
                self._seen.remove(text)
        elif text not in self._seen:
            self._seen.append(text)

    def why_impossible(self, mark: Mark) -> str:
        """Say why a mark cannot have been made after those so far; empty if it can."""
        if mark.kind == "undo":
            there = 0 <= mark.text < len(self.marks.all) and self.marks.all[mark.text].kind != "undo"
            if not there or mark.text in self.marks.undone:
                return f"there is no mark {mark.text} to take back"
        elif not 0 <= mark.text < len(self.heap):
            return f"there is no text {mark.text}"
        elif mark.kind == "label":
            try:
                if self.answers.spelled(mark.label) != mark.label:
                    return f"the labels {mark.label!r} are not in order"
            except UserError as problem:
                return f"{problem}"
        return ""

    def _group(self, text: int) -> list[int]:
        first = int(self.heap.groups[text])
        return [text] if first < 0 else [first, *self._members.get(first, ())]

    # -- questions -----------------------------------------------------------------------------

    def next(self, client: str = "") -> Question | None:
        """Return the text that a client is to judge; the same one until it is marked. None: nothing is left."""
        held = self._leases.get(client)
        if held is None or held.source == "again":
            self.release(client)
            held = self._choose()
            if held is not None:
                self._leases[client] = held
        return held

    def take_over(self, client: str) -> Question | None:
        """Give a client the text that another one was asked first and has not answered: its tab may be closed."""
        waiting = [asked for other, asked in self._leases.items() if other != client and asked.source != "again"]
        return self.lease(client, waiting[0].index, waiting[0].source) if waiting else None

    def held(self, client: str) -> Question | None:
        """Return what a client was asked and has not answered."""
        return self._leases.get(client)

    def holds(self, client: str, text: int) -> bool:
        """Whether a client was asked for a text, or has taken its mark back, and has not answered."""
        held = self._leases.get(client)
        return held is not None and held.index == text

    def lease(self, client: str, text: int, source: Source) -> Question:
        """Give a client a text of its own choice, or one that was taken back."""
        self._leases = {other: asked for other, asked in self._leases.items() if asked.index != text}
        self._leases[client] = Question(text, self.heap.texts[text], source)
        return self._leases[client]

    def release(self, client: str) -> None:
        """Forget what a client was asked."""
        self._leases.pop(client, None)

    def asked(self, text: int) -> Source:
        """Return how a text came to be judged: as it was asked, or by the person's own choice."""
        return next((asked.source for asked in self._leases.values() if asked.index == text), "chosen")

    def again(self, client: str = "", author: str = "") -> Question | None:
        """Return a random labelled text for a second judgement, one of another author if there is any.

        It stays the client's until it is marked; at the end, what others were asked and have not answered is handed on.
        """
        held = self._leases.get(client)
        if held is not None and held.source == "again":
            return held
        self.release(client)
        done = self.marks.asked_again()
        open_ = [text for text in self.marks.labels() if text not in done]
        leased = [asked.index for asked in self._leases.values()]
        free = [text for text in open_ if text not in leased]
        others = [text for text in free if (mark := self.marks.current(text)) is not None and mark.author != author]
        choice = others or free or [text for text in leased if text in open_][:1]
        if not choice:
            return None
        turn = len(done) + len(leased)
        return self.lease(client, int(generator(self.heap.seed, "again", turn).choice(choice)), "again")

    def _choose(self) -> Question | None:
        number = self._asked + sum(asked.source in _ASKED for asked in self._leases.values())
        leased = [asked.index for asked in self._leases.values()]
        aside = self._next_aside(leased)
        free = self._free.copy()
        for text in leased:
            free[self._group(text)] = False
        source = self.choosing.source(self.heap.seed, number)
        if not free.any() or (source == "aside" and aside is not None):
            return None if aside is None else Question(aside, self.heap.texts[aside], "aside")
        ready = self.fit is not None and self.fit.labels >= self.choosing.cold_start(len(self.answers.labels))
        if source in ("aside", "uncertain") and not ready:
            source = "diverse" if self.choosing.strategy != "random" else "random"
        elif source == "aside":
            source = "random"
        margins = self.fit.margins if self.fit is not None else None
        waiting = (text for text in leased if not self.is_aside[text] and text not in self._seen)
        seen = np.array([*self._seen, *waiting], np.int64)
        text = pick(self.heap, source, free, seen, margins, number)
        return Question(text, self.heap.texts[text], source)

    def _next_aside(self, leased: Sequence[int]) -> int | None:
        """Return the first text of the order that is neither marked nor being judged."""
        for text in self.aside_order:
            if self.marks.current(int(text)) is None and int(text) not in leased:
                return int(text)
        return None

    # -- what is known -------------------------------------------------------------------------

    def training(self) -> dict[int, str]:
        """Return the labels that a model may be trained on, in the order in which they were given."""
        return {text: label for text, label in self.marks.labels().items() if not self.is_aside[text]}

    def aside(self) -> dict[int, str]:
        """Return the labels that judge a model: those of the texts kept aside whose turn has come."""
        turns = [
            self._aside_turn[mark.text]
            for number, mark in enumerate(self.marks.all)
            if mark.source == "aside" and mark.kind != "undo" and number not in self.marks.undone
        ]
        reached = max(turns, default=-1)
        labels = self.marks.labels()
        return {text: labels[text] for text in map(int, self.aside_order[: reached + 1]) if text in labels}

    def refit(self) -> Fit | None:
        """Fit a probe to the labels so far; None while all are the same."""
        return fit(self.heap, self.training(), self.answers)

    def number(self, text: Text) -> int:
        """Return the index of a text of the heap."""
        text = text if isinstance(text, str) else (text[0], text[1])
        if text not in self.heap.index:
            raise UserError(f"the text {whole(text)[:60]!r} is not among the texts of this session; label one that is")
        return self.heap.index[text]
