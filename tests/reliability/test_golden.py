"""Losses of the first steps of each preset, compared bit for bit.

A change that was not meant to change results fails here. One that was: run
`python tests/reliability/golden.py --record`, and say why in the commit. The losses are computed in a process of
its own, set up so that they come out the same on every CPU of a kind.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from golden import LARGE

from greffon.core.presets import PRESETS

HERE = Path(__file__).parent
RECORDED = json.loads((HERE / "golden.json").read_text())


def test_every_preset_is_recorded() -> None:
    assert {name.partition("/")[0] for name in RECORDED["losses"]} == set(PRESETS) - LARGE


@pytest.mark.skipif(
    torch.__version__.partition("+")[0] != RECORDED["torch"],
    reason=f"golden losses were recorded with torch {RECORDED['torch']}",
)
def test_losses_are_the_recorded_ones_bit_for_bit() -> None:
    found = subprocess.run([sys.executable, HERE / "golden.py"], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout)["losses"] == RECORDED["losses"]
