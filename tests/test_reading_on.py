"""Classifiers that read on while they learn, on bodies of every kind: what is carried over, kept and resumed."""

import json
import math
from itertools import pairwise
from pathlib import Path

import pytest
import torch

import greffon
from greffon.assembly import training_model
from greffon.errors import UserError
from greffon.experiment import scratches
from greffon.finetuning import graft_recipe, labelled_data
from greffon.fit import Step
from greffon.ledger import params_of_run
from greffon.progress import TrainingProgress
from greffon.run import Run, own_loss
from greffon.text.splits import load_splits
from greffon.transfer import transfer
from greffon.web.curves import curve
from greffon.weights import READING
from tiny import TinyRuns

BODIES = {
    "causal": {},
    "untied": {"tied": False, "bias": True},
    "masked": {"objective": "masked"},
    "gist": {"objective": "masked", "gist": True},
    "pairs": {"objective": "masked", "next_sentence": True},
}


@pytest.fixture(scope="module")
def sentences(tiny: TinyRuns, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny text with two sentences on each line, for pairs."""
    lines = tiny.text.read_text(encoding="utf-8").splitlines()
    path = tmp_path_factory.mktemp("sentences") / "text.txt"
    path.write_text("".join(f"{a.capitalize()} {b.capitalize()}\n" for a, b in pairwise(lines)))
    return path


@pytest.fixture(scope="module", params=BODIES)
def body(request: pytest.FixtureRequest, tiny: TinyRuns, sentences: Path) -> Run:
    given = {"layers": 2, "width": 32, "heads": 2, "feed_forward": 32, "context": 48, "rows": 4, "steps": 3}
    return greffon.pretrain(
        [sentences], out=sentences.parent / request.param, tokenizer=tiny.causal.path, quiet=True,
        **given, **BODIES[request.param],
    )  # fmt: skip


def finetune(body: Run, tiny: TinyRuns, out: Path, **more: object) -> Run:
    given = {"epochs": 2, "auxiliary": 0.3, "quiet": True, **more}
    return greffon.finetune(body, train=tiny.table, out=out, **given)


def test_the_old_head_reads_on_and_is_not_kept(body: Run, tiny: TinyRuns, tmp_path: Path) -> None:
    run = finetune(body, tiny, tmp_path / "run")
    steps = [entry for entry in run.metrics() if "loss" in entry]
    assert all(entry["loss"] == pytest.approx(entry["class_loss"] + entry["reading_loss"]) for entry in steps)
    assert steps[-1]["reading_loss"] < steps[0]["reading_loss"]
    assert params_of_run(run).total == sum(p.numel() for p in run.load_model().parameters())  # against the file, too
    assert greffon.classify(run, "le chat dort")
    checkpoint = run.load_checkpoint()[1]
    kept = {name for name in checkpoint if name.startswith("model/" + READING)}
    model = training_model(run.recipe)
    assert kept == {f"model/{name}" for name, _ in model.named_parameters() if name.startswith(READING)}
    said = str(transfer(model, body, head=False))
    assert said.endswith("; the old head reads on beside it while it learns")
    theirs = {
        name.removeprefix("head.").removeprefix("vocabulary."): p for name, p in body.load_model().named_parameters()
    }
    for name, p in model.named_parameters():
        if name.startswith(READING):
            assert torch.equal(p, theirs[name.removeprefix(READING).removeprefix("vocabulary.")]), name


def test_it_is_taken_up_where_it_was_left(body: Run, tiny: TinyRuns, tmp_path: Path) -> None:
    steady = {"dropout": 0.1, "decay": "constant", "warmup": 0}  # rates that do not depend on the number of steps
    halves = finetune(body, tiny, tmp_path / "halves", epochs=1, **steady)
    longer = finetune(body, tiny, tmp_path / "longer", epochs=2, **steady)
    more = longer.recipe.training.steps - halves.recipe.training.steps
    again = greffon.resume(halves, more=more, quiet=True)
    assert (again.path / "model.safetensors").read_bytes() == (longer.path / "model.safetensors").read_bytes()


def test_scratch_reads_on_with_a_head_of_its_own(tiny: TinyRuns, tmp_path: Path) -> None:
    body = tiny.body("gist", objective="masked", gist=True)
    found = greffon.compare(
        [body], train=tiny.table, out=tmp_path / "verdict", seeds=1, epochs=1, auxiliary=0.3, quiet=True
    )
    results = json.loads((found.path / "results.json").read_text())
    assert {"pretrained", "scratch"} <= results["arms"].keys()
    recipes = [json.loads(file.read_text()) for file in (tmp_path / "verdict").rglob("recipe.json")]
    assert {bool(recipe["origin"]) for recipe in recipes} == {True, False}
    assert all(recipe["graft"]["auxiliary"] == 0.3 and recipe["masking"]["gist"] for recipe in recipes)
    assert {recipe["graft"]["pooling"] for recipe in recipes} == {"mean"}  # what was taught


def test_what_cannot_read_on_is_refused(tiny: TinyRuns, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--auxiliary is for a body that learns"):
        finetune(tiny.causal, tiny, tmp_path / "a", freeze=True)
    with pytest.raises(UserError, match="gist belongs to --objective masked"):
        tiny.body("b", gist=True)
    gist = tiny.body("gist-body", objective="masked", gist=True)
    with pytest.raises(UserError, match="gist is a fixed part of"):
        greffon.pretrain(
            [tiny.text],
            out=tmp_path / "c",
            objective="masked",
            gist=True,
            start_from=tiny.masked.path,
            steps=1,
            quiet=True,
        )
    with pytest.raises(UserError, match="next_sentence is a fixed part of"):
        greffon.pretrain(
            [tiny.text], out=tmp_path / "d", objective="masked", next_sentence=True, start_from=gist.path, steps=1
        )
    with pytest.raises(UserError, match="gist head"):
        greffon.export(gist, to="huggingface", out=tmp_path / "hf")
    assert greffon.fill(gist, "le [MASK] dort")


def test_curves_hold_like_against_like(tiny: TinyRuns, tmp_path: Path) -> None:
    run = finetune(tiny.causal, tiny, tmp_path / "run")
    entries = run.metrics()
    drawn = [value for _, _, value in curve(entries, 1).training["loss"]]
    assert drawn == [entry["class_loss"] for entry in entries if "loss" in entry]
    assert own_loss({"loss": 3.0, "token_loss": 2.0, "gist_loss": 1.0}) == 2.0
    assert own_loss({"loss": 3.0}) == 3.0


def test_what_reads_on_with_another_head_has_a_scratch_arm_of_its_own(tiny: TinyRuns) -> None:
    data = labelled_data(tiny.table, None, None, "text", "label")
    splits = load_splits(data)
    bodies = {
        name: tiny.body(f"transform-{name}", objective="masked", head_transform=name == "with")
        for name in ("with", "without")
    }
    for auxiliary, arms in ((0.0, 1), (0.3, 2)):
        recipes = {
            name: graft_recipe(body, data, splits, epochs=1, seed=0, scratch=True, settings={"auxiliary": auxiliary})
            for name, body in bodies.items()
        }
        assert len(set(scratches(recipes).values())) == arms


def test_the_progress_line_keeps_what_was_learnt_beside(capsys: pytest.CaptureFixture[str]) -> None:
    progress = TrainingProgress(3, 0)
    progress.last_line = -math.inf
    common = {"rate": 1.0, "gradient": 1.0, "targets": 1, "tokens": 1, "bytes": 1, "padding": 0.0, "seconds": 1.0}
    progress.step(Step(1, 2.7, parts={"token_loss": 2.0, "pair_loss": 0.7}, **common))
    progress.last_line = -math.inf
    progress.step(Step(2, 2.0, **common))  # without a pair
    assert capsys.readouterr().err.count("loss 2.000 + 0.700 for pairs") == 2
