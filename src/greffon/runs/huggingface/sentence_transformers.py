"""What makes a checkpoint one of sentence-transformers: modules.json, pooling, the longest text, unit length."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from greffon.core.choices import Pool
from greffon.core.errors import UserError
from greffon.core.files import read_json, read_json_list, write_json
from greffon.core.recipe import Embedding
from greffon.runs.run import Run

MODULES = "modules.json"
_SETTINGS = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
"""Names of the settings of a Transformer: the first is the one that is written, the others are older."""
_ABOUT = "config_sentence_transformers.json"
_POOLS: dict[str, Pool] = {"cls": "cls", "mean": "mean", "lasttoken": "last"}
"""Our poolings by their names."""
_FLAGS = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens", "lasttoken": "pooling_mode_lasttoken"}
"""The names of poolings in older configurations, where each is true or false."""
_OTHER_FLAGS = (
    "pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens", "pooling_mode_weightedmean_tokens",
)  # fmt: skip


def is_cross_encoder(path: Path, config: Mapping[str, Any]) -> bool:
    """Whether a head over whole texts is a `CrossEncoder`, which reads pairs; older versions say so in config.json."""
    if any(config.get(name) is not None for name in ("sentence_transformers", "sbert_ce_default_activation_function")):
        return True
    file = path / _ABOUT
    return file.is_file() and read_json(file).get("model_type") == "CrossEncoder"


def read_embedding(path: Path, context: int, *, lowercase: bool) -> Embedding | None:
    """Read how a checkpoint makes a vector of a text; None if it is not one of sentence-transformers.

    `context` is that of the body, and `lowercase` says whether its tokenizer lowercases all text.
    """
    file = path / MODULES
    if not file.is_file():
        return None
    folders = _modules(file)
    pooling = _pooling(path / folders["Pooling"] / "config.json")
    there = [path / name for name in _SETTINGS if (path / name).is_file()]
    settings = there[0] if there else path / _SETTINGS[0]
    found = read_json(settings) if there else {}
    if found.get("do_lower_case") and not lowercase:
        raise UserError(f"{settings}: do_lower_case is not supported with a tokenizer that keeps upper case")
    longest = _longest(settings, found, "max_seq_length") or _longest_of_tokenizer(path) or context
    prompts = path / _ABOUT
    if prompts.is_file() and (named := read_json(prompts).get("default_prompt_name")) is not None:
        raise UserError(f"{prompts}: default_prompt_name {named!r} is not supported; write the prompt before each text")
    return Embedding(pooling, normalize="Normalize" in folders, max_length=min(longest, context))


def _longest(file: Path, settings: Mapping[str, Any], name: str) -> int | None:
    """Return the number of tokens that are read of a text, if the settings say it."""
    longest = settings.get(name)
    if longest is not None and (type(longest) is not int or longest < 3):
        raise UserError(f"{file}: {name} is {repr(longest)[:60]}; it must be a whole number above 2")
    return longest


def _longest_of_tokenizer(path: Path) -> int | None:
    """Return the limit of the tokenizer, in which newer versions of the package keep `max_seq_length`."""
    file = path / "tokenizer_config.json"
    return _longest(file, read_json(file), "model_max_length") if file.is_file() else None


def _modules(file: Path) -> dict[str, str]:
    """Return the folder of each module; raise a `UserError` for modules that our bodies do not have."""
    folders: dict[str, str] = {}
    for module in read_json_list(file):
        kind = str(module.get("type", "")).rpartition(".")[2] if isinstance(module, dict) else str(module)
        folder = str(module.get("path", "")) if isinstance(module, dict) else ""
        if kind not in ("Transformer", "Pooling", "Normalize") or kind in folders:
            raise UserError(f"{file}: a module {kind[:60]!r} is not supported (Transformer, Pooling, Normalize are)")
        if not re.fullmatch(r"(\w[\w.-]{0,99})?", folder, flags=re.ASCII):
            raise UserError(f"{file} names the folder {folder[:60]!r}, which lies elsewhere; restore it from a copy")
        folders[kind] = folder
    if list(folders)[:2] != ["Transformer", "Pooling"] or folders["Transformer"]:
        raise UserError(f"{file}: only a Transformer beside it, then Pooling, then Normalize are supported")
    return folders


def _pooling(file: Path) -> Pool:
    if not file.is_file():
        raise UserError(f"{file} is missing: how vectors are pooled is not known; fetch it")
    config = read_json(file)
    named = config.get("pooling_mode")
    if named is None:
        named = [name for name, flag in _FLAGS.items() if config.get(flag)]
        named += [flag for flag in _OTHER_FLAGS if config.get(flag)]
    modes = [named] if isinstance(named, str) else named
    if not isinstance(modes, list) or len(modes) != 1 or str(modes[0]) not in _POOLS:
        raise UserError(f"{file}: the pooling {named!r} is not supported; known are {', '.join(_POOLS)}, one at a time")
    return _POOLS[modes[0]]


def write_modules(run: Run, out: Path) -> None:
    """Write beside an exported encoder what `SentenceTransformer` needs to give the vectors of `greffon.embed`."""
    recipe = run.recipe
    made = recipe.embedding or Embedding(max_length=recipe.shape.context)
    kinds = ["Transformer", "Pooling", *["Normalize"] * made.normalize]
    modules = [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": f"sentence_transformers.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    chosen = next(name for name, pool in _POOLS.items() if pool == made.pooling)
    flags = {flag: name == chosen for name, flag in _FLAGS.items()} | dict.fromkeys(_OTHER_FLAGS, False)
    (out / "1_Pooling").mkdir()
    if made.normalize:
        (out / "2_Normalize").mkdir()
    write_json(out / "1_Pooling" / "config.json", {"word_embedding_dimension": recipe.shape.hidden_size, **flags})
    write_json(out / _SETTINGS[0], {"max_seq_length": made.max_length, "do_lower_case": False})
    write_json(
        out / _ABOUT,
        {"prompts": {}, "default_prompt_name": None, "similarity_fn_name": "cosine"},
    )
    write_json(out / MODULES, modules)
