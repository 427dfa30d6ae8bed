"""Read a Hugging Face checkpoint: its configuration and its tensors. Pickle files are never read."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from greffon.core.errors import UserError
from greffon.core.files import read_json
from greffon.runs.huggingface.companions import LICENCES

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
FILES = ("*.json", "*.safetensors", "*.txt", "*.model", "*.spm", "README.md", *LICENCES)
"""Files to download: none that would have to be unpickled or executed."""
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack")


def locate(source: str | Path) -> Path:
    """Return the directory of a checkpoint; `hf:owner/name` or `hf:owner/name@revision` is downloaded first."""
    if not str(source).startswith("hf:"):
        path = Path(source).expanduser()
        if not path.is_dir():
            raise UserError(f"no checkpoint at {path}; give a directory with config.json, or hf:owner/name")
        return _snapshot(path) if (path / "snapshots").is_dir() else path
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise UserError(
            f"{source} needs huggingface_hub; install it with: pip install 'greffon[huggingface]'"
        ) from None
    name, _, revision = str(source).removeprefix("hf:").partition("@")
    try:
        return Path(snapshot_download(name, revision=revision or None, allow_patterns=list(FILES)))
    except Exception as error:  # network, spelling, permission: the hub has an exception for each
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{source}: the download failed ({reason}); check the name and the network") from None


def _snapshot(path: Path) -> Path:
    """Return the newest checkpoint in a folder of the hub's cache (`models--owner--name`)."""
    head = path / "refs" / "main"
    named = head.read_text(encoding="utf-8", errors="replace").strip() if head.is_file() else ""
    there = sorted(folder.name for folder in (path / "snapshots").iterdir() if folder.is_dir())
    chosen = named if named in there else there[0] if len(there) == 1 else None
    if chosen is None:
        some = ", ".join(there[:5]) or "none"
        raise UserError(f"{path} is a cache of several revisions ({some}); name one: {path / 'snapshots'}/REVISION")
    return path / "snapshots" / chosen


def read_config(path: Path) -> dict[str, Any]:
    """Read config.json."""
    file = path / "config.json"
    if not file.is_file():
        raise UserError(f"{path} is no checkpoint: it has no config.json; give a directory with one")
    return read_json(file)


def read_tensors(path: Path, config: dict[str, Any], prefix: str) -> dict[str, Tensor]:
    """Read all tensors, under their current names, from one safetensors file or from several with an index."""
    files = _shards(path) if (path / INDEX).is_file() else [path / WEIGHTS]
    if not files[0].is_file():
        raise UserError(_no_weights(path, config))
    tensors: dict[str, Tensor] = {}
    for file in files:
        try:
            tensors |= load_file(file)
        except (SafetensorError, OSError, ValueError) as problem:
            raise UserError(f"cannot read {file}: {problem}; fetch it again") from None
    tensors = _with_prefix(tensors, prefix)
    # Where a tensor and its alias differ (they are not tied), the alias is the one in use.
    return {_today(name): tensors[name] for name in sorted(tensors, key=lambda name: name in ALIASES)}


def _shards(path: Path) -> list[Path]:
    """Return the files that the index names; raise a `UserError` unless all are there, beside it."""
    index = path / INDEX
    named = read_json(index).get("weight_map")
    if not isinstance(named, dict) or not named or not all(isinstance(name, str) for name in named.values()):
        raise UserError(f"{index}: weight_map must name the file of each tensor; restore it from a copy")
    there = {file.name for file in path.iterdir() if file.is_file()}
    for name in (shards := sorted({*named.values()})):
        if Path(name).name != name or name == "..":
            raise UserError(f"{index} names {name[:200]!r}, which lies elsewhere; restore it from a copy")
        if name not in there:
            raise UserError(f"{path} lacks {name[:200]!r}, which {INDEX} names; fetch it")
    return [path / name for name in shards]


def architecture_of(config: Mapping[str, Any]) -> str | None:
    """Return the class that a checkpoint was saved with, if its configuration names one."""
    named = config.get("architectures")
    first = named[0] if isinstance(named, list) and named else None
    return first if isinstance(first, str) else None


def _no_weights(path: Path, config: dict[str, Any]) -> str:
    pickled = sorted(file.name for pattern in _PICKLED for file in path.glob(pattern))
    if not pickled:
        return f"{path} has no {WEIGHTS}; fetch it, or save the model again with save_pretrained"
    named = architecture_of(config) or ""
    # What config.json says becomes part of a command, so it must be the name of a class and nothing else.
    architecture = named if re.fullmatch(r"[A-Z][A-Za-z0-9]{0,60}", named) else "AutoModel"
    code = (
        f"from transformers import AutoTokenizer as T, {architecture} as M; "
        f"[kind.from_pretrained({str(path)!r}).save_pretrained({f'{path}-safe'!r}) for kind in (M, T)]"
    )
    return (
        f"{path}: the weights are in {pickled[0]}, a format that can run code when it is opened, and is not read; if "
        f"you trust the file, convert it: python -c {shlex.quote(code)}"
    )


def _with_prefix(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Add the prefix of the body to tensors that were saved without a head."""
    if any(name.startswith(prefix) for name in tensors):
        return tensors
    heads = (
        "cls.", "lm_head.", "classifier.", "score.", "vocab_", "pre_classifier.", "final_logits_bias", "embed_out.",
    )  # fmt: skip
    return {name if name.startswith(heads) else prefix + name: tensor for name, tensor in tensors.items()}


ALIASES = {
    "cls.predictions.decoder.bias": "cls.predictions.bias",
    "lm_head.decoder.bias": "lm_head.bias",
    "model.encoder.embed_tokens.weight": "model.shared.weight",
    "model.decoder.embed_tokens.weight": "model.shared.weight",
}
"""Tied tensors, which may be stored under either name."""


def _today(name: str) -> str:
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name))
    return ALIASES.get(name, name)


_WITHOUT_A_PLACE = re.compile(
    r"position_ids$|\.(attn|attention)\.(masked_)?bias$|embed_positions\.weights?$|inv_freq$"  # computed
    r"|^(lm_head|cls\.predictions\.decoder|lm_head\.decoder|vocab_projector|embed_out|decoder)\.weight$"  # tied
)
_UNUSED_HEAD = re.compile(
    r"pooler\.|^cls\.|^lm_head\.|^vocab_|^classifier\.|^pre_classifier\.|^score\.|^embed_out\.|^head\.|^decoder\.|^dense\."
)


def left_over(names: set[str], where: Path) -> list[str]:
    """Return the names of tensors of an unused head; raise a `UserError` for unknown tensors."""
    rest = sorted(name for name in names if not _WITHOUT_A_PLACE.search(name))
    unknown = [name for name in rest if not _UNUSED_HEAD.search(name)]
    if unknown:
        raise UserError(
            f"{where} holds {len(unknown)} tensors that have no place in our bodies, such as {unknown[0]}; "
            "it is not quite of the architecture that it names"
        )
    return rest
