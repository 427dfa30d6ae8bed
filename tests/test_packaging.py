"""The package as others get it: a wheel and an sdist are built, installed elsewhere, and used from there."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
SHIPPED = {
    path.relative_to(SOURCE).as_posix()
    for path in (SOURCE / "greffon").rglob("*")
    if path.is_file() and "__pycache__" not in path.parts
}
"""Every file of the package: modules, py.typed, and what the page serves."""


def run(*words: object, **settings: object) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **settings)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both, without the network: the sdist from the tree, the wheel from the sdist."""
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT)
    return out


def only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def test_the_wheel_holds_the_package_and_its_licence(built: Path) -> None:
    with zipfile.ZipFile(only(built, "*.whl")) as wheel:
        names = set(wheel.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        described = wheel.read(metadata).decode()
    assert {name for name in names if ".dist-info/" not in name} == SHIPPED
    assert "greffon/py.typed" in names
    assert any(name.startswith("greffon/web/static/") for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "Provides-Extra: tensorboard" in described


def test_the_sdist_holds_what_a_build_needs(built: Path) -> None:
    with tarfile.open(only(built, "*.tar.gz")) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {f"src/{name}" for name in SHIPPED} <= names
    assert {"pyproject.toml", "README.md", "LICENSE", "constraints.txt", "tests/test_packaging.py"} <= names
    assert not [name for name in names if name.startswith((".venv", "runs/")) or "__pycache__" in name]


@pytest.mark.parametrize("pattern", ["*.whl", "*.tar.gz"])
def test_what_is_installed_runs(pattern: str, built: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    offline = ("--no-deps", "--no-index", "--no-build-isolation", "--quiet", "--disable-pip-version-check")
    run(sys.executable, "-m", "pip", "install", *offline, "--target", site, only(built, pattern))
    away = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(site)}}
    where = run(sys.executable, "-c", "import greffon; print(greffon.__file__)", **away).strip()
    assert where == str(site / "greffon" / "__init__.py")
    assert "greffon COMMAND --help" in run(sys.executable, "-m", "greffon", "--help", **away)
    assert "total" in run(sys.executable, "-m", "greffon", "params", "--preset", "lab", "--vocab-size", 100, **away)
    assert (site / "greffon" / "py.typed").is_file()
    assert (site / "bin" / "greffon").is_file()
