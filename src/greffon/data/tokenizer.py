"""Text to token ids and back, exactly.

`Tokenizer.train` learns byte-level BPE: nothing is ever unknown and every Unicode text survives the
round trip, in lower case if that was asked for. `Tokenizer.load` also reads a Hugging Face
`tokenizer.json` or a SentencePiece model. Whatever its origin, a tokenizer knows six roles (padding,
start, end, `[CLS]`, `[SEP]`, `[MASK]`), so that one tokenizer serves every objective. It does not know
files of text, batches or models.
"""

import hashlib
import itertools
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from greffon.core.errors import UserError, is_panic
from greffon.core.files import write_atomically
from greffon.data.bpe_training import learn_bpe
from greffon.data.tokenizer_backends import SPECIALS, Backend, HuggingFace, SentencePiece
from greffon.data.tokenizer_imported import MARK, Imported

ROLES = ("pad", "start", "end", "cls", "sep", "mask")
FILES = (HuggingFace.file_name, SentencePiece.file_name, Imported.file_name)
"""File name of a tokenizer in a folder."""

# The names by which other people's tokenizers call the six roles, the most specific first.
_ROLE_NAMES = (
    ("<pad>", "[PAD]", "<PAD>", "<|pad|>", "<|padding|>"),
    ("<s>", "<bos>", "[BOS]", "<|startoftext|>", "<|begin_of_text|>", "[CLS]", "<|endoftext|>"),
    ("</s>", "<eos>", "[EOS]", "<|end_of_text|>", "[SEP]", "<|endoftext|>"),
    ("[CLS]", "<cls>", "<CLS>", "<s>"),  # RoBERTa and CamemBERT classify on <s>
    ("[SEP]", "<sep>", "<SEP>", "</s>"),
    ("[MASK]", "<mask>", "<MASK>", "<|mask|>"),
)


LARGEST = 1_000_000
"""Largest vocabulary; a larger number is most likely a typing error."""


class Tokenizer:
    """Six roles around a vocabulary of `size` ids.

    >>> tokenizer = Tokenizer.train(["l'homme et l'enfant"], 270)
    >>> tokenizer.decode(tokenizer.encode("Ça va ?"))
    'Ça va ?'
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.kind = backend.kind
        self.digest = hashlib.sha256(backend.serialised).hexdigest()
        self.size = max(backend.pieces.values()) + 1
        # Specials are known by name and stand for no text.
        self._names = {id: piece for piece, id in backend.pieces.items() if id in backend.specials}
        self.starts, self.absent = backend.starts, backend.absent
        self.languages = backend.languages if isinstance(backend, Imported) else None
        roles = [
            self._given(backend.roles[role]) if role in backend.roles else self._role(name, names)
            for role, name, names in zip(ROLES, SPECIALS, _ROLE_NAMES, strict=True)
        ]
        self.pad, self.start, self.end, self.cls, self.sep, self.mask = roles
        self._reserved = frozenset(roles)
        self._bytes = [b""] * self.size
        for piece, id in backend.pieces.items():
            if id not in self._names:
                self._bytes[id] = backend.piece_bytes(piece)
        # Exact for the tokenizers we train; for others, which may drop or add spaces, an estimate.
        self.byte_lengths = np.array([len(piece) for piece in self._bytes], dtype=np.int64)
        self.byte_lengths.setflags(write=False)

    @property
    def lossless(self) -> bool:
        """Whether decoding gives back every text exactly, rare characters and spaces included."""
        return all(self.decode(self.encode(text)) == text for text in ("Où ? Là.", " a  b\n", "☃ \U0001f389 ẞ"))

    @property
    def lowercase(self) -> bool:
        """Whether it converts text to lower case."""
        return self.encode("Été À Paris") == self.encode("été à paris")

    @property
    def backend(self) -> Backend:
        """The library behind it, and its files."""
        return self._backend

    def _given(self, id: int) -> int:
        """Return the id of a special token that the backend defines."""
        self._names[id] = next(piece for piece, number in self._backend.pieces.items() if number == id)
        return id

    def _role(self, name: str, names: Sequence[str]) -> int:
        """Return the id of one special token; a vocabulary without it grows by one."""
        pieces = self._backend.pieces
        known = [name for name in names if name in pieces]
        # A declared special goes first: in a corpus of web pages "<s>" can be an ordinary piece.
        known.sort(key=lambda name: pieces[name] not in self._backend.specials)
        found = known[0] if known else None
        id = self.size if found is None else pieces[found]
        self.size = max(self.size, id + 1)
        self._names[id] = found or name
        return id

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int, *, lowercase: bool = False) -> "Tokenizer":
        """Learn byte-level BPE with `vocab_size` ids, specials included; the texts are streamed.

        With `lowercase` it reads every text in lower case: *Excellent* and *excellent* are one word.
        """
        least = 256 + len(SPECIALS)
        if vocab_size > LARGEST:
            raise UserError(f"a vocabulary of {vocab_size} is beyond reason; choose {LARGEST:,} at most")
        if vocab_size < least:
            raise UserError(
                f"a vocabulary of {vocab_size} is too small: the 256 bytes and the {len(SPECIALS)} special "
                f"tokens already take {least} ids; ask for at least {least}"
            )
        texts = iter(texts)
        first = next((text for text in texts if text), None)
        if first is None:
            raise UserError("there is no text to train a tokenizer on; name files that hold some")
        backend = learn_bpe(_well_formed(itertools.chain([first], texts)), vocab_size, lowercase=lowercase)
        size = len(backend.pieces)
        if size < vocab_size:
            warnings.warn(
                f"the text is too small for a vocabulary of {vocab_size}: the largest possible one, {size}, is taken",
                UserWarning,
                stacklevel=2,
            )
        return cls(backend)

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Read our own file, a Hugging Face tokenizer.json, a SentencePiece .model, or a folder with one."""
        path = Path(path)
        if path.is_dir():
            inside = [path / name for name in FILES]
            found = next((file for file in inside if file.is_file()), None)
            if found is None:
                raise UserError(f"{path}: no tokenizer.json or tokenizer.model in this folder; name another one")
            path = found
        try:
            serialised = path.read_bytes()
        except OSError as error:
            raise UserError(f"{path}: the tokenizer cannot be read ({error.strerror}); check the path") from None
        try:
            return cls._from_bytes(serialised)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None

    @classmethod
    def _from_bytes(cls, serialised: bytes) -> "Tokenizer":
        """Read a tokenizer file of either format; errors of the libraries become a `UserError`."""
        remedy = "give a tokenizer.json, a SentencePiece .model, or train one with `greffon tokenizer`"
        if not serialised.strip():
            raise UserError(f"the tokenizer file is empty; {remedy}")
        backend: Backend
        try:
            if serialised.startswith(MARK):
                backend = Imported(serialised)
            elif serialised.lstrip().startswith(b"{"):
                backend = HuggingFace(serialised)
            elif serialised.startswith(b"\n"):  # the protobuf tag of a model's first piece
                backend = SentencePiece(serialised)
            else:
                raise UserError(f"this is no tokenizer; {remedy}")
        except (UserError, KeyboardInterrupt):
            raise
        except BaseException as error:  # the libraries raise bare Exception and RuntimeError, and panic
            raise UserError(f"the tokenizer is broken or of another kind ({_reason(error)}); {remedy}") from None
        if not backend.pieces:
            raise UserError(f"the tokenizer has an empty vocabulary; {remedy}")
        if max(backend.pieces.values()) >= LARGEST:
            raise UserError(f"the tokenizer has ids beyond {LARGEST:,}; {remedy}")
        return cls(backend)

    def __reduce__(self) -> tuple[object, ...]:
        # The library's own pickling forgets `encode_special_tokens`.
        return Tokenizer._from_bytes, (self._backend.serialised,)

    def save(self, path: Path) -> Path:
        """Write the tokenizer atomically; in a folder, under its usual name."""
        path = Path(path)
        if path.is_dir():
            path = path / self._backend.file_name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, self._backend.serialised)
        except OSError as error:
            raise UserError(
                f"{path}: the tokenizer cannot be written ({error.strerror}); choose another place"
            ) from None
        return path

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; special tokens are neither added nor recognized."""
        return self.encode_many([text])[0]

    def encode_many(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of each text, on all cores."""
        return self._encode(texts, self._backend.encode_many)

    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the ids of target texts; they differ from `encode_many` only for checkpoints with two tokenizers."""
        return self._encode(texts, self._backend.encode_targets)

    def _encode(self, texts: Sequence[str], encode: Callable[[Sequence[str]], list[list[int]]]) -> list[list[int]]:
        for text in texts:
            _refuse_surrogates(text)
        try:
            encoded = encode(texts)
        except BaseException as error:  # a foreign tokenizer without an unknown token, for one
            raise UserError(f"this tokenizer cannot encode the text ({_reason(error)}); train one on it") from None
        for index, ids in enumerate(encoded):
            if not self._reserved.isdisjoint(ids):
                encoded[index] = self._encode_apart(texts[index], encode)
        return encoded

    def _encode_apart(self, text: str, encode: Callable[[Sequence[str]], list[list[int]]]) -> list[int]:
        """Encode a text in which a foreign tokenizer would recognize special tokens: their names are split first."""
        names = "|".join(re.escape(self._names[id]) for id in self._reserved)
        cuts = [0, *(match.start() + 1 for match in re.finditer(names, text)), len(text)]
        parts = [text[begin:stop] for begin, stop in itertools.pairwise(cuts)]
        ids = itertools.chain.from_iterable(encode(parts))
        return [id for id in ids if id not in self._reserved]

    def encode_masked(self, text: str) -> list[int]:
        """Encode a text in which each "[MASK]" is the mask.

        A token carries the space before it, and so does the mask: in "le [MASK] dort" no token is left
        for the space, as in the masked texts of pretraining.
        """
        *before, last = text.split("[MASK]")
        encoded = self.encode_many([*(part.removesuffix(" ") for part in before), last])
        ids = encoded[0]
        for part in encoded[1:]:
            ids += [self.mask, *part]
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of the ids; special tokens are dropped, invalid UTF-8 becomes U+FFFD."""
        return self._backend.decode([int(id) for id in ids if int(id) not in self._names])

    def text(self, ids: Iterable[int]) -> str:
        """Return the text of ids from inside a text: unlike `decode`, it always keeps a space at the beginning."""
        return b"".join(self._bytes[int(id)] for id in ids).decode("utf-8", "replace")

    def piece(self, id: int) -> str:
        """Return the text of one id; that of a special token is empty, part of a character becomes U+FFFD."""
        return self._bytes[id].decode("utf-8", "replace")

    @property
    def names(self) -> list[str]:
        """The unique name of each id in the tokenizer's file, for libraries that take names."""
        known = {id: piece for piece, id in self._backend.pieces.items()} | self._names
        return [known.get(id, f"<unused {id}>") for id in range(self.size)]

    def unwritten(self, vocab_size: int) -> list[int]:
        """Return the ids that a model never writes: special ones but the end, and ids without a token."""
        roles = {self.pad, self.start, self.cls, self.sep, self.mask} - {self.end}
        return sorted(roles | {*range(self.size, vocab_size)})

    @property
    def ordinary(self) -> np.ndarray:
        """The ids of tokens that are not special."""
        return np.flatnonzero(self.byte_lengths)

    def token(self, id: int) -> str:
        r"""One id as a person reads it: " chat", "[MASK]", or "\xc3" for a piece of a character."""
        if not 0 <= id < self.size:
            raise IndexError(f"id {id} is outside the vocabulary of {self.size}")
        return self._names[id] if id in self._names else self._bytes[id].decode("utf-8", "backslashreplace")


def _reason(error: BaseException) -> str:
    """Return the message of a library's error, shortened."""
    if not isinstance(error, Exception) and not is_panic(error):
        raise error
    return str(error).partition("\n")[0][:200]


def _refuse_surrogates(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UserError(
            f"the text holds half a character (lone surrogate U+{ord(text[error.start]):04X} at position "
            f"{error.start}); read its file again as UTF-8"
        ) from None


def _well_formed(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        _refuse_surrogates(text)
        yield text
