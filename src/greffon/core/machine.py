"""The process and the machine: memory allocation, cores, and its rank among other processes."""

import os
import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path

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
    import ctypes  # not needed for `import greffon`

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, _LARGE)) and bool(mallopt(_M_TRIM_THRESHOLD, _KEEP))


SPINS = 10_000
"""Number of times that an OpenMP thread looks for more work before it sleeps (libgomp's default is 300,000)."""
_WAITING = {"GOMP_SPINCOUNT": str(SPINS), "KMP_BLOCKTIME": "1"}  # of GNU's OpenMP; milliseconds, of LLVM's and Intel's


def prepare_openmp(environment: MutableMapping[str, str] = os.environ) -> None:
    """Tell OpenMP, before it is loaded with torch, how its threads wait and how many there may be.

    By default a thread that waits for the others spins for milliseconds. If another program needs the core, the
    thread that all wait for does not get it: one busy program then slows training many times. A thread that soon
    sleeps gives its core away. What the user has set in the environment stays.
    """
    if not {"OMP_WAIT_POLICY", *_WAITING} & {*environment}:
        environment.update(_WAITING)
    cores = available_cores()
    if cores < _affinity():  # OpenMP knows the affinity, but no quota
        environment.setdefault("OMP_NUM_THREADS", str(cores))


def available_cores() -> int:
    """Count the cores that this process may use: by its affinity, and by the quotas of its control groups."""
    return max(1, int(min([_affinity(), *_quotas()])))


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quotas(groups: Path = Path("/proc/self/cgroup"), mounted: Path = Path("/sys/fs/cgroup")) -> Iterator[float]:
    """Read the quotas, in cores, of the control groups of this process and of those around them (versions 1 and 2)."""
    for line in _read(groups).splitlines():
        _, controllers, path = line.split(":", 2)
        roots = ["", "unified"] if not controllers else [controllers, "cpu"] if "cpu" in controllers.split(",") else []
        inner = Path(path.lstrip("/"))
        for root in roots:
            for folder in {
                mounted / root / place for place in (inner, *inner.parents)
            }:  # a container sees the root only
                words = _read(folder / "cpu.max").split() or [
                    *_read(folder / "cpu.cfs_quota_us").split(),
                    *_read(folder / "cpu.cfs_period_us").split(),
                ]
                if len(words) == 2 and all(word.isdigit() for word in words) and int(words[1]):  # not "max", not -1
                    yield int(words[0]) / int(words[1])


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except OSError:
        return ""


def launched_by_torchrun() -> bool:
    """Return whether a launcher (torchrun, or `--processes`) has started this process as one of several."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def is_main_process() -> bool:
    """Return whether this process is the one that writes files and messages: the first of several, or the only one."""
    return not launched_by_torchrun() or os.environ["RANK"] == "0"


def reports_errors() -> bool:
    """Return whether this process reports errors before the group is formed: one on each machine does."""
    return not launched_by_torchrun() or os.environ.get("LOCAL_RANK", os.environ["RANK"]) == "0"
