"""When two texts are the same."""

import unicodedata


def normal(text: str) -> str:
    """Return the text without what does not make it another one: case, spacing, ways to write an accent.

    >>> normal("A good  Book ") == normal("a good book")
    True
    """
    return " ".join(unicodedata.normalize("NFC", text).split()).casefold()
