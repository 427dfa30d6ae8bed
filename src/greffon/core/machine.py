"""How the process uses the machine: memory that stays mapped, cores, and its place among others."""

import ctypes
import os
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEEP = 2**30
_LARGE = 2**25


def keep_memory() -> bool:
    """Ask glibc to reuse freed memory instead of handing it back to the system.

    A training step frees and asks for the same large buffers again and again; by default each is a
    fresh mapping, and on a CPU the page faults cost more than the arithmetic. The few of 32 MB and more,
    gradients of a large vocabulary, are handed back all the same: kept, they would leave holes that
    smaller ones nibble at. Returns whether the allocator took the advice (it is glibc's; elsewhere
    nothing changes).
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGE)) and bool(mallopt(_M_TRIM_THRESHOLD, _KEEP))


def available_cores() -> int:
    """Count the cores that this process may use, which can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def launched_by_torchrun() -> bool:
    """Say whether a launcher (torchrun, or `--processes`) has started this process as one of several."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def is_main_process() -> bool:
    """Say whether this process is the one that writes and speaks: the first of several, or alone."""
    return not launched_by_torchrun() or os.environ["RANK"] == "0"


def reports_errors() -> bool:
    """Say whether this process tells of what went wrong before the group came together: one on each machine does."""
    return not launched_by_torchrun() or os.environ.get("LOCAL_RANK", os.environ["RANK"]) == "0"
