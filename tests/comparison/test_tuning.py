import json
from pathlib import Path

import numpy as np
import pytest
from in_process import in_process
from tiny import TinyRuns

import greffon
from greffon.comparison import tuning
from greffon.comparison.compare import compare
from greffon.core.errors import UserError
from greffon.runs.run import Run


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyRuns:
    return TinyRuns(tmp_path_factory.mktemp("tuning"))


def test_a_search_that_goes_on_proposes_the_same() -> None:
    def proposals() -> list[dict[str, float]]:
        search, found = tuning._search(), []
        for number in range(8):
            wanted = {name: tuning._distribution(__import__("optuna"), name, *b) for name, b in tuning.SEARCHED.items()}
            trial = search.ask(wanted if number else {})
            found.append(dict(trial.params))
            search.tell(trial, np.sin(sum(trial.params.values())))
        return found

    first = proposals()
    assert first == proposals()
    assert first[0] == {}, "the settings without a search"
    for proposed in first[1:]:
        assert all(low <= proposed[name] <= high for name, (low, high) in tuning.SEARCHED.items())


def test_every_arm_has_the_same_trials_and_the_best_is_trained(
    tiny: TinyRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "TRIALS", 2)

    def tuned() -> greffon.Comparison:
        return compare([tiny.causal], train=tiny.table, out=tmp_path / "out", seeds=1, epochs=1, jobs=1, tune=True)

    with in_process() as done:
        made = tuned()
    assert len(done) == 2 * (2 + 1), "of both bodies two trials, and a training"
    found = {each["arm"]: each for each in json.loads((made.path / "results.json").read_text())["tuning"]}
    assert set(found) == {"scratch", "pretrained", "frozen", "tfidf"}
    assert {each["trials"] for each in found.values()} == {2}
    for name in ("scratch", "pretrained"):
        tried = [Run.open(made.path / "tuning" / name / f"trial-{k}").scores["accuracy"] for k in range(2)]
        assert found[name]["usual"] == tried[0]
        assert found[name]["best"] == max(tried)
        training = Run.open(made.path / "arms" / name / "seed-0").recipe.training
        settings = {key: value for key, value in found[name]["settings"].items() if key != "dropout"}
        assert {key: getattr(training, key) for key in settings} == settings
    assert "Search for settings" in made.report.read_text(encoding="utf-8")
    with in_process() as done:
        assert tuned().results.tuning == made.results.tuning
    assert not done, "nothing is trained again"


def test_a_label_curve_has_no_validation_texts_to_search_on(tiny: TinyRuns, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="give one of them"):
        compare([tiny.causal], train=tiny.table, out=tmp_path / "out", train_sizes=[20], tune=True)
    assert not (tmp_path / "out").exists()
