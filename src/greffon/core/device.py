"""Device, precision and threads of this process, and of those that it starts.

GREFFON_DEVICE and GREFFON_PRECISION name them, and are inherited; `using` sets them for a while.
Untested on real hardware: everything but CPUs.
"""

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from greffon.core.errors import UserError, setting
from greffon.core.settings import Machine

DEVICE, PRECISION = "GREFFON_DEVICE", "GREFFON_PRECISION"


def use(machine: Machine) -> None:
    """Compute with what was asked for until the process ends; what was not asked for stays as it is."""
    for variable, value in ((DEVICE, machine.device), (PRECISION, machine.precision)):
        if value is not None:
            os.environ[variable] = value
    if machine.threads is not None:
        torch.set_num_threads(machine.threads)


@contextmanager
def using(machine: Machine) -> Iterator[None]:
    """Compute with what was asked for, and afterwards as before."""
    threads = torch.get_num_threads()
    try:
        with inheriting({}):
            use(machine)
            yield
    finally:
        if machine.threads is not None:
            torch.set_num_threads(threads)


def inherited() -> dict[str, str]:
    """Return the environment variables by which other processes compute with what was asked for."""
    return {variable: os.environ[variable] for variable in (DEVICE, PRECISION) if variable in os.environ}


@contextmanager
def inheriting(variables: Mapping[str, str]) -> Iterator[None]:
    """Compute with what `inherited` returned in another process, and afterwards as before."""
    before = {variable: os.environ.get(variable) for variable in (DEVICE, PRECISION)}
    try:
        os.environ.update(variables)
        yield
    finally:
        for variable, value in before.items():
            os.environ.pop(variable, None)
            if value is not None:
                os.environ[variable] = value


def asked_device() -> torch.device:
    """Return the device that was asked for ("auto", "cuda", "cuda:1", "mps"), or the CPU."""
    name = os.environ.get(DEVICE) or "cpu"
    there = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if name == "auto":
        name = next((kind for kind in ("cuda", "mps") if there[kind]), "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(
            f"the device is {name!r} ({setting('device')}, or {DEVICE}), which is no device; "
            "choose auto, cpu, cuda or mps"
        ) from None
    if (device.index or 0) >= there.get(device.type, 0):
        raise UserError(
            f"the device is {name} ({setting('device')}, or {DEVICE}), but PyTorch finds no such device here; "
            "choose auto or cpu"
        )
    return device


def asked_precision(device: torch.device) -> torch.dtype:
    """Return the precision of matrix products that was asked for: fp32, or bf16 where the device has it."""
    name = os.environ.get(PRECISION) or "fp32"
    if name not in ("fp32", "bf16"):
        raise UserError(f"{PRECISION} is {name!r}; choose fp32 or bf16")
    if name == "fp32":
        return torch.float32
    if not has_bf16(device.type):
        warnings.warn(
            f"this {device.type} has no arithmetic for bf16, which would only be slower; it computes in fp32",
            stacklevel=2,
        )
        return torch.float32
    return torch.bfloat16


def has_bf16(kind: str) -> bool:
    """Whether a kind of device multiplies bf16 numbers itself."""
    if kind == "cuda":
        return torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
    if kind == "mps":
        return torch.backends.mps.is_available() and torch.backends.mps.is_macos_or_newer(14, 0)
    able = torch.cpu.get_capabilities()
    return any(able.get(name) for name in ("avx512_bf16", "amx_bf16", "bf16"))
