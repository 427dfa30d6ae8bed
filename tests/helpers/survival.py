"""Small runs that are made to fail, and what is compared afterwards."""

from pathlib import Path
from typing import Any

import greffon
from greffon.runs.run import Run

TINY = {
    "layers": 1,
    "hidden_size": 16,
    "heads": 2,
    "intermediate_size": 32,
    "context": 24,
    "batch_size": 4,
    "dropout": 0.1,
}
FLAGS = [word for name, value in TINY.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def pretrain(corpus: Path, out: Path, **more: Any) -> Run:
    settings = {"steps": 12, "evaluate_every": 4, "vocab_size": 300, **TINY, **more}
    return greffon.pretrain([corpus], out=out, quiet=True, **settings)


def weights(run: Run) -> bytes:
    return (run.path / "model.safetensors").read_bytes()


def losses(run: Run) -> dict[int, str]:
    return {e["step"]: e["loss"].hex() for e in run.metrics() if "loss" in e}


class Crash(Exception):  # noqa: N818
    """The power goes."""
