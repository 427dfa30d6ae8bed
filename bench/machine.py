"""What the figures depend on beside the code: cores, threads, versions, and how fast this machine multiplies."""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.harness import ROOT, environment

PACKAGES = (
    "torch",
    "transformers",
    "accelerate",
    "ctranslate2",
    "tokenizers",
    "tiktoken",
    "rustbpe",
    "sentencepiece",
    "sentence-transformers",
    "numpy",
)


def facts(threads: int, folder: Path) -> dict[str, Any]:
    """Describe the machine without naming it; the multiplication is timed in a process of its own."""
    words = [sys.executable, "-m", "bench.machine"]
    made = subprocess.run(words, cwd=ROOT, env=environment(threads, folder), capture_output=True, text=True, check=True)
    return {
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": threads,
        "python": platform.python_version(),
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
        **json.loads(made.stdout),
    }


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether results from two runs may stand in one table: all but the measured speed and the versions is alike."""
    return all(one[name] == other[name] for name in ("processor", "cores", "threads"))


def versions(machine: Mapping[str, Any]) -> dict[str, str]:
    """The versions of Python and of the packages."""
    return {"Python": machine["python"], **machine["versions"]}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def processor() -> str:
    """The processor's model and its widest vector instructions."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    known = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)  # the first core's
    known = {name.strip(): text.strip() for name, text in known.items()}
    vectors = next((name for name in ("avx512f", "avx2", "avx") if name in known.get("flags", "").split()), "")
    return ", ".join(part for part in (known.get("model name", platform.machine()), vectors) if part)


def sgemm_gigaflops(size: int = 2048, seconds: float = 10.0) -> float:
    """The fastest of many products of two square fp32 matrices, in GFLOP/s."""
    import torch

    a, b = torch.randn(size, size), torch.randn(size, size)
    out = torch.empty(size, size)
    best, ending = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < ending or best == float("inf"):
        started = time.perf_counter()
        torch.mm(a, b, out=out)
        best = min(best, time.perf_counter() - started)
    return 2 * size**3 / best / 1e9


if __name__ == "__main__":
    print(json.dumps({"sgemm_gigaflops": round(sgemm_gigaflops(), 1)}))
