"""The one exception that a person is meant to read, and settings in what it says.

`UserError` is for what the user can mend: a missing file, a broken row, an impossible setting.
Its message is one sentence: what is wrong, where, and what to do. The command line prints it and
exits with 1; nothing else in the package catches it. Our own invariants use `assert`.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

MANY, SHOWN, LONG = 1000, 40, 60
"""Choices looked at, choices shown, and their length: a hostile file may have a million columns."""


_OPEN, _EQUALS, _CLOSE = "\ufdd0\ufdd1\ufdd2"
"""Noncharacters of Unicode, which no text of a user contains."""
_SETTING = re.compile(f"{_OPEN}([^{_EQUALS}{_CLOSE}]*)(?:{_EQUALS}([^{_CLOSE}]*))?{_CLOSE}")

_WRITTEN = {"True": "true", "False": "false"}


def setting(name: str, value: object = None) -> str:
    """Name a setting inside the message of a `UserError`, a `SettingWarning` or `say`, as the reader wrote it.

    >>> mistake = UserError(f"{setting('batch_size')} is 0; choose 1 or more")
    >>> print(mistake)
    batch_size is 0; choose 1 or more
    >>> print(mistake.on_command_line())
    --batch-size is 0; choose 1 or more
    """
    return f"{_OPEN}{name}{'' if value is None else f'{_EQUALS}{value}'}{_CLOSE}"


def option(name: str) -> str:
    """Write a setting as an option of the command line.

    >>> option("batch_size")
    '--batch-size'
    """
    return f"--{name.replace('_', '-')}"


def in_python(message: str) -> str:
    """Write a message for Python, where `setting` becomes the name of a keyword argument."""
    return _SETTING.sub(lambda found: found[1] if found[2] is None else f"{found[1]}={found[2]}", message)


def on_command_line(message: str) -> str:
    """Write a message for the command line, where `setting` becomes an option, with its value after a space."""
    return _SETTING.sub(
        lambda found: (
            option(found[1]) if found[2] is None else f"{option(found[1])} {_WRITTEN.get(found[2], found[2])}"
        ),
        message,
    )


class UserError(Exception):
    """A mistake in the user's input or data, told in one sentence, on one line whatever it quotes.

    >>> print(UserError("no column 'te\\u2028xt'"))
    no column 'te xt'
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))

    def __str__(self) -> str:
        """Return the message for Python."""
        return in_python(self.args[0])

    def on_command_line(self) -> str:
        """Return the message for the command line."""
        return on_command_line(self.args[0])


class SettingWarning(UserWarning):
    """A warning whose message names a setting.

    >>> print(SettingWarning(f"few texts; give {setting('valid')}"))
    few texts; give valid
    """

    def __str__(self) -> str:
        """Return the message for Python."""
        return in_python(self.args[0])


def out_of_range(name: str, value: object, advice: str) -> UserError:
    """Make the error of a setting with an impossible value.

    >>> print(out_of_range("batch_size", 0, "choose 1 or more"))
    batch_size is 0; choose 1 or more
    """
    return UserError(f"{setting(name)} is {value}; {advice}")


def check_at_least(name: str, value: int, least: int) -> None:
    """Refuse a setting below its smallest value."""
    if value < least:
        raise out_of_range(name, value, f"choose {least} or more")


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
