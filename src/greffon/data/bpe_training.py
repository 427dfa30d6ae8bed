"""Train byte-level BPE: the most frequent pair of adjacent tokens is merged into a new token, repeatedly.

The library `tokenizers` does it. If rustbpe is installed and the text is large, rustbpe does it, three times as fast.
Both learn the same tokens, except that they break ties between equally frequent pairs differently. The file that
they write has the same format.
"""

from collections.abc import Iterable

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from greffon.core.errors import UserError, is_panic
from greffon.data.tokenizer_backends import BYTE_OF, LOWER, PATTERN, SPECIALS, HuggingFace, slices

LARGE = 1 << 20
"""Least number of characters for which rustbpe is used."""
MOST = 1 << 26
"""Most characters that are used for training, whatever the vocabulary."""
ENOUGH = 1 << 22
"""Characters that are always used if there are so many, whatever the vocabulary."""
FOR_A_TOKEN = 2048
"""Characters used per token of the vocabulary, between these two limits: more text hardly changes the merges."""
PIECE = 1 << 12
"""Characters of a piece of text; a sample of a large text consists of whole pieces."""
TWICE = 256
"""Extra tokens to ask rustbpe for: it sometimes learns the same token twice, from different pairs."""

_CHARACTER_OF = {byte: character for character, byte in BYTE_OF.items()}


def learn_bpe(texts: Iterable[str], vocab_size: int, *, lowercase: bool = False) -> HuggingFace:
    """Learn at most `vocab_size` ids, special tokens and bytes first; the same texts give the same file."""
    most = min(MOST, max(ENOUGH, FOR_A_TOKEN * vocab_size))
    pieces = _spread((piece for text in texts for piece in slices(text, PIECE)), most)
    if lowercase:
        pieces = [LOWER.normalize_str(piece) for piece in pieces]
    large = sum(map(len, pieces)) >= LARGE
    merges = _swift_merges(pieces, vocab_size - len(SPECIALS) - len(BYTE_OF)) if large else None
    learner = tokenizers.Tokenizer(models.BPE() if merges is None else _model(merges))
    if lowercase:
        learner.normalizer = LOWER
    split = pre_tokenizers.Split(tokenizers.Regex(PATTERN), "isolated")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    learner.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
    learner.decoder = decoders.ByteLevel()
    if merges is None:
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            min_frequency=1,
            special_tokens=list(SPECIALS),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        learner.train_from_iterator(pieces, trainer)
    else:
        learner.add_special_tokens(list(SPECIALS))
    return HuggingFace(learner.to_str().encode())


def _spread(pieces: Iterable[str], most: int) -> list[str]:
    """Return all pieces or, of a very large text, every n-th piece, where n is a power of two."""
    kept: list[str] = []
    size, stride = 0, 1
    for number, piece in enumerate(pieces):
        if number % stride:
            continue
        kept.append(piece)
        size += len(piece)
        while size > most and len(kept) > 1:
            kept, stride = kept[::2], 2 * stride
            size = sum(map(len, kept))
    return kept


def _swift_merges(pieces: Iterable[str], count: int) -> list[tuple[str, str]] | None:
    """Learn `count` merges with rustbpe; return None if it is not installed."""
    try:
        from rustbpe import Tokenizer
    except ImportError:
        return None
    learner = Tokenizer()
    try:
        learner.train_from_iterator(iter(pieces), len(BYTE_OF) + count + TWICE, pattern=PATTERN)
    except BaseException as problem:
        if not is_panic(problem):
            raise
        raise UserError(
            "rustbpe cannot cut the text into words; shorten runs of spaces (a million are too many), or train without "
            "it: pip uninstall rustbpe"
        ) from None
    learnt = [bytes(token) for token, _ in sorted(learner.get_mergeable_ranks(), key=lambda entry: int(entry[1]))]
    ranks: dict[bytes, int] = {token: rank for rank, token in enumerate(learnt[: len(BYTE_OF)])}
    merges: list[tuple[str, str]] = []
    for token in learnt[len(BYTE_OF) :]:
        if token not in ranks and len(merges) < count:
            left, right = _halves(token, ranks)
            merges.append((_characters(left), _characters(right)))
            ranks[token] = len(ranks)
    return merges


def _halves(token: bytes, ranks: dict[bytes, int]) -> list[bytes]:
    """Return the two tokens that were merged into one: the encoding of its bytes by the merges before it."""
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        first = min(range(len(parts) - 1), key=lambda i: ranks.get(parts[i] + parts[i + 1], len(ranks)))
        parts[first : first + 2] = [parts[first] + parts[first + 1]]
    return parts


def _characters(token: bytes) -> str:
    """Return a token in the notation of byte-level vocabularies."""
    return "".join(_CHARACTER_OF[byte] for byte in token)


def _model(merges: list[tuple[str, str]]) -> models.BPE:
    """Return a BPE model: special tokens, bytes and merged tokens, in this order."""
    tokens = (*SPECIALS, *sorted(BYTE_OF), *map("".join, merges))
    return models.BPE(vocab={token: id for id, token in enumerate(tokens)}, merges=merges)
