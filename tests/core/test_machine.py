"""The cores that may be used, and how OpenMP is prepared before torch loads it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from greffon.core import machine
from greffon.core.machine import SPINS, available_cores, prepare_openmp


def quota(tmp_path: Path, groups: str, files: dict[str, str]) -> list[float]:
    (tmp_path / "cgroup").write_text(groups)
    for name, text in files.items():
        file = tmp_path / "fs" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return list(machine._quotas(tmp_path / "cgroup", tmp_path / "fs"))


@pytest.mark.parametrize(
    ("groups", "files", "cores"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, [1.5]),
        ("0::/\n", {"cpu.max": "max 100000\n"}, []),
        ("0::/a/b\n", {"a/cpu.max": "200000 100000\n", "a/b/cpu.max": "max 100000\n"}, [2.0]),
        ("3:cpu,cpuacct:/docker/x\n", {"cpu,cpuacct/cpu.cfs_quota_us": "50000", "cpu/none": ""}, []),
        (
            "3:cpu,cpuacct:/docker/x\n",  # the path is the host's: a container sees its own group at the root
            {"cpu,cpuacct/cpu.cfs_quota_us": "250000\n", "cpu,cpuacct/cpu.cfs_period_us": "100000\n"},
            [2.5],
        ),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, []),
        ("2:memory:/x\n", {"memory/cpu.max": "100000 100000\n"}, []),
    ],
)
def test_quotas_of_both_versions_are_read(
    tmp_path: Path, groups: str, files: dict[str, str], cores: list[float]
) -> None:
    assert quota(tmp_path, groups, files) == cores


def test_a_quota_is_rounded_down_and_never_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_affinity", lambda: 64)
    for found, cores in (([], 64), ([2.9, 8.0], 2), ([0.5], 1)):
        monkeypatch.setattr(machine, "_quotas", lambda found=found: iter(found))
        assert available_cores() == cores
        environment: dict[str, str] = {}
        prepare_openmp(environment)
        assert environment.get("OMP_NUM_THREADS") == (None if cores == 64 else str(cores))


@pytest.mark.parametrize("own", [{"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "7"}, {"KMP_BLOCKTIME": "0"}])
def test_what_the_user_has_set_stays(own: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_quotas", lambda: iter([0.5]))
    environment = {**own, "OMP_NUM_THREADS": "3"}
    prepare_openmp(environment)
    assert environment == {**own, "OMP_NUM_THREADS": "3"}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="torch for Linux comes with libgomp")
def test_openmp_reads_it_when_torch_is_loaded() -> None:
    environment = {name: value for name, value in os.environ.items() if not re.match("OMP_|GOMP_|KMP_", name)}
    environment["OMP_DISPLAY_ENV"] = "VERBOSE"  # libgomp then prints its settings as it is loaded
    words = [sys.executable, "-c", "import greffon, sys; assert 'torch' not in sys.modules; import torch"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert re.findall(r"GOMP_SPINCOUNT = '(\d+)'", done.stderr)[-1:] == [str(SPINS)]
