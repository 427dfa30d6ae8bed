import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from greffon.core.errors import UserError
from greffon.core.recipe import Data, Recipe
from greffon.core.shape import Shape
from greffon.core.training import Training
from greffon.nn.build import make_model
from greffon.runs.checkpoints import StepName
from greffon.runs.create import room_for
from greffon.runs.params import params
from greffon.runs.run import Run
from greffon.runs.summary import show

RECIPE = Recipe(
    "causal",
    "compact",
    Shape(layers=1, hidden_size=8, heads=2, intermediate_size=8, context=16),
    Training(steps=5),
    Data(),
    30,
)


def make(path: Path, tied: bool = True) -> Run:
    run = Run.create(path / "run", replace(RECIPE, shape=replace(RECIPE.shape, tie_embeddings=tied)))
    run.save_model(make_model(run.recipe), {"loss": 1.5, "step": 3})
    return run


@pytest.mark.parametrize("tied", [True, False])
def test_a_model_comes_back_as_it_was(tmp_path: Path, tied: bool) -> None:
    run = make(tmp_path, tied)
    again = Run.open(run.path)
    assert again.recipe == run.recipe
    assert again.scores == {"loss": 1.5, "step": 3}
    tokens = torch.randint(30, (2, 9))
    torch.testing.assert_close(again.load_model()(tokens), make_model(run.recipe).eval()(tokens), atol=0, rtol=0)
    saved = load_file(run.path / "model.safetensors")
    assert sum(t.numel() for t in saved.values()) == sum(p.numel() for p in make_model(run.recipe).parameters())


@given(st.data())
def test_a_flipped_bit_is_found(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    run = make(tmp_path_factory.mktemp("flip"))
    file = run.path / "model.safetensors"
    content = bytearray(file.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    file.write_bytes(content)
    with pytest.raises(UserError, match="damaged"):
        run.load_model()


def test_checkpoints_come_back_and_old_ones_go(tmp_path: Path) -> None:
    run = make(tmp_path)
    tensors = {"model/a": torch.randn(3), "optimizer/b": torch.tensor(7.0)}
    for step in (4, 12):
        run.save_checkpoint(step, tensors, {"best": {"loss": 2.0}})
    state, found = run.load_checkpoint()
    assert state["step"] == 12
    assert state["best"] == {"loss": 2.0}
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[name], tensors[name]) for name in tensors)
    assert [folder.name for folder in (run.path / "checkpoints").iterdir()] == ["step-000000012"]


def test_a_torn_checkpoint_is_not_used(tmp_path: Path) -> None:
    run = make(tmp_path)
    run.save_checkpoint(4, {"model/a": torch.ones(3)}, {})
    torn = run.path / "checkpoints" / ".step-000000009.123.part"
    torn.mkdir()
    (torn / "tensors.safetensors").write_bytes(b"half")
    assert run.load_checkpoint()[0]["step"] == 4
    run.save_checkpoint(6, {"model/a": torch.ones(3)}, {})
    assert not torn.exists()


def test_metrics_can_be_cut_and_survive_a_torn_line(tmp_path: Path) -> None:
    run = make(tmp_path)
    for step in range(5):
        run.log({"step": step, "loss": 1.0})
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "lo')
    assert [entry["step"] for entry in run.metrics()] == [0, 1, 2, 3, 4]
    run.forget_after(2)
    assert [entry["step"] for entry in run.metrics()] == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("recipe.json", b"{", "cannot read"),
        ("recipe.json", b"[]", "should hold a JSON object"),
        ("recipe.json", b"\xff", "cannot read"),
        ("recipe.json", b"[" * 100_000, "cannot read"),
        ("model.safetensors", b"nonsense", "damaged"),
        ("manifest.json", b"{", "cannot read"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    run = make(tmp_path)
    (run.path / name).write_bytes(content)
    with pytest.raises(UserError) as caught:
        Run.open(run.path).load_model()
    assert said in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize("content", [b"nonsense", b"\xff" * 100, b"", b"\x02\0\0\0\0\0\0\0[]"])
def test_a_run_with_broken_weights_is_not_described(tmp_path: Path, content: bytes) -> None:
    run = make(tmp_path)
    (run.path / "model.safetensors").write_bytes(content)
    for describe in (show, params):
        with pytest.raises(UserError, match=r"cannot read .*model\.safetensors: .*; restore it from a copy"):
            describe(run.path)


def test_weights_of_another_shape_are_refused(tmp_path: Path) -> None:
    run = make(tmp_path)
    recipe = json.loads((run.path / "recipe.json").read_text())
    recipe["shape"]["hidden_size"] = 12
    (run.path / "recipe.json").write_text(json.dumps(recipe))
    with pytest.raises(UserError, match=r"body\.embedding\.weight is \(30, 8\), the recipe says \(30, 12\)"):
        Run.open(run.path).load_model()


def test_a_run_of_another_version_is_refused_in_one_sentence(tmp_path: Path) -> None:
    old = {
        "objective": "causal",
        "preset": "compact",
        "shape": {"layers": 1, "width": 8, "heads": 2, "feed_forward": 16, "context": 8, "tied": True},
        "training": {"steps": 10, "rows": 4, "rate": 0.003, "optimiser": "muon"},
        "data": {"train": ["corpus.txt"]},
        "vocabulary": 30,
    }
    (tmp_path / "recipe.json").write_text(json.dumps(old))
    with pytest.raises(UserError) as caught:
        Run.open(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} was written by an earlier version of Greffon, whose recipes had other names; "
        "train it again with this version, or use the version that made it"
    )
    (tmp_path / "recipe.json").write_text(json.dumps(old | {"format": 99}))
    with pytest.raises(UserError, match="was written by another version of Greffon"):
        Run.open(tmp_path)


def test_checkpoint_names_are_read_and_ordered_by_age() -> None:
    names = ["step-000000009", "step-000000012", "step-000000012.2", "step-000000012.10", "step-1000000000"]
    parsed = [StepName.parse(name) for name in names]
    assert [str(name) for name in parsed] == names
    assert sorted(parsed) == parsed
    for other in ("step-12", ".step-000000012.1.part", "step-000000012.", "step-000000012.x", "manifest"):
        assert StepName.parse(other) is None


def test_no_run_is_told_apart_from_nothing(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no run at"):
        Run.open(tmp_path / "missing")
    with pytest.raises(UserError, match=r"has no recipe\.json"):
        Run.open(tmp_path)


def test_only_our_own_directories_are_ever_removed(tmp_path: Path) -> None:
    run = make(tmp_path)
    with pytest.raises(UserError, match="holds a run already"), room_for(run.path, force=False):
        pass
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"x")
    with pytest.raises(UserError, match="other files in it"), room_for(tmp_path / "photos", force=True):
        pass
    with pytest.raises(UserError, match="is a file"), room_for(tmp_path / "photos" / "a.jpg", force=True):
        pass
    assert (tmp_path / "photos" / "a.jpg").exists()


def test_force_keeps_the_old_run_until_the_new_one_has_weights(tmp_path: Path) -> None:
    run = make(tmp_path)
    before = (run.path / "model.safetensors").read_bytes()

    def fail() -> None:
        with room_for(run.path, force=True) as path:
            Run.create(path, RECIPE)
            raise UserError("bad text")

    with pytest.raises(UserError, match="bad text"):
        fail()
    assert (run.path / "model.safetensors").read_bytes() == before
    with room_for(run.path, force=True) as path:
        again = Run.create(path, replace(RECIPE, training=Training(seed=9)))
        again.save_model(make_model(again.recipe), {})
    assert (run.path / "model.safetensors").read_bytes() != before
    assert [entry.name for entry in tmp_path.iterdir()] == ["run"]
