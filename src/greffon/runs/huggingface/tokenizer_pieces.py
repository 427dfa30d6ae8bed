"""SentencePiece tokenizers of translators, read without a tokenizer.json: Marian, M2M100 and mBART."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from greffon.core.errors import UserError
from greffon.core.files import read_json
from greffon.data.languages import Languages
from greffon.data.tokenizer import LARGEST, Tokenizer
from greffon.data.tokenizer_backends import sentencepiece_processor
from greffon.data.tokenizer_imported import imported_marian, imported_shared_pieces
from greffon.runs.huggingface.languages import m2m100_vocabulary, mbart_vocabulary
from greffon.runs.huggingface.tokenizer_roles import complete, first, is_id

PIECES = "sentencepiece.bpe.model"
"""The SentencePiece model that both sides share."""


def read_marian(path: Path, settings: Mapping[str, Any], config: Mapping[str, Any]) -> Tokenizer:
    """Read two SentencePiece models and the vocabulary that they share."""
    if settings.get("separate_vocabs") or (path / "target_vocab.json").is_file():
        raise UserError(f"{path}: separate_vocabs is not supported; only one vocabulary for both sides is")
    for name in ("target.spm", "vocab.json"):
        if not (path / name).is_file():
            raise UserError(f"{path}: the tokenizer lacks {name}; fetch it")
    vocabulary = _vocabulary(path / "vocab.json")
    if "<unk>" not in vocabulary:
        raise UserError(f"{path / 'vocab.json'} has no <unk>; fetch it again")
    named = {"pad": "pad_token_id", "start": "decoder_start_token_id", "end": "eos_token_id"}
    known = {role: config[name] for role, name in named.items() if is_id(config.get(name), vocabulary)}
    if len(known) < len(named):
        missing = [name for role, name in named.items() if role not in known]
        raise UserError(f"{path}: {missing[0]} of config.json is no token of vocab.json; restore the right files")
    roles, absent = complete(known, path)
    sides = [(path / name).read_bytes() for name in ("source.spm", "target.spm")]
    try:
        return Tokenizer(imported_marian(roles, absent, sides[0], sides[1], vocabulary))
    except RuntimeError as error:
        raise UserError(f"{path}: a SentencePiece model is broken ({error}); fetch it again") from None


def _vocabulary(file: Path) -> dict[str, int]:
    """Read a vocab.json; raise a `UserError` if its ids are not numbers of a vocabulary."""
    found = read_json(file)
    if any(type(id) is not int or not 0 <= id < LARGEST for id in found.values()):
        raise UserError(f"{file} has an id that is no number from 0 to {LARGEST:,}; fetch it again")
    return found


def read_m2m100(path: Path, settings: Mapping[str, Any], config: Mapping[str, Any]) -> Tokenizer:
    """Read a SentencePiece model and a vocabulary, behind which stand the language tokens."""
    vocabulary = _vocabulary(path / "vocab.json")
    if not {"<s>", "<pad>", "</s>", "<unk>"} <= vocabulary.keys():
        raise UserError(f"{path / 'vocab.json'} lacks one of <s>, <pad>, </s> and <unk>; fetch it again")
    pieces, languages = m2m100_vocabulary(vocabulary, settings, path)
    return _shared(path, config, (path / PIECES).read_bytes(), pieces, languages)


def read_mbart(path: Path, settings: Mapping[str, Any], config: Mapping[str, Any]) -> Tokenizer:
    """Read a SentencePiece model, whose pieces stand between four special tokens and those of the languages."""
    file = path / PIECES
    model = file.read_bytes()
    try:
        processor = sentencepiece_processor(model)
    except RuntimeError as error:
        raise UserError(f"{file} is broken ({error}); fetch it again") from None
    found = [processor.id_to_piece(id) for id in range(processor.get_piece_size())]
    if found[:3] != ["<unk>", "<s>", "</s>"]:
        raise UserError(f"{file} begins with {', '.join(found[:3])[:60]}, not as an mBART's; fetch it again")
    pieces, languages = mbart_vocabulary(found[3:], settings, config)
    if len(pieces) <= max(pieces.values()):
        raise UserError(f"{file} has a piece with the name of a special token or a language; fetch it again")
    if isinstance(size := config.get("vocab_size"), int) and len(pieces) > size:
        raise UserError(
            f"{path}: the tokenizer has {len(pieces):,} tokens with those of {len(languages.ids)} languages, and the "
            f"model knows {size:,}; restore the files that belong together"
        )
    return _shared(path, config, model, pieces, languages)


def _shared(
    path: Path, config: Mapping[str, Any], model: bytes, pieces: Mapping[str, int], languages: Languages
) -> Tokenizer:
    """Give the tokens of a SentencePiece model for both sides their roles."""
    named = {"pad": "pad_token_id", "start": "decoder_start_token_id", "end": "eos_token_id"}
    usual = {"pad": pieces["<pad>"], "start": pieces["</s>"], "end": pieces["</s>"]}
    ids = {role: first(config.get(name)) for role, name in named.items()}
    known = {**usual, **{role: id for role, id in ids.items() if is_id(id, pieces)}, "cls": pieces["<s>"]}
    if "<mask>" in pieces:
        known |= {"sep": pieces["</s>"], "mask": pieces["<mask>"]}
    roles, absent = complete(known, path)
    try:
        return Tokenizer(imported_shared_pieces(roles, absent, model, pieces, languages))
    except RuntimeError as error:
        raise UserError(f"{path}: the SentencePiece model is broken ({error}); fetch it again") from None
