"""What a log of marks amounts to: the label of each text now, who judged it twice, and what can be taken back."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from greffon.core.json_results import JsonResult
from greffon.labelling.log import Mark


@dataclass(frozen=True)
class Agreement(JsonResult):
    """How far second judgements agree with the first ones."""

    n: int
    """Number of texts that were judged a second time, without a sight of the first label."""
    agreed: int
    """Number of them with the same label both times."""
    kappa: float | None
    """Cohen's kappa, of several labels over all yes and no together; None where chance alone would always agree."""


@dataclass
class Marks:
    """The state after some marks."""

    all: list[Mark] = field(default_factory=list)
    undone: set[int] = field(default_factory=set)
    by_text: dict[int, list[int]] = field(default_factory=dict)
    """Numbers of the marks of each text that were not taken back, oldest first."""
    keys: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, marks: Iterable[Mark]) -> "Marks":
        """Replay a log."""
        made = cls()
        for mark in marks:
            made.add(mark)
        return made

    def add(self, mark: Mark) -> None:
        """Take one more mark into account."""
        number = len(self.all)
        self.all.append(mark)
        if mark.key:
            self.keys[mark.key] = number
        if mark.kind != "undo":
            self.by_text.setdefault(mark.text, []).append(number)
            return
        taken_back = self.all[mark.text]
        self.undone.add(mark.text)
        rest = self.by_text[taken_back.text]
        rest.remove(mark.text)
        if not rest:
            del self.by_text[taken_back.text]

    def current(self, text: int) -> Mark | None:
        """Return the mark that holds for a text now: the last one, but for skipped second judgements."""
        return next((self.all[number] for number in reversed(self.by_text.get(text, ())) if self._holds(number)), None)

    def _holds(self, number: int) -> bool:
        """Whether a mark says what a text is: whoever skips a second judgement leaves the first one as it is."""
        return (self.all[number].kind, self.all[number].source) != ("skip", "again")

    def labels(self) -> dict[int, str]:
        """Return the label of each text that has one, in the order of their first marks."""
        found = {text: self.current(text) for text in self.by_text}
        return {text: mark.label for text, mark in found.items() if mark is not None and mark.kind == "label"}

    def of_kind(self, kind: str) -> list[int]:
        """Return the texts whose mark is of this kind."""
        return [text for text in self.by_text if (mark := self.current(text)) is not None and mark.kind == kind]

    def last_of(self, client: str) -> int | None:
        """Return the number of the last mark that a client can take back."""
        for number in range(len(self.all) - 1, -1, -1):
            mark = self.all[number]
            if mark.client == client and mark.kind != "undo" and number not in self.undone:
                return number
        return None

    def asked_again(self) -> set[int]:
        """Return the texts that somebody was asked for a second time, and answered or skipped."""
        return {
            text
            for text, numbers in self.by_text.items()
            if any(self.all[number].source == "again" for number in numbers)
        }

    def judged_twice(self) -> dict[int, tuple[str, str]]:
        """Return the first label and the blind second one of each text that was judged again."""
        pairs: dict[int, tuple[str, str]] = {}
        for text, numbers in self.by_text.items():
            labels = [self.all[number] for number in numbers if self.all[number].kind == "label"]
            for before, again in itertools.pairwise(labels):
                if again.source == "again":
                    pairs.setdefault(text, (before.label, again.label))
        return pairs

    def agreement(self, decisions: Callable[[str], list[str]]) -> Agreement:
        """Compare first and second judgements; a label may consist of several decisions."""
        pairs = list(self.judged_twice().values())
        agreed = sum(first == second for first, second in pairs)
        decided = [two for first, second in pairs for two in zip(decisions(first), decisions(second), strict=True)]
        return Agreement(len(pairs), agreed, cohen_kappa(decided))


def cohen_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return Cohen's kappa of pairs of labels.

    >>> cohen_kappa([("a", "a"), ("a", "b"), ("b", "b"), ("b", "b")])
    0.5
    """
    if not pairs:
        return None
    n = len(pairs)
    observed = sum(first == second for first, second in pairs) / n
    firsts, seconds = zip(*pairs, strict=True)
    expected = sum(firsts.count(label) * seconds.count(label) for label in set(firsts)) / n**2
    return (observed - expected) / (1 - expected) if expected < 1 else None
