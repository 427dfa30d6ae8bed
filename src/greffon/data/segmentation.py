"""Beginnings of words and sentences, found in token ids alone.

All lookups are tables over the vocabulary, so that any part of a token store can be segmented without its
text.
"""

from collections.abc import Sequence

import numpy as np

from greffon.data.tokenizer import Tokenizer

_CLOSING = "\"'’”»)]"
_OPENING = "\"'‘“«([—–-"
_ENDS = ".!?…"


class Words:
    """Words in token ids, for whole-word masking and for vectors of words in context."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        texts = _texts(tokenizer)
        # An apostrophe belongs to the word before it: "l'" is one word, "homme" the next.
        self._goes_on = np.array([_inside(text[:1]) or text[:1] in ("'", "’") for text in texts])
        self._open = np.array([_inside(text[-1:]) for text in texts])
        self._space = np.array([text == " " for text in texts])

    def begins(self, tokens: np.ndarray) -> np.ndarray:
        """Mark the tokens that begin a word: (…, T) → (…, T)."""
        out = np.ones(tokens.shape, dtype=bool)
        before, after = tokens[..., :-1], tokens[..., 1:]
        # A space that is a token of its own belongs to the word after it, as it does inside a token.
        out[..., 1:] = ~(self._goes_on[after] & self._open[before] | self._space[before])
        return out


class Sentences:
    """Places at which a document can be split between two sentences.

    A sentence ends at a punctuation mark that is followed by a space and something that can begin a
    sentence, or at a line break. A full stop after a single capital ("M. Hugo") does not end one.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        texts = _texts(tokenizer)
        self._ends = np.array([text.rstrip(_CLOSING)[-1:] in _ENDS and text.rstrip(_CLOSING) != "" for text in texts])
        self._spaced = np.array([text[:1].isspace() for text in texts])
        self._blank = np.array([text.isspace() for text in texts])
        self._capital = np.array([_can_begin(text.strip()[:1]) for text in texts])
        self._line = np.array(["\n" in text for text in texts])
        self._dot = np.array([text == "." for text in texts])
        self._initial = np.array([len(text.strip()) == 1 and text.strip().isupper() for text in texts])

    def cuts(self, tokens: np.ndarray) -> np.ndarray:
        """Return the places, from 1 to len - 1, where a new sentence begins."""
        if len(tokens) < 2:
            return np.empty(0, dtype=np.int64)
        before, after = tokens[:-1], tokens[1:]
        abbreviated = np.zeros(len(before), dtype=bool)
        abbreviated[1:] = self._dot[before[1:]] & self._initial[before[:-1]]
        # A space may be a token of its own; what it stands before is then one further on.
        beyond = np.append(after[1:], after[-1])
        begun = self._capital[np.where(self._blank[after], beyond, after)]
        found = (self._ends[before] & self._spaced[after] & begun & ~abbreviated) | self._line[before]
        return np.flatnonzero(found & ~self._line[after]) + 1


def _texts(tokenizer: Tokenizer) -> Sequence[str]:
    """Return the text of each token; that of special tokens is empty."""
    return [tokenizer.piece(id) for id in range(tokenizer.size)]


def _inside(character: str) -> bool:
    """Return whether a character, or a part of one, can occur inside a word."""
    return character.isalnum() or character == "\N{REPLACEMENT CHARACTER}"


def _can_begin(character: str) -> bool:
    """Return whether a sentence can begin with a character: a capital, a digit or an opening punctuation mark."""
    return character != "" and (character.isupper() or character.isdigit() or character in _OPENING)
