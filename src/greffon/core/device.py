"""The device of a single process: the CPU, unless GREFFON_DEVICE names another."""

import os

import torch

from greffon.core.errors import UserError


def asked_device() -> torch.device:
    """Return the device that GREFFON_DEVICE names ("cuda", "cuda:1", "mps"), or the CPU."""
    name = os.environ.get("GREFFON_DEVICE") or "cpu"
    try:
        device = torch.device(name)
    except RuntimeError:
        raise UserError(f"GREFFON_DEVICE is {name!r}, which is no device; set it to cpu, cuda or mps") from None
    there = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if (device.index or 0) >= there.get(device.type, 0):
        raise UserError(
            f"GREFFON_DEVICE is {name}, but PyTorch finds no such device here; unset it to train on the CPU"
        )
    return device
