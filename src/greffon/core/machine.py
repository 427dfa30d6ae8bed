"""The process and the machine: memory allocation, cores, and its rank among other processes."""

import ctypes
import os
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEEP = 2**30  # free memory that is kept: 1 GB, more than a step of a small model frees
_LARGE = 2**25  # glibc accepts no higher threshold than 32 MB


def keep_memory() -> bool:
    """Ask glibc to reuse freed memory instead of handing it back to the system.

    A training step frees and asks for the same large buffers again and again; by default each is a
    new mapping, and on a CPU the page faults cost more than the arithmetic. Buffers of 32 MB and more, such as
    gradients of a large vocabulary, are still handed back: kept, they would fragment the memory. Returns whether
    the allocator accepted the settings (only glibc's does).
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
    """Return whether a launcher (torchrun, or `--processes`) has started this process as one of several."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def is_main_process() -> bool:
    """Return whether this process is the one that writes files and messages: the first of several, or the only one."""
    return not launched_by_torchrun() or os.environ["RANK"] == "0"


def reports_errors() -> bool:
    """Return whether this process reports errors before the group is formed: one on each machine does."""
    return not launched_by_torchrun() or os.environ.get("LOCAL_RANK", os.environ["RANK"]) == "0"
