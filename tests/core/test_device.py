from pathlib import Path

import pytest
import torch

from greffon.cli import run as command
from greffon.core.device import asked_device

there = torch.cuda.is_available()


def test_the_cpu_unless_another_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("", "cpu"):
        monkeypatch.setenv("GREFFON_DEVICE", name)
        assert asked_device() == torch.device("cpu")
    monkeypatch.delenv("GREFFON_DEVICE")
    assert asked_device() == torch.device("cpu")


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "meta", "mps:1"])
def test_a_device_that_is_not_here_ends_in_a_sentence(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text.txt"
    text.write_text("le chat dort\n\n" * 200)
    monkeypatch.setenv("GREFFON_DEVICE", name)
    words = ["pretrain", str(text), "--steps", "1", "--vocab-size", "270", "--out", str(tmp_path / "run")]
    assert command(words) == 1
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith(
        f"greffon: GREFFON_DEVICE is {name!r}" if name == "gpu" else f"greffon: GREFFON_DEVICE is {name}"
    )


@pytest.mark.skipif(not there, reason="needs a GPU")
def test_a_gpu_that_is_asked_for_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "text.txt"
    text.write_text("le chat dort\n\n" * 200)
    monkeypatch.setenv("GREFFON_DEVICE", "cuda")
    words = ["pretrain", str(text), "--steps", "3", "--vocab-size", "270", "--out", str(tmp_path / "run")]
    assert command(words) == 0
