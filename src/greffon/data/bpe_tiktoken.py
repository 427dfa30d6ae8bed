"""Byte-level BPE by tiktoken, where it is installed: the ids of the `tokenizers` library, several times as fast.

tiktoken joins two neighbours whenever their bytes together are a token; the library, only by a merge that it has
learnt. Both agree if every token is what its own bytes are encoded to. For suppose tiktoken joined x and y, and the
library did not: nothing was joined across the ends of xy before, so given xy alone the library comes to x and y,
too, and stays there, although xy is a token. Tokens that are not what their bytes are encoded to are therefore
left out; the library never comes to them anyway.
"""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import tokenizers

from greffon.core.machine import available_cores

PLAIN = {"type": "BPE", "continuing_subword_prefix": None, "end_of_word_suffix": None, "ignore_merges": False}
"""Settings in `tokenizer.json` of a BPE that only merges bytes."""


class Swift:
    """A fast encoder with the same ids as a tokenizer."""

    def __init__(self, encoding: Any) -> None:
        self._encoding = encoding

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, on all cores."""
        cores = available_cores()
        share = max(1, -(-len(texts) // cores))
        parts = [texts[first : first + share] for first in range(0, len(texts), share)]
        with ThreadPoolExecutor(cores) as pool:
            return [ids for part in pool.map(self._encode, parts) for ids in part]

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._encoding.encode_ordinary(text) for text in texts]


def swift(tokenizer: tokenizers.Tokenizer, pattern: str, byte_of: Mapping[str, int]) -> Swift | None:
    """Set up tiktoken for a byte-level BPE that splits text by `pattern`; return None if its ids would differ."""
    try:
        from tiktoken import Encoding
    except ImportError:
        return None
    model = json.loads(tokenizer.to_str())["model"]  # not the file, which may write its merges in another form
    if any(model.get(name) != value for name, value in PLAIN.items()) or model.get("dropout"):
        return None
    ids = model["vocab"]
    tokens = [*byte_of, *("".join(merge) for merge in model["merges"])]
    learnt = [ids[token] for token in tokens[len(byte_of) :]]
    # Of two tokens the one learnt first must have the lower id; a token learnt twice has no place in that order.
    if learnt != sorted(set(learnt)) or not ids.keys() >= byte_of.keys():
        return None
    ranks = {
        bytes(byte_of[character] for character in token): ids[token]
        for token in tokens
        if [piece.id for piece in tokenizer.model.tokenize(token)] == [ids[token]]
    }
    return Swift(Encoding("greffon", pat_str=pattern, mergeable_ranks=ranks, special_tokens={}))
