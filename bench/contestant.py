"""The process of one contestant: `python -m bench.contestant CONTEST NAME FOLDER [--quick]`."""

import os
import sys
from pathlib import Path

from bench.contests import CONTESTS
from bench.turns import Turns


def main(words: list[str]) -> None:
    """Play one contestant, or (without a name) prepare the files that all of them read."""
    # What a library prints on stdout is no answer: it goes to stderr, and answers have a channel of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    quick = "--quick" in words
    contest_name, name, folder = (word for word in words if word != "--quick")
    contest = CONTESTS[contest_name]
    size = contest.quick if quick else contest.size
    if not name:
        contest.prepare(size, Path(folder))
        return
    turns = Turns(sys.stdin, answers)
    contest.contestants[name](turns, size, Path(folder))
    turns.end()


if __name__ == "__main__":
    main(sys.argv[1:])
