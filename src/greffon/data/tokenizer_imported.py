"""Tokenizers that came with a checkpoint: kept as they were, with who plays which role there.

A checkpoint says by itself which of its tokens pads, starts and ends, and whether a text begins with a
start token at all. Its vocabulary cannot grow: a role that it lacks is played by another token, and
listed in `absent`.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from greffon.data.languages import Languages
from greffon.data.tokenizer_backends import Backend, HuggingFace, metaspace_bytes, sentencepiece_processor

MARK = b'{"greffon":'
"""How the file of such a tokenizer begins."""


class Imported:
    """Another backend with roles that are known beforehand."""

    kind = "imported"
    file_name = "imported-tokenizer.json"

    def __init__(self, serialised: bytes) -> None:
        self.serialised = serialised
        self.content: dict[str, Any] = json.loads(serialised)
        self.roles: Mapping[str, int] = self.content["roles"]
        self.starts: bool = self.content["starts"]
        self.absent: frozenset[str] = frozenset(self.content["absent"])
        languages = self.content.get("languages")
        self.languages = None if languages is None else Languages(**languages)
        marian, m2m100 = self.content.get("marian"), self.content.get("m2m100")
        self.inner: Backend
        if m2m100 is not None:
            self.inner = SharedPieces(base64.b64decode(m2m100["model"]), m2m100["vocabulary"])
        elif marian is None:
            self.inner = HuggingFace(json.dumps(self.content["tokenizer"]).encode())
        else:
            models = [base64.b64decode(marian[side]) for side in ("source", "target")]
            self.inner = Marian(models[0], models[1], marian["vocabulary"])
        self.pieces, self.specials = self.inner.pieces, {*self.inner.specials}
        if self.languages is not None:
            self.specials |= {*self.languages.ids.values()}
        self.encode_many, self.encode_targets = self.inner.encode_many, self.inner.encode_targets
        self.decode, self.piece_bytes = self.inner.decode, self.inner.piece_bytes


def imported(
    roles: Mapping[str, int],
    starts: bool,
    absent: Sequence[str],
    tokenizer: Mapping[str, Any],
    languages: Languages | None = None,
) -> Imported:
    """Keep a `tokenizer.json` with the roles that its checkpoint names."""
    return _written(roles, starts, absent, {"tokenizer": tokenizer, **_told(languages)})


def imported_shared_pieces(
    roles: Mapping[str, int], absent: Sequence[str], model: bytes, vocabulary: Mapping[str, int], languages: Languages
) -> Imported:
    """Keep the SentencePiece model and the vocabulary of an M2M100 or mBART, its language tokens included."""
    what = {"model": base64.b64encode(model).decode(), "vocabulary": vocabulary}
    return _written(roles, True, absent, {"m2m100": what, **_told(languages)})


def _told(languages: Languages | None) -> dict[str, Any]:
    return {} if languages is None else {"languages": asdict(languages)}


def imported_marian(
    roles: Mapping[str, int], absent: Sequence[str], source: bytes, target: bytes, vocabulary: Mapping[str, int]
) -> Imported:
    """Keep the two SentencePiece models and the vocabulary of a Marian checkpoint."""
    models = {"source": base64.b64encode(source).decode(), "target": base64.b64encode(target).decode()}
    return _written(roles, True, absent, {"marian": {**models, "vocabulary": vocabulary}})


def _written(roles: Mapping[str, int], starts: bool, absent: Sequence[str], what: Mapping[str, Any]) -> Imported:
    content = {"greffon": 1, "roles": dict(roles), "starts": starts, "absent": sorted(absent), **what}
    return Imported(json.dumps(content, ensure_ascii=False, separators=(", ", ":")).encode())


class Marian:
    """Two SentencePiece models, one a side, that share a vocabulary of its own order."""

    kind = "marian"
    file_name = ""
    roles: Mapping[str, int] = {}
    starts = True
    absent: frozenset[str] = frozenset()
    UNKNOWN = "<unk>"
    SPECIALS: tuple[str, ...] = ("</s>", UNKNOWN, "<pad>")

    def __init__(self, source: bytes, target: bytes, vocabulary: dict[str, int]) -> None:
        self.serialised = b""
        self.source, self.target = source, target
        self._sides = [sentencepiece_processor(model) for model in (source, target)]
        self.pieces = vocabulary
        self.specials = {vocabulary[name] for name in self.SPECIALS if name in vocabulary}
        self._names = {id: piece for piece, id in vocabulary.items()}

    def _encode(self, processor: Any, texts: Sequence[str]) -> list[list[int]]:
        codes, bodies = zip(*map(self._parts, texts), strict=True) if texts else ((), ())
        pieces = processor.encode(list(bodies), out_type=str, num_threads=-1)
        unknown = self.pieces[self.UNKNOWN]
        return [
            [self.pieces.get(piece, unknown) for piece in (*code, *found)]
            for code, found in zip(codes, pieces, strict=True)
        ]

    def _parts(self, text: str) -> tuple[list[str], str]:
        """Part ">>fr<<", which tells a many-language Marian where to go, from the text behind it."""
        if text.startswith(">>") and (end := text.find("<<")) != -1:
            return [text[: end + 2]], text[end + 2 :]
        return [], text

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each source text."""
        return self._encode(self._sides[0], texts)

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each target text."""
        return self._encode(self._sides[1], texts)

    def decode(self, ids: list[int]) -> str:
        """The text of ordinary ids of the target side."""
        text: str = self._sides[1].decode_pieces([self._names[id] for id in ids])
        return text.replace("▁", " ").strip()

    def piece_bytes(self, piece: str) -> bytes:
        """The bytes of text that a piece stands for."""
        return metaspace_bytes(piece)


class SharedPieces(Marian):
    """One SentencePiece model for both sides, and a vocabulary with language tokens (M2M100, mBART)."""

    kind = "m2m100"
    SPECIALS = ("<s>", *Marian.SPECIALS, "<mask>")

    def __init__(self, model: bytes, vocabulary: dict[str, int]) -> None:
        super().__init__(model, model, vocabulary)

    def _parts(self, text: str) -> tuple[list[str], str]:
        return [], text
