"""The tokenizer files of a checkpoint, read into a `Tokenizer` and written from one."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from greffon.core.errors import UserError
from greffon.core.files import read_json, write_atomically, write_json
from greffon.core.recipe import Recipe
from greffon.data.tokenizer import ROLES, Tokenizer
from greffon.data.tokenizer_backends import HuggingFace, refuse_impossible_merges
from greffon.data.tokenizer_imported import Imported, Marian, SharedPieces, imported
from greffon.objectives.tasks.pairs import PairTexts
from greffon.runs.huggingface.families import GPT2, M2M100, MARIAN, MBART, ROBERTA
from greffon.runs.huggingface.family import Family
from greffon.runs.huggingface.languages import language_settings, read_languages
from greffon.runs.huggingface.tokenizer_pieces import PIECES, read_m2m100, read_marian, read_mbart
from greffon.runs.huggingface.tokenizer_roles import complete, first, is_id

_THEIR_NAMES = {
    "pad": "pad_token", "start": "bos_token", "end": "eos_token", "cls": "cls_token", "sep": "sep_token",
    "mask": "mask_token",
}  # fmt: skip
_CONFIG_IDS = {"pad": "pad_token_id", "start": "bos_token_id", "end": "eos_token_id"}


# -- reading -----------------------------------------------------------------------------------


def read_tokenizer(path: Path, family: Family, config: Mapping[str, Any]) -> Tokenizer:
    """Read the tokenizer of a checkpoint, and the roles of its special tokens."""
    settings = _settings(path)
    if "auto_map" in settings:
        raise UserError(f"{path}: the tokenizer asks for code of the checkpoint's own, which is never run")
    if family is MARIAN and (path / "source.spm").is_file():
        return read_marian(path, settings, config)
    if family is M2M100 and (path / "vocab.json").is_file() and (path / PIECES).is_file():
        return read_m2m100(path, settings, config)
    if family is MBART and (path / PIECES).is_file() and not (path / "tokenizer.json").is_file():
        return read_mbart(path, settings, config)
    try:
        specification = _specification(path, family, settings)
        refuse_impossible_merges(specification)
        library = tokenizers.Tokenizer.from_str(json.dumps(specification))
        pieces: dict[str, int] = library.get_vocab(with_added_tokens=True)
        around: list[int] = library.encode("", add_special_tokens=True).ids
    except (UserError, KeyboardInterrupt):
        raise
    except BaseException as error:  # the library raises bare Exception, and panics
        raise UserError(
            f"{path}: the tokenizer is broken ({' '.join(str(error).split())[:200]}); fetch it again"
        ) from None
    known: dict[str, int] = {}
    if family.body == "encoder":
        if len(around) not in (0, 2):
            raise UserError(
                f"{path}: the tokenizer puts {len(around)} special tokens around a text, which is not supported "
                "(only one on each side is)"
            )
        if around:
            known |= {"cls": around[0], "sep": around[1]}
    else:
        ids = {role: first(config.get(name)) for role, name in _CONFIG_IDS.items()}
        known |= {role: id for role, id in ids.items() if is_id(id, pieces)}
        if family.body == "encoder-decoder" and is_id(config.get("decoder_start_token_id"), pieces):
            known["start"] = config["decoder_start_token_id"]
    for role, name in _THEIR_NAMES.items():
        token = settings.get(name)
        token = token.get("content") if isinstance(token, dict) else token
        if role not in known and isinstance(token, str) and token in pieces:
            known[role] = pieces[token]
    if family.body == "encoder":
        for role, double in (("start", "cls"), ("end", "sep")):  # texts stand between these two, and no others
            if double in known:
                known.setdefault(role, known[double])
        if not {"cls", "sep", "pad"} <= known.keys():
            known = _by_name(specification) | known
    roles, absent = complete(known, path)
    starts = family.body != "decoder" or around[:1] == [roles["start"]]
    languages = None
    if family in (MBART, M2M100):
        specials = {token["content"] for token in specification.get("added_tokens", [])}
        languages = read_languages(pieces, specials, settings, config)
    return Tokenizer(imported(roles, starts, absent, specification, languages))


def parts_by_one_token(tokenizer: Tokenizer) -> bool:
    """Whether an imported tokenizer lays a pair of texts out as our models read it: with one token between them."""
    backend = tokenizer.backend
    inner = backend.inner if isinstance(backend, Imported) else backend
    around = tokenizers.Tokenizer.from_str(inner.serialised.decode()).encode("", "").ids
    return bool(around == [tokenizer.cls, tokenizer.sep, tokenizer.sep])


def _settings(path: Path) -> dict[str, Any]:
    """Read the settings files of a tokenizer; the newest format takes precedence."""
    found: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (path / name).is_file():
            found |= {key: value for key, value in read_json(path / name).items() if value is not None}
    return found


def _by_name(specification: Mapping[str, Any]) -> dict[str, int]:
    """Find special tokens by their usual names."""
    usual = Tokenizer(HuggingFace(json.dumps(specification).encode()))
    size = len(usual.backend.pieces)
    return {role: id for role in ROLES if (id := getattr(usual, role)) < size}


def _specification(path: Path, family: Family, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of tokenizer.json, or build it from the older files.

    Padding and truncation in the file are those of the batch that was read last before it was saved.
    """
    if (path / "tokenizer.json").is_file():
        return {**read_json(path / "tokenizer.json"), "padding": None, "truncation": None}
    if (path / "vocab.txt").is_file():
        return _wordpiece(path / "vocab.txt", settings)
    if (path / "vocab.json").is_file() and (path / "merges.txt").is_file() and family in (GPT2, ROBERTA):
        return _byte_level(path, family, settings)
    older = {
        "m2m_100": f"{PIECES} and vocab.json", "marian": "source.spm, target.spm and vocab.json",
        "gpt2": "vocab.json and merges.txt", "mbart": PIECES,
    }  # fmt: skip
    usual = "vocab.txt (BERT), or vocab.json and merges.txt (RoBERTa)" if family.body == "encoder" else ""
    other = older.get(family.kind, usual)  # how others cut texts into words, these files do not say
    raise UserError(f"{path} has no whole tokenizer; fetch its tokenizer.json" + (f", or {other}" if other else ""))


def _added(token: Any, usual: str) -> tokenizers.AddedToken:
    if not isinstance(token, dict):
        # RoBERTa's mask carries the space before it.
        return tokenizers.AddedToken(str(token or usual), special=True, normalized=False, lstrip=usual == "<mask>")
    flags = {name: bool(token.get(name, False)) for name in ("lstrip", "rstrip", "single_word", "normalized")}
    return tokenizers.AddedToken(str(token["content"]), special=True, **flags)


def _wordpiece(file: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Build BERT's tokenizer from its list of pieces."""
    pieces = {line.rstrip("\n"): id for id, line in enumerate(file.open(encoding="utf-8"))}
    names = {"unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "pad": "[PAD]", "mask": "[MASK]"}
    tokens = {role: _added(settings.get(f"{role}_token"), usual) for role, usual in names.items()}
    unknown, cls, sep = (tokens[role].content for role in ("unk", "cls", "sep"))
    made = tokenizers.Tokenizer(models.WordPiece(pieces, unk_token=unknown, max_input_chars_per_word=100))
    made.add_special_tokens([token for token in tokens.values() if token.content in pieces])
    made.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        strip_accents=settings.get("strip_accents"),
        lowercase=settings.get("do_lower_case", True),
    )
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece(prefix="##")
    made.post_processor = _around(f"{cls} $A {sep}", f"{cls} $A {sep} $B:1 {sep}:1", pieces)
    content: dict[str, Any] = json.loads(made.to_str())
    return content


def _byte_level(path: Path, family: Family, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Build the tokenizer of GPT-2 or RoBERTa from its pieces and merges."""
    names = {"bos": "<|endoftext|>", "eos": "<|endoftext|>", "unk": "<|endoftext|>"}
    if family.kind == "roberta":
        names = {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "pad": "<pad>",
                 "mask": "<mask>"}  # fmt: skip
    tokens = {role: _added(settings.get(f"{role}_token"), usual) for role, usual in names.items()}
    prefix = bool(settings.get("add_prefix_space", False))
    made = tokenizers.Tokenizer(models.BPE.from_file(str(path / "vocab.json"), str(path / "merges.txt")))
    pieces = made.get_vocab()
    made.add_special_tokens([token for token in tokens.values() if token.content in pieces])
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    made.decoder = decoders.ByteLevel()
    if family.kind == "roberta":
        sep, cls = ((tokens[role].content, pieces[tokens[role].content]) for role in ("sep", "cls"))
        made.post_processor = processors.RobertaProcessing(sep, cls, trim_offsets=True, add_prefix_space=prefix)
    content: dict[str, Any] = json.loads(made.to_str())
    return content


# -- writing -----------------------------------------------------------------------------------


def check_tokenizer(tokenizer: Tokenizer) -> None:
    """Raise a `UserError` for a tokenizer that cannot be exported, before anything is written."""
    if not isinstance(tokenizer.backend, HuggingFace | Imported):
        raise UserError(
            f"a {tokenizer.kind} tokenizer cannot be exported; train the model on one made by `greffon tokenizer`"
        )


def write_tokenizer(tokenizer: Tokenizer, folder: Path, recipe: Recipe) -> None:
    """Write files with which `AutoTokenizer` gives the same ids."""
    backend = tokenizer.backend
    inner = backend.inner if isinstance(backend, Imported) else backend
    settings: dict[str, Any] = {"model_max_length": recipe.shape.context, "clean_up_tokenization_spaces": False}
    names = {id: piece for piece, id in inner.pieces.items()}
    # Their batches need a padding token, even if it is another one's second role.
    shown = [role for role in ROLES if role == "pad" or role not in tokenizer.absent]
    languages = tokenizer.languages
    if isinstance(inner, SharedPieces):
        assert languages is not None
        write_atomically(folder / PIECES, inner.source)
        if languages.style == "m2m100":  # the order of others follows from the model
            theirs = {*languages.ids.values()}
            write_json(folder / "vocab.json", {piece: id for piece, id in inner.pieces.items() if id not in theirs})
    elif isinstance(inner, Marian):
        write_atomically(folder / "source.spm", inner.source)
        write_atomically(folder / "target.spm", inner.target)
        write_json(folder / "vocab.json", inner.pieces)
        ends = {"eos_token": names[tokenizer.end], "pad_token": names[tokenizer.pad], "unk_token": inner.UNKNOWN}
        settings |= {"tokenizer_class": "MarianTokenizer", **ends}
    else:
        content = json.loads(inner.serialised)
        # In ours nothing stands around a text yet; theirs may part two texts otherwise, or count the space to a word.
        if inner is backend or recipe.task in ("pairs", "tokens"):
            _place_specials(content, tokenizer, recipe, inner.pieces)
        if inner is backend:
            _let_mask_take_space(content, tokenizer)
        write_json(folder / "tokenizer.json", content)
        settings |= {"tokenizer_class": "PreTrainedTokenizerFast"}
        settings |= {_THEIR_NAMES[role]: names[getattr(tokenizer, role)] for role in shown}
        if (unknown := content["model"].get("unk_token")) is not None:
            settings["unk_token"] = unknown
        inputs = ["input_ids", "token_type_ids"] if recipe.shape.numbers_texts else ["input_ids"]
        settings["model_input_names"] = [*inputs, "attention_mask"]
    if languages is not None:
        settings |= language_settings(languages) | {"bos_token": names[tokenizer.cls]}
    write_json(folder / "tokenizer_config.json", settings)


def _place_specials(content: dict[str, Any], tokenizer: Tokenizer, recipe: Recipe, pieces: Mapping[str, int]) -> None:
    """Put the special tokens around a text, and between two, where our models expect them."""
    names = {id: piece for piece, id in pieces.items()}
    if recipe.body == "encoder-decoder":
        end = names[tokenizer.end]
        single, pair = f"$A {end}", f"$A {end} $B {end}"
    else:
        texts = PairTexts(recipe, tokenizer)
        before, between, after = ([names[id] for id in ids] for ids in (texts.before, texts.between, texts.after))
        single = " ".join([*before, "$A", *after])
        pair = " ".join([*before, "$A", *between, "$B:1", *(f"{name}:1" for name in after)])
    processor: Any = _around(single, pair, pieces)
    if "ByteLevel" in (pre := json.dumps(content.get("pre_tokenizer"))):  # a word begins after the space before it
        prefix = '"add_prefix_space": true' in pre
        trim = processors.ByteLevel(add_prefix_space=prefix, trim_offsets=True)
        processor = processors.Sequence([trim, processor])
    trial = tokenizers.Tokenizer.from_str(json.dumps(content))
    trial.post_processor = processor
    content["post_processor"] = json.loads(trial.to_str())["post_processor"]


def _let_mask_take_space(content: dict[str, Any], tokenizer: Tokenizer) -> None:
    """Let a mask carry the space before it, as a word does."""
    for token in content["added_tokens"]:
        if token["id"] == tokenizer.mask:
            token["lstrip"] = True


def _around(single: str, pair: str, pieces: Mapping[str, int]) -> processors.TemplateProcessing:
    tokens = {word.split(":")[0] for word in (single + " " + pair).split() if not word.startswith("$")}
    return processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(token, pieces[token]) for token in sorted(tokens)]
    )


def byte_level_specification(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the tokenizer.json of a byte-level BPE tokenizer; raise a `UserError` for any other."""
    check_tokenizer(tokenizer)
    backend = tokenizer.backend
    inner = backend.inner if isinstance(backend, Imported) else backend
    content: dict[str, Any] = {} if isinstance(inner, Marian) else json.loads(inner.serialised)
    model = content.get("model", {})
    if model.get("type") != "BPE" or model.get("byte_fallback") or "ByteLevel" not in json.dumps(content["decoder"]):
        raise UserError("only a tokenizer of byte-level BPE is exported to gguf; this one is another")
    if tokenizer.lowercase:
        raise UserError("a tokenizer that lowercases its text cannot be exported to gguf, which has no such step")
    return content
