"""The libraries behind a `Tokenizer`: Hugging Face `tokenizers` and SentencePiece.

A backend turns text into its own ids and back, and says what each of its pieces is. It does not know
the six roles, nor files: that is `tokenizer.py`.
"""

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import tokenizers
from tokenizers import normalizers, pre_tokenizers

from greffon.core.errors import UserError
from greffon.data.bpe_tiktoken import Swift, swift

SPECIALS = ("<pad>", "<s>", "</s>", "[CLS]", "[SEP]", "[MASK]")

# A word keeps the space before it and the apostrophe after it: "l'" + "homme", not "l" + "'" + "homme".
# Some 4 % fewer tokens on French prose than GPT-2's pattern, which only knows English contractions.
PATTERN = r" ?[\p{L}\p{M}]+['’]?| ?\p{N}{1,3}| ?[^\s\p{L}\p{M}\p{N}]+|\s+(?!\S)|\s+"

# The library's own, not Python's: the two differ where a letter's neighbours matter (the last sigma of a word).
LOWER = normalizers.Lowercase()

# The library needs some 130 bytes of memory for a byte of text, so a book is encoded in slices.
SLICE = 1 << 16
# Characters from which on it is worth the while to set the swift encoder up.
MANY = 1 << 18
# Between a word and the space after it PATTERN always breaks, so a cut there changes no token.
_SAFE_CUT = re.compile(r"\w(?=[ \n])")


class Backend(Protocol):
    """What a tokenizer library must offer; `specials` are the ids that stand for no text.

    `roles` are those whose ids are known beforehand; `absent`, those of them that another token plays.
    `starts` says whether a text that is read forward begins with the start token.
    """

    kind: str
    file_name: str
    serialised: bytes
    pieces: dict[str, int]
    specials: set[int]
    roles: Mapping[str, int]
    absent: frozenset[str]
    starts: bool

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, on all cores, without specials."""
        ...

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """The same for the texts to translate into."""
        ...

    def decode(self, ids: list[int]) -> str:
        """The text of ordinary ids."""
        ...

    def piece_bytes(self, piece: str) -> bytes:
        """The bytes of text that a piece stands for."""
        ...


class HuggingFace:
    """A `tokenizer.json`, ours or another's."""

    file_name = "tokenizer.json"
    roles: Mapping[str, int] = {}
    absent: frozenset[str] = frozenset()
    starts = True

    def __init__(self, serialised: bytes) -> None:
        self.serialised = serialised
        specification = json.loads(serialised)
        refuse_impossible_merges(specification)
        self._tokenizer = tokenizers.Tokenizer.from_str(serialised.decode("utf-8"))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        # Not part of the file: "[MASK]" inside a text is six ordinary characters.
        self._tokenizer.encode_special_tokens = True
        self.pieces: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=True)
        added = self._tokenizer.get_added_tokens_decoder()
        self.specials = {id for id, token in added.items() if token.special}
        self._decoder = json.dumps(specification.get("decoder"))
        self.kind = "bpe" if _is_ours(specification) else "tokenizer.json"
        self._lowercase = self._tokenizer.normalizer is not None  # of ours; the library itself sees to it

    @cached_property
    def _swift(self) -> Swift | None:
        return swift(self._tokenizer, PATTERN, BYTE_OF) if self.kind == "bpe" else None

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text; long texts of ours in slices."""
        parts = [slices(text) if self.kind == "bpe" else [text] for text in texts]
        flat = list(itertools.chain.from_iterable(parts))
        if sum(map(len, flat)) >= MANY and self._swift is not None:
            lowered = map(LOWER.normalize_str, flat) if self._lowercase else flat
            encoded = iter(self._swift.encode_many(list(lowered)))
        else:
            batch = self._tokenizer.encode_batch_fast(flat, add_special_tokens=False)
            encoded = iter([encoding.ids for encoding in batch])
        return [list(itertools.chain.from_iterable(itertools.islice(encoded, len(cut)))) for cut in parts]

    encode_targets = encode_many

    def decode(self, ids: list[int]) -> str:
        """The text of ordinary ids."""
        return self._tokenizer.decode(ids)

    def piece_bytes(self, piece: str) -> bytes:
        """The bytes of text that a piece stands for, by the tokenizer's decoder."""
        if "ByteLevel" in self._decoder and all(character in BYTE_OF for character in piece):
            return bytes(BYTE_OF[character] for character in piece)
        if "WordPiece" in self._decoder:
            return (piece.removeprefix("##") if piece.startswith("##") else " " + piece).encode()
        return metaspace_bytes(piece)


class SentencePiece:
    """A SentencePiece `.model`; kept byte for byte."""

    kind = "sentencepiece"
    file_name = "tokenizer.model"
    roles: Mapping[str, int] = {}
    absent: frozenset[str] = frozenset()
    starts = True

    def __init__(self, serialised: bytes) -> None:
        self.serialised = serialised
        self._processor = sentencepiece_processor(serialised)
        ids = range(self._processor.get_piece_size())
        self.pieces: dict[str, int] = {self._processor.id_to_piece(id): id for id in ids}
        self.specials = {id for id in ids if self._processor.is_control(id) or self._processor.is_unknown(id)}

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text."""
        encoded: list[list[int]] = self._processor.encode(list(texts), out_type=int, num_threads=-1)
        return encoded

    encode_targets = encode_many

    def decode(self, ids: list[int]) -> str:
        """The text of ordinary ids."""
        return str(self._processor.decode(ids))

    def piece_bytes(self, piece: str) -> bytes:
        """The bytes of text that a piece stands for."""
        return metaspace_bytes(piece)


def sentencepiece_processor(model: bytes) -> Any:
    """Open a SentencePiece model; raise a `RuntimeError`, as the library does, for a broken one."""
    try:
        from sentencepiece import SentencePieceProcessor
    except ImportError:
        raise UserError(
            "a SentencePiece model needs the sentencepiece package; "
            "install it with: pip install 'greffon[sentencepiece]'"
        ) from None
    if not model:  # the library takes nothing for a model that is yet to come
        raise RuntimeError("it is empty")
    return SentencePieceProcessor(model_proto=model)


def refuse_impossible_merges(specification: dict[str, Any]) -> None:
    """Refuse merges that lack the prefix they should have: the library would end the process over them."""
    model = specification.get("model")
    prefix = model.get("continuing_subword_prefix") if isinstance(model, dict) else None
    merges = model.get("merges") if isinstance(model, dict) else None
    if not isinstance(prefix, str) or not prefix or not isinstance(merges, list):
        return
    for merge in merges:
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if not (isinstance(parts, list) and all(isinstance(p, str) for p in parts) and parts[-1].startswith(prefix)):
            raise ValueError(f"the merge {merge!r} lacks the prefix {prefix!r}")


def _is_ours(specification: dict[str, object]) -> bool:
    """Whether a tokenizer.json was written by `Tokenizer.train`."""
    text = json.dumps(specification.get("pre_tokenizer"))
    added = specification.get("added_tokens")
    names = [token["content"] for token in added] if isinstance(added, list) else []
    ours = json.dumps({"Regex": PATTERN}) in text and "ByteLevel" in json.dumps(specification.get("decoder"))
    return ours and names == list(SPECIALS) and specification.get("normalizer") in (None, {"type": "Lowercase"})


def _byte_alphabet() -> dict[str, int]:
    """The byte behind each character of a byte-level vocabulary.

    A printable byte is its own Latin-1 character; the others took the code points from 256 on, in order.
    """
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    printable = {character: ord(character) for character in alphabet if ord(character) < 256}
    others = sorted(set(range(256)) - set(printable.values()))
    return printable | dict(zip(alphabet[len(printable) :], others, strict=True))


BYTE_OF = _byte_alphabet()


def metaspace_bytes(piece: str) -> bytes:
    """What a SentencePiece piece stands for: "▁le" is " le", "<0xE9>" one byte."""
    if re.fullmatch(r"<0x[0-9A-F]{2}>", piece):
        return bytes([int(piece[3:5], 16)])
    return piece.replace("▁", " ").encode()


def slices(text: str, size: int = SLICE) -> list[str]:
    """Cut a long text where PATTERN breaks anyway; short ones stay whole."""
    cuts = [0]
    while len(text) - cuts[-1] > size and (match := _SAFE_CUT.search(text, cuts[-1] + size)):
        cuts.append(match.end())
    return [text[begin:stop] for begin, stop in itertools.pairwise([*cuts, len(text)])]
