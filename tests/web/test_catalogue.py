"""What is said of runs and comparisons that are served: of every objective, and of every task."""

from pathlib import Path
from typing import get_args

import pytest
from tiny import TinyRuns

import greffon
from greffon.core.choices import Objective
from greffon.web.catalogue import ABILITIES, Catalogue
from greffon.web.curves import curve
from greffon.web.handlers import ANSWERS


def test_every_objective_has_abilities_that_are_endpoints() -> None:
    assert set(ABILITIES) == set(get_args(Objective))
    assert {ability for abilities in ABILITIES.values() for ability in abilities} <= set(ANSWERS)


def test_bodies_without_a_head_are_listed_beside_the_others(tiny: TinyRuns, tmp_path: Path) -> None:
    contrastive = tiny.body("contrastive", objective="contrastive")
    greffon.export(contrastive, to="huggingface", out=tmp_path / "exported")
    imported = greffon.import_checkpoint(tmp_path / "exported", out=tmp_path / "imported")
    assert imported.recipe.objective == "body"
    served = Catalogue([contrastive, tiny.causal, imported]).describe()
    abilities = {run.name: run.abilities for run in served.runs}
    assert abilities["contrastive"] == abilities["imported"] == ("embed", "attention")
    assert "generate" in abilities["causal"]
    for body in (contrastive, imported):
        assert greffon.embed(body, ["le chat"]).shape == (1, 32)
        assert greffon.attention(body, "le chat").layers == 2


def test_a_comparison_of_scores_is_finished_and_names_its_metric(tiny: TinyRuns, tmp_path: Path) -> None:
    table, out = tmp_path / "scores.csv", tmp_path / "scores"
    table.write_text("text,score\n" + "".join(f"le chat {i} dort,{i % 7}\n" for i in range(60)), encoding="utf-8")
    out.mkdir()
    (out / "comparison.json").write_text("{}", encoding="utf-8")
    (begun,) = Catalogue([out]).describe().comparisons
    assert (begun.verdict, begun.metric, begun.arms) == (None, "", {})
    made = greffon.compare_task([tiny.causal], train=table, out=out, seeds=1, epochs=1, quiet=True, force=True)
    (found,) = Catalogue([out]).describe().comparisons
    assert (found.verdict, found.metric) == (made.results.verdict, "mae")
    assert found.arms == {name: pytest.approx(arm.test_score.mean) for name, arm in made.results.arms.items()}


def test_fitted_numbers_are_no_curves() -> None:
    entry = {"step": 1, "seconds": 1.0, "valid": {"micro_f1": 0.5, "threshold/a": 0.4, "calibration/temperature": 1.1}}
    assert set(curve([entry], 1).valid) == {"micro_f1"}
