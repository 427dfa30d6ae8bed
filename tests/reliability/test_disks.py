"""Disks that fill up while a run is trained, or may not be written to."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from survival import FLAGS, losses, pretrain, weights

import greffon
from greffon.cli import run as command
from greffon.runs.run import Run
from greffon.training.loop import fit


@contextmanager
def disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """A small disk of its own."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "greffon-test", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command here, so no small disk")
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_ends_in_a_sentence_and_resuming_is_bit_for_bit(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = pretrain(corpus, tmp_path / "whole")
    capsys.readouterr()
    with disk(tmp_path / "disk", kilobytes=400) as small:
        run = small / "run"
        words = ["pretrain", corpus, "--out", run, "--steps", "12", "--evaluate-every", "4", "--vocab-size", "300"]

        def fill_up(*arguments: Any, **more: Any) -> Any:
            for made in fit(*arguments, **more):
                if made.number == 7 and (run / "checkpoints").exists():  # not while it is timed
                    (small / "ballast").write_bytes(b"x" * (os.statvfs(small).f_bavail * os.statvfs(small).f_frsize))
                yield made

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("greffon.training.trainer.fit", fill_up)
            assert command([str(word) for word in (*words, *FLAGS)]) == 1
        said = capsys.readouterr().err.strip().splitlines()[-1]
        assert "No space left on device" in said
        assert f"greffon resume {run}" in said
        assert "the checkpoint of step 4 is whole" in said
        assert Run.open(run).load_checkpoint()[0]["step"] == 4
        Run.open(run).load_model()
        assert command(["resume", str(run)]) == 1  # still full
        assert "No space left" in capsys.readouterr().err
        (small / "ballast").unlink()
        assert command(["resume", str(run)]) == 0
        assert weights(Run.open(run)) == weights(whole)
        common = losses(whole).keys() & losses(Run.open(run)).keys()
        assert all(losses(whole)[step] == losses(Run.open(run))[step] for step in common)


def test_a_read_only_directory_ends_in_a_sentence(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with disk(tmp_path / "disk", kilobytes=4000) as small:
        run = pretrain(corpus, small / "run", steps=2)
        before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
        subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
        for words in (
            ["resume", run.path, "--extra-steps", "3"],
            ["pretrain", corpus, "--out", small / "new", "--steps", "2"],
        ):
            assert command([str(word) for word in words]) == 1
            assert "Read-only file system" in capsys.readouterr().err
        assert greffon.generate(run.path, "Bonjour", max_new_tokens=2).tokens <= 2
        assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before
