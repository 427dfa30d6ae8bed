"""Language tokens in the tokenizer files of mBART, mBART-50, M2M100 and NLLB, read and written."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from greffon.core.errors import UserError, did_you_mean
from greffon.data.languages import Languages, Style

CLASSES: dict[Style, str] = {
    "mbart": "MBartTokenizer",
    "mbart50": "MBart50Tokenizer",
    "m2m100": "M2M100Tokenizer",
    "nllb": "NllbTokenizer",
    "nllb-legacy": "NllbTokenizer",
}
"""The `transformers` class of each style."""
_M2M100 = """af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr
ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru
sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"""
M2M100_CODES = {"m2m100": tuple(_M2M100.split()), "wmt21": ("en", "ha", "is", "ja", "cs", "ru", "zh", "de")}
"""Languages by their `language_codes`, in the order of their tokens, which follow the vocabulary."""
_MBART = """ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP
nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"""
_MBART50 = f"""{_MBART} af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX
sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"""
_CODE = re.compile(r"[a-z]{2,3}_[A-Z][A-Za-z]{1,3}")


def m2m100_vocabulary(
    vocabulary: Mapping[str, int], settings: Mapping[str, Any], path: Path
) -> tuple[dict[str, int], Languages]:
    """Return the vocabulary of an M2M100 with its language tokens, and its languages."""
    named = str(settings.get("language_codes", "m2m100"))[:60]
    if named not in M2M100_CODES:
        raise UserError(f"{path}: language_codes {named!r} are unknown{did_you_mean(named, M2M100_CODES)}")
    ids = {code: len(vocabulary) + i for i, code in enumerate(M2M100_CODES[named])}
    tokens = {f"__{code}__": id for code, id in ids.items()}
    return {**vocabulary, **tokens}, Languages(ids, "m2m100", *_defaults(ids, settings))


def mbart_vocabulary(
    pieces: Sequence[str], settings: Mapping[str, Any], config: Mapping[str, Any]
) -> tuple[dict[str, int], Languages]:
    """Return the vocabulary of an mBART by the pieces of its SentencePiece model, and its languages."""
    style: Style = "mbart50" if _style(settings, config) == "mbart50" else "mbart"
    codes = (_MBART50 if style == "mbart50" else _MBART).split()
    vocabulary = {token: id for id, token in enumerate(("<s>", "<pad>", "</s>", "<unk>", *pieces, *codes, "<mask>"))}
    ids = {code: vocabulary[code] for code in codes}
    return vocabulary, Languages(ids, style, *_defaults(ids, settings))


def read_languages(
    pieces: Mapping[str, int], specials: set[str], settings: Mapping[str, Any], config: Mapping[str, Any]
) -> Languages | None:
    """Return the languages of an mBART or NLLB; None if its vocabulary has none."""
    known = [name for name in specials if name in pieces and _CODE.fullmatch(name)]
    codes = known or [name for name in pieces if _CODE.fullmatch(name)]
    ids = {name: pieces[name] for name in sorted(codes, key=lambda name: pieces[name])}
    if not ids:
        return None
    return Languages(ids, _style(settings, config), *_defaults(ids, settings))


def _style(settings: Mapping[str, Any], config: Mapping[str, Any]) -> Style:
    """Return the style of the tokenizer class that a checkpoint names, or else of its model."""
    usual = {"mbart": "MBartTokenizer"}.get(str(config.get("model_type")), "NllbTokenizer")
    named = str(settings.get("tokenizer_class") or config.get("tokenizer_class") or usual).removesuffix("Fast")
    style = next((style for style, kind in CLASSES.items() if kind == named), "mbart" if "MBart" in usual else "nllb")
    return "nllb-legacy" if style == "nllb" and settings.get("legacy_behaviour") is True else style


def _defaults(ids: Mapping[str, int], settings: Mapping[str, Any]) -> tuple[str, str]:
    """Return the languages that a tokenizer takes where none is named."""
    source, target = (settings.get(name) for name in ("src_lang", "tgt_lang"))
    return (str(source) if str(source) in ids else "", str(target) if str(target) in ids else "")


def language_settings(languages: Languages) -> dict[str, Any]:
    """Return the settings of a tokenizer_config.json that say where language tokens stand."""
    settings: dict[str, Any] = {"tokenizer_class": CLASSES[languages.style]}
    if languages.style == "m2m100":
        codes = tuple(languages.ids)
        settings["language_codes"] = next(name for name, known in M2M100_CODES.items() if known == codes)
    else:
        settings["extra_special_tokens"] = settings["additional_special_tokens"] = [*languages.ids]
    if languages.style.startswith("nllb"):
        settings["legacy_behaviour"] = languages.after
    sides = {"src_lang": languages.source, "tgt_lang": languages.target}
    return settings | {name: language for name, language in sides.items() if language}
