"""The one exception that a person is meant to read.

`UserError` is for what the user can mend: a missing file, a broken row, an impossible setting.
Its message is one sentence: what is wrong, where, and what to do. The command line prints it and
exits with 1; nothing else in the package catches it. Our own invariants use `assert`.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

MANY, SHOWN, LONG = 1000, 40, 60
"""Choices looked at, choices shown, and their length: a hostile file may have a million columns."""


class UserError(Exception):
    """A mistake in the user's input or data, told in one sentence, on one line whatever it quotes.

    >>> print(UserError("no column 'te\\u2028xt'"))
    no column 'te xt'
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))


class ToldError(Exception):
    """What ended this process has been told by another one of the same training: exit, and say nothing."""

    def __init__(self, code: int) -> None:
        super().__init__(f"another process of this training has told why it ended (exit code {code})")
        self.code = code


def did_you_mean(name: str, choices: Iterable[str]) -> str:
    """Name the nearest of the choices, or all of them: ` (did you mean 'layers'?)`.

    >>> did_you_mean("n_laers", ["n_layers", "hidden_size"])
    "; did you mean 'n_layers'?"
    """
    known = sorted(islice(choices, MANY))
    near = get_close_matches(name[:LONG], [choice for choice in known if len(choice) <= LONG], n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    shown = [choice if len(choice) <= LONG else f"{choice[:LONG]}…" for choice in known[:SHOWN]]
    return f"; choose from {', '.join(shown)}{', …' if len(known) > SHOWN else ''}"


def is_panic(error: BaseException) -> bool:
    """Whether the Rust part of a library panicked: that is no Exception, but no wish to stop either."""
    return type(error).__name__ == "PanicException"
