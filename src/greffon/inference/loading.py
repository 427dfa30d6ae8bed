"""Load the model of a run, with a cache."""

from functools import lru_cache
from pathlib import Path

import torch

from greffon.core.device import asked_device
from greffon.core.errors import UserError, setting
from greffon.core.machine import keep_memory
from greffon.nn.model import Model
from greffon.nn.quantize import can_quantize_int8
from greffon.runs.folding import fold_temperature
from greffon.runs.run import Run


@lru_cache(maxsize=4)
def _load(path: Path, changed: int, prepacked: bool, int8: bool, device: torch.device) -> Model:
    run = Run.open(path)
    model = fold_temperature(run.load_model(), run.scores).to(device)
    if prepacked:
        model.prepack()
    if int8:
        model.quantize_int8()
    return model


def load(run: Run, *, prepacked: bool = False, int8: bool = False) -> Model:
    """Load the model of a run, or return the cached one if its file has not changed.

    `prepacked` stores the weights of linear layers in the form that is fastest for generation token by token;
    `int8` quantizes them to 8-bit integers.
    """
    device = asked_device()
    if int8 and device.type != "cpu":
        raise UserError(f"8-bit integers are computed on the CPU; leave out {setting('int8')} or {setting('device')}")
    if int8 and not can_quantize_int8():
        raise UserError(f"PyTorch cannot compute in 8-bit integers on this machine; leave out {setting('int8')}")
    keep_memory()
    file = run.path / "model.safetensors"
    changed = file.stat().st_mtime_ns if file.is_file() else 0
    return _load(run.path.resolve(), changed, prepacked, int8, device) if changed else run.load_model()
