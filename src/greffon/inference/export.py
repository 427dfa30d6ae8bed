"""Export a run to the format of another library: `greffon.export`."""

from collections.abc import Callable
from pathlib import Path

from greffon.core.errors import UserError, did_you_mean, setting
from greffon.core.settings import takes
from greffon.inference.ctranslate2 import export_ctranslate2
from greffon.runs.export_dir import refuse_old
from greffon.runs.gguf import to_gguf
from greffon.runs.huggingface.export import to_huggingface
from greffon.runs.huggingface.onnx import to_onnx
from greffon.runs.run import Run

TARGETS: dict[str, Callable[..., Path]] = {
    "huggingface": to_huggingface,
    "onnx": to_onnx,
    "gguf": to_gguf,
    "ctranslate2": export_ctranslate2,
}


@takes()
def export(
    run: str | Path | Run, *, to: str, out: str | Path, quantize: str | None = None, force: bool = False
) -> Path:
    """Write a run in the format of another library: `export("runs/body", to="huggingface", out="body-hf")`.

    A translator for CTranslate2 can be stored in 8-bit integers, `quantize="int8"`, and a causal run for llama.cpp
    (gguf) in 16-bit numbers or 8-bit integers: `quantize="f16"`, `quantize="q8_0"`.
    """
    if to not in TARGETS:
        raise UserError(f"cannot export to {to!r}{did_you_mean(to, TARGETS)}")
    if quantize is not None and to not in ("ctranslate2", "gguf"):
        raise UserError(
            f"only exports to ctranslate2 and gguf are quantized; leave out {setting('quantize', quantize)}"
        )
    out = Path(out)
    refuse_old(out, force)
    how = {} if quantize is None else {"quantize": quantize}
    return TARGETS[to](Run.open(run), out, **how)
