"""Where a task leaves the head open, each one is tried on validation, and the best becomes the run's."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tiny import TinyRuns

import greffon
from greffon.core.files import read_json
from greffon.core.rng import generator
from greffon.inference.measures import measure_of
from greffon.runs.run import Run
from greffon.training.stop import Interrupted

ANIMALS, VERBS = ["chat", "chien", "vache", "oiseau"], ["mange", "dort", "court", "chante"]
SETTINGS: dict[str, Any] = {"epochs": 4, "quiet": True, "learning_rate": 0.01, "batch_size": 8}


def pairs(path: Path, count: int) -> Path:
    random, rows = generator(1, path.name), ["text_a,text_b,label"]
    for _ in range(count):
        animal, verb = ANIMALS[random.integers(4)], VERBS[random.integers(4)]
        other = animal if random.integers(2) else ANIMALS[random.integers(4)]
        rows.append(f"le {animal} {verb},un {other},{'same' if animal == other else 'other'}")
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("trials")
    return {name: pairs(folder / f"{name}.csv", count) for name, count in (("train", 64), ("valid", 32), ("test", 24))}


@pytest.fixture(scope="module")
def chosen(files: dict[str, Path], tiny: TinyRuns, tmp_path_factory: pytest.TempPathFactory) -> Run:
    out = tmp_path_factory.mktemp("chosen") / "run"
    return greffon.finetune(tiny.causal, train=files["train"], valid=files["valid"], out=out, **SETTINGS)


def test_the_head_with_the_best_validation_score_is_trained(
    chosen: Run, files: dict[str, Path], tiny: TinyRuns, tmp_path: Path
) -> None:
    made, recipe = read_json(chosen.path / "trials.json"), chosen.recipe
    assert (set(made["scores"]), made["epochs"], made["folds"]) == ({"towers", "cross"}, 2, 0)
    key = measure_of(recipe).key
    assert made["chosen"] == max(made["scores"], key=lambda name: key(made["scores"][name]))
    assert recipe.graft == recipe.tried[made["chosen"]]
    assert recipe.graft is not None
    assert recipe.graft.pair_reading == made["chosen"]
    asked = greffon.finetune(
        tiny.causal,
        train=files["train"],
        valid=files["valid"],
        out=tmp_path / "asked",
        pair_reading=made["chosen"],
        **SETTINGS,
    )
    assert (asked.path / "model.safetensors").read_bytes() == (chosen.path / "model.safetensors").read_bytes()
    assert not (asked.path / "trials").exists()
    assert asked.recipe.tried == {}


def test_test_texts_are_not_asked(chosen: Run, files: dict[str, Path], tiny: TinyRuns, tmp_path: Path) -> None:
    run = greffon.finetune(
        tiny.causal, train=files["train"], valid=files["valid"], test=files["test"], out=tmp_path / "run", **SETTINGS
    )
    assert read_json(run.path / "trials.json") == read_json(chosen.path / "trials.json")
    assert "test_accuracy" in run.scores
    for name in ("towers", "cross"):
        told = (run.path / "trials" / name / "metrics.jsonl").read_text(encoding="utf-8")
        assert "valid" in told
        assert "test_" not in told


@pytest.mark.parametrize("looks", [3, 20, 40])
def test_a_stopped_run_ends_bit_for_bit_as_if_it_had_not_been(
    looks: int, chosen: Run, files: dict[str, Path], tiny: TinyRuns, tmp_path: Path
) -> None:
    """It is stopped in the first trial, in the second one, and after both."""
    looked = 0

    class Stop:
        @property
        def asked(self) -> bool:
            nonlocal looked
            looked += 1
            return looked > looks

    @contextmanager
    def stop_signals() -> Iterator[Stop]:
        yield Stop()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("greffon.training.train.stop_signals", stop_signals)
        with pytest.raises(Interrupted) as stopped:
            greffon.finetune(tiny.causal, train=files["train"], valid=files["valid"], out=tmp_path / "cut", **SETTINGS)
    assert stopped.value.how == f"greffon resume {tmp_path / 'cut'}"
    assert (tmp_path / "cut" / "trials.json").exists() == (looks == 40)
    run = greffon.resume(tmp_path / "cut", quiet=True)
    assert read_json(run.path / "trials.json") == read_json(chosen.path / "trials.json")
    assert (run.path / "model.safetensors").read_bytes() == (chosen.path / "model.safetensors").read_bytes()


def test_without_validation_texts_folds_judge(
    files: dict[str, Path], tiny: TinyRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = greffon.finetune(tiny.causal, train=files["train"], out=tmp_path / "run", **{**SETTINGS, "quiet": False})
    made = read_json(run.path / "trials.json")
    assert (made["folds"], set(made["scores"])) == (5, {"towers", "cross"})
    assert f"head: {made['chosen']}, chosen on 5 folds of the training texts after 2 epochs" in capsys.readouterr().err
    left = {path.name for path in (run.path / "trials").rglob("*") if path.is_file()}
    assert left <= {"recipe.json", "metrics.jsonl", "finished"}


def test_nothing_is_tried_where_one_head_is_left(files: dict[str, Path], tiny: TinyRuns, tmp_path: Path) -> None:
    run = greffon.finetune(
        tiny.causal,
        train=files["train"],
        valid=files["valid"],
        out=tmp_path / "run",
        long_texts="windows",  # which a pair that is read as one text does not have
        pair_reading="auto",
        **{**SETTINGS, "epochs": 1},
    )
    assert run.recipe.graft is not None
    assert run.recipe.graft.pair_reading == "towers"
    assert not (run.path / "trials.json").exists()


def test_where_nothing_can_be_held_out_the_first_head_is_taken(
    tiny: TinyRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"le {animal} dort,un {animal},{i}" for i, animal in enumerate(ANIMALS)]
    file = tmp_path / "few.csv"
    file.write_text("\n".join(["text_a,text_b,score", *rows]) + "\n", encoding="utf-8")
    run = greffon.finetune(tiny.causal, train=file, out=tmp_path / "run", **{**SETTINGS, "quiet": False})
    assert read_json(run.path / "trials.json")["scores"] == {}
    assert "head: towers; too few texts to try towers and cross on" in capsys.readouterr().err
