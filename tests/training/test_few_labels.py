"""A head that starts as the probe, and the epoch that is selected on the training labels alone."""

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import SHAPE, TinyRuns

import greffon
from greffon.cli.outcome import outcome
from greffon.core.errors import UserError
from greffon.core.recipe import Data
from greffon.data.splits import fold_numbers, load_splits
from greffon.inference.classify import probabilities
from greffon.inference.probe import fit_probe
from greffon.nn.build import make_model
from greffon.runs.run import Run
from greffon.training.finetune import graft_recipe
from greffon.training.probe_head import fold_in, start_at_probe
from greffon.training.selection import choose, clearly_better, fold_recipe
from greffon.training.transfer import transfer

pytestmark = pytest.mark.filterwarnings("ignore:the text is too small")


def table(path: Path, count: int, classes: int = 2, first: int = 0) -> Path:
    """Texts whose label shows in one word, among others."""
    animals = ["chat", "vache", "oiseau", "chien"]
    rows = [(f"le {animals[i % classes]} numéro {i} dort", animals[i % classes]) for i in range(first, first + count)]
    with path.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows([("text", "label"), *rows])
    return path


def recipe_of(source: Run, train: Path, valid: Path | None = None, **settings: object):
    data = Data(train=(str(train),), valid=() if valid is None else (str(valid),), selection="folds")
    return graft_recipe(source, data, load_splits(data), epochs=2, seed=0, settings=settings)


def test_the_command_for_a_better_body_can_be_pasted(
    tiny: TinyRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("my novels.csv", "letters.csv"):
        lines = [line.replace(",", "") for line in tiny.text.read_text(encoding="utf-8").splitlines()]
        (tmp_path / name).write_text("\n".join(["body", *lines]), encoding="utf-8")
    texts = [tmp_path / "my novels.csv", tmp_path / "letters.csv"]
    how = {**SHAPE, "tokenizer": tiny.causal.path, "batch_size": 4, "steps": 1, "quiet": True}
    body = greffon.pretrain(texts, out=tmp_path / "body", mix=(2, 1), text_column="body", **how)
    greffon.finetune(body, train=table(tmp_path / "t.csv", 8), out=tmp_path / "run", epochs=1)
    told = capsys.readouterr().err.split("than this causal one: ")[1].splitlines()[0]
    assert shlex.split(told) == [
        "greffon", "pretrain", *map(str, texts), "--objective", "contrastive", "--mix", "2", "1",
        "--text-column", "body", "--out", "RUN",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["causal", "masked"])
@pytest.mark.parametrize("settings", [{}, {"pooling": "mean-max", "concat_embeddings": True}, {"pooling": "last"}])
def test_before_training_the_model_is_the_probe(tiny: TinyRuns, tmp_path: Path, kind: str, settings: dict) -> None:
    source = getattr(tiny, kind)
    recipe = recipe_of(source, table(tmp_path / "t.csv", 30, classes=3), **settings)
    assert recipe.graft is not None
    assert recipe.graft.head_init == "probe"
    model = make_model(recipe)
    transfer(model, source, head=False)
    probe = start_at_probe(model, recipe, source.tokenizer)
    run = Run.create(tmp_path / "run", recipe)
    source.tokenizer.save(run.path)
    run.save_model(model, {"step": 0})
    long = "le chat dort, la vache mange, " * 12  # in windows
    texts = [*load_splits(recipe.data).train, replace(load_splits(recipe.data).train[0], text=long)]
    found = probabilities(run, texts)
    assert not settings or recipe.graft.pooling == settings["pooling"]
    if settings:
        assert np.allclose(found.sum(axis=1), 1)
    else:  # the probe itself, on the vectors that `embed` gives
        expected = probe.probabilities(greffon.embed(source, [text.text for text in texts]))
        assert np.abs(found - expected).max() < 1e-5


def test_the_probe_is_fitted_with_the_training_labels_alone(tiny: TinyRuns, tmp_path: Path) -> None:
    recipe = recipe_of(tiny.causal, table(tmp_path / "t.csv", 20))
    model = make_model(recipe)
    transfer(model, tiny.causal, head=False)
    probe = start_at_probe(model, recipe, tiny.causal.tokenizer)
    splits = load_splits(recipe.data)
    vectors = greffon.embed(tiny.causal, [text.text for text in splits.train])
    labels = [splits.labels.index(text.label) for text in splits.train]
    alone = fit_probe(vectors, labels)
    assert probe.strength == alone.strength
    assert np.allclose(probe.weight, alone.weight, atol=1e-3)
    assert np.allclose(probe.center, vectors.mean(axis=0), atol=1e-5)


def test_another_form_of_head_starts_at_random(tiny: TinyRuns, tmp_path: Path) -> None:
    train = table(tmp_path / "t.csv", 20)
    graft = recipe_of(tiny.masked, train, pooler_activation="tanh").graft
    assert graft is not None
    assert (graft.head_init, graft.pooling) == ("random", "cls")
    graft = recipe_of(tiny.masked, train, head_init="random").graft
    assert graft is not None
    assert graft.pooler_activation == "none"
    with pytest.raises(UserError, match="pooler_activation does not go with a head that starts as a probe"):
        recipe_of(tiny.masked, train, pooler_activation="tanh", head_init="probe")


def test_every_label_is_used_and_the_epoch_comes_from_the_folds(tiny: TinyRuns, tmp_path: Path) -> None:
    train, test = table(tmp_path / "t.csv", 24), table(tmp_path / "test.csv", 20, first=100)
    run = greffon.finetune(tiny.causal, train=train, test=test, out=tmp_path / "run", epochs=3, quiet=True)
    found = json.loads((run.path / "selection.json").read_text())
    assert found["folds"] == 5
    assert len(found["curve"]) == 4
    keys = [(at["accuracy"], -at["loss"]) for at in found["curve"]]
    assert found["evaluations"] == keys.index(max(keys))
    assert run.scores["step"] == found["evaluations"] * 2  # two steps of 16 texts an epoch
    assert run.scores["accuracy"] == found["scores"]["accuracy"]
    assert run.scores["cross_validated"] == 5
    assert "test_accuracy" in run.scores
    assert not any("test_accuracy" in at for at in found["curve"])
    assert len(load_splits(run.recipe.data).train) == 24
    folds = sorted((run.path / "selection").glob("fold-*"))
    parts = [load_splits(Run.open(fold).recipe.data) for fold in folds]
    assert sorted(text.line for part in parts for text in part.valid) == list(range(2, 26))
    for fold, part in zip(folds, parts, strict=True):
        assert not {text.text for text in part.train} & {text.text for text in part.valid}
        assert len(part.train) + len(part.valid) == 24
        assert not any("test_accuracy" in entry.get("valid", {}) for entry in Run.open(fold).metrics())
        kept = ["finished", "held-out.json", "metrics.jsonl", "recipe.json"]
        assert sorted(path.name for path in fold.iterdir()) == kept
        held_out = json.loads((fold / "held-out.json").read_text())["probabilities"]
        assert np.array(held_out).shape == (len(part.valid), 2)
    assert "cross-validated accuracy" in outcome(run, 3)


@pytest.mark.parametrize("head", ["random", "probe"])
def test_the_folds_end_when_their_mean_has_got_no_better(tiny: TinyRuns, tmp_path: Path, head: str) -> None:
    train = table(tmp_path / "t.csv", 24, classes=4)
    settings = {"epochs": 12, "learning_rate": 3e-2, "head_init": head, "quiet": True}
    runs = [
        greffon.finetune(tiny.causal, train=train, out=tmp_path / str(n), patience=n, **settings) for n in (0, 1, 2)
    ]
    whole, *ended = [run.selection["curve"] for run in runs if run.selection is not None]
    assert len(whole) == 13
    for patience, (run, curve) in enumerate(zip(runs[1:], ended, strict=True), start=1):
        assert curve == whole[: len(curve)], "the same numbers as without an end"
        ends = []  # after a multiple of the patience, of which the last so many were neither best nor lowest
        for done in range(patience, 13, patience):
            losses = [at["loss"] for at in whole[: done + 1]]
            keys = [(at["accuracy"], -at["loss"]) for at in whole[: done + 1]]
            best = keys.index(max(keys)) if head == "random" else 0  # a probe gives way to a lower loss alone
            ends += [done] * (done - max(best, losses.index(min(losses))) >= patience)
        assert len(curve) - 1 == ends[0] < 12
        for fold in map(Run.open, (run.path / "selection").glob("fold-*")):
            assert fold.finished
            assert sum("valid" in entry for entry in fold.metrics()) == len(curve)


def test_layers_that_are_unfrozen_late_have_their_turn(tiny: TinyRuns, tmp_path: Path) -> None:
    data = Data(train=(str(table(tmp_path / "t.csv", 10)),), selection="folds")
    found = [
        graft_recipe(tiny.causal, data, load_splits(data), epochs=9, seed=0, gradual_unfreezing=late, settings={})
        for late in (False, True)
    ]
    assert found[0].training.patience > 0
    assert found[1].training.patience == 0


def test_the_final_training_is_that_of_the_recipe_cut_short(tiny: TinyRuns, tmp_path: Path) -> None:
    train = table(tmp_path / "t.csv", 24)
    settings = {"epochs": 3, "head_init": "random", "learning_rate": 3e-3, "quiet": True}
    run = greffon.finetune(tiny.causal, train=train, out=tmp_path / "run", **settings)
    chosen = run.scores["step"]
    assert chosen > 0
    valid = table(tmp_path / "valid.csv", 4, first=50)
    whole = greffon.finetune(tiny.causal, train=train, valid=valid, out=tmp_path / "whole", **settings)
    losses = [{e["step"]: e["loss"] for e in one.metrics() if "loss" in e} for one in (run, whole)]
    assert losses[0] == {step: loss for step, loss in losses[1].items() if step <= chosen}


def test_from_two_hundred_labels_on_one_fifth_selects(tiny: TinyRuns, tmp_path: Path) -> None:
    train = table(tmp_path / "t.csv", 200)
    run = greffon.finetune(tiny.causal, train=train, out=tmp_path / "run", epochs=1, quiet=True)
    (fold,) = (run.path / "selection").glob("fold-*")
    assert len(load_splits(Run.open(fold).recipe.data).valid) == 40
    assert run.scores["cross_validated"] == 1


def test_with_validation_the_better_of_probe_and_training_is_kept(tiny: TinyRuns, tmp_path: Path) -> None:
    train, valid = table(tmp_path / "t.csv", 24), table(tmp_path / "v.csv", 20, first=100)
    given = {"train": train, "valid": valid, "epochs": 2, "quiet": True}
    run = greffon.finetune(tiny.causal, out=tmp_path / "bad", learning_rate=1.0, max_grad_norm=1e3, **given)
    assert not (run.path / "selection").exists()
    scores = [entry["valid"] for entry in run.metrics() if "valid" in entry]
    assert run.scores["accuracy"] == max(score["accuracy"] for score in scores)
    assert run.scores["accuracy"] >= scores[0]["accuracy"]
    assert run.scores["step"] == 0
    assert "kept the probe of the frozen body" in outcome(run, 2)


def test_a_class_of_one_text_is_in_every_training(tiny: TinyRuns, tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", 12)
    path.write_text(path.read_text() + "un zèbre,zèbre\n")
    numbers = fold_numbers(load_splits(Data(train=(str(path),), selection="folds")).train)
    assert numbers[-1] == -1
    assert (numbers[:-1] >= 0).all()
    run = greffon.finetune(tiny.causal, train=path, out=tmp_path / "run", epochs=1, quiet=True)
    assert greffon.classify(run, "un zèbre")[0].probabilities.keys() == {"chat", "vache", "zèbre"}


def test_where_nothing_can_be_selected_the_probe_is_kept(
    tiny: TinyRuns, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    path = table(tmp_path / "t.csv", 3, classes=3)
    run = greffon.finetune(tiny.causal, train=path, out=tmp_path / "run", epochs=2)
    assert (
        "none of the classes has two texts, so no epoch can be selected: the head stays as it starts"
        in capsys.readouterr().err
    )
    assert (run.scores["step"], run.scores["cross_validated"]) == (0, 0)
    assert outcome(run, 2).count("training accuracy") == 1
    assert "no label is left to judge fine-tuning by" in outcome(run, 2)


def test_a_fine_tuned_body_is_told_beside_its_probe(tiny: TinyRuns, tmp_path: Path) -> None:
    train, valid = table(tmp_path / "t.csv", 24), table(tmp_path / "v.csv", 40, first=100)
    settings = {"epochs": 8, "learning_rate": 1e-2, "quiet": True}
    for name, given in (("folds", {}), ("valid", {"valid": valid})):
        run = greffon.finetune(tiny.causal, train=train, out=tmp_path / name, **settings, **given)
        assert run.scores["step"] > 0
        if run.selection is None:
            probe = next(entry["valid"] for entry in run.metrics() if "valid" in entry)["accuracy"]
        else:
            probe = run.selection["curve"][0]["accuracy"]
        assert run.scores["accuracy"] >= probe
        assert "kept the fine-tuned body: best after epoch" in outcome(run, 8)
        assert f"the probe had accuracy {probe:.1%})" in outcome(run, 8)
        run.recipe = replace(run.recipe, graft=replace(run.recipe.graft, freeze=True))
        assert "kept the fine-tuned head: best after epoch" in outcome(run, 8)


@pytest.mark.parametrize(("sure", "clear"), [((0.9, 0.9, 0.8, 0.9), True), ((0.9, 0.1, 0.9, 0.3), False)])
def test_an_epoch_must_be_clearly_better_than_the_probe(
    tiny: TinyRuns, tmp_path: Path, sure: tuple[float, ...], clear: bool
) -> None:
    train = table(tmp_path / "t.csv", 20)
    run = greffon.finetune(tiny.causal, train=train, out=tmp_path / "run", epochs=1, quiet=True)
    folds = [Run.open(folder) for folder in sorted((run.path / "selection").glob("fold-*"))]
    for fold in folds:
        texts = load_splits(fold.recipe.data).valid
        assert len(texts) == len(sure)
        own = [fold.recipe.labels.index(text.label) for text in texts]
        for step, given in ((0, (0.5,) * 4), (1, sure)):
            rows = [[p if i == label else 1 - p for i in range(2)] for p, label in zip(given, own, strict=True)]
            fold.log_judged({"step": step, "probabilities": rows})
    assert clearly_better(folds, 1) is clear


def test_the_judgement_of_a_fold_is_that_of_the_chosen_epoch(tiny: TinyRuns, tmp_path: Path) -> None:
    train = table(tmp_path / "t.csv", 24)
    run = greffon.finetune(tiny.causal, train=train, out=tmp_path / "run", epochs=8, learning_rate=1e-2, quiet=True)
    assert run.selection is not None
    chosen, losses, texts = run.selection["evaluations"], 0.0, 0
    for folder in (run.path / "selection").glob("fold-*"):
        fold = Run.open(folder)
        part = load_splits(fold.recipe.data).valid
        rows = json.loads((folder / "held-out.json").read_text())["probabilities"]
        own = [row[fold.recipe.labels.index(text.label)] for row, text in zip(rows, part, strict=True)]
        scores = [entry["valid"] for entry in fold.metrics() if "valid" in entry]
        assert -np.log(own).mean() == pytest.approx(scores[chosen]["loss"], rel=1e-5)
        losses, texts = losses - np.log(own).sum(), texts + len(part)
    assert losses / texts == pytest.approx(run.selection["scores"]["loss"], rel=1e-5)


def test_copies_of_a_text_are_in_one_fold(tmp_path: Path) -> None:
    path = table(tmp_path / "t.csv", 12)
    path.write_text(path.read_text() + "LE chat  numéro 0 dort,chat\n" * 3)
    texts = load_splits(Data(train=(str(path),), selection="folds")).train
    assert len({*fold_numbers(texts)[[0, -1, -2, -3]].tolist()}) == 1


def test_folds_have_as_many_epochs_of_fewer_steps(tiny: TinyRuns, tmp_path: Path) -> None:
    recipe = recipe_of(tiny.causal, table(tmp_path / "t.csv", 60), batch_size=6)
    fold = fold_recipe(recipe, 1, 60)
    assert (recipe.training.steps, recipe.training.evaluate_every) == (20, 10)
    assert (fold.training.steps, fold.training.evaluate_every) == (16, 8)
    assert (fold.data.fold, fold.training.patience) == (1, 0)


def test_the_mean_over_folds_is_weighed_by_their_texts(tiny: TinyRuns, tmp_path: Path) -> None:
    recipe = recipe_of(tiny.causal, table(tmp_path / "t.csv", 22))
    run = Run.create(tmp_path / "run", recipe)
    folds = [Run.create(tmp_path / f"fold-{k}", fold_recipe(recipe, k, 22)) for k in (1, 3)]
    counts = [len(load_splits(fold.recipe.data).valid) for fold in folds]
    assert counts == [5, 4]
    for fold, accuracies in zip(folds, ([0.4, 0.8, 0.6], [1.0, 0.5, 0.75]), strict=True):
        for step, accuracy in enumerate(accuracies):
            fold.log({"step": step, "valid": {"accuracy": accuracy, "loss": 1.0, "test_accuracy": step}})
    found = choose(run, folds, lambda scores: (scores["accuracy"], -scores["loss"]))
    assert [at["accuracy"] for at in found.curve] == pytest.approx([6 / 9, 6 / 9, 6 / 9])
    assert found.evaluations == 0  # epoch 0 wins ties
    assert "test_accuracy" not in found.scores


@pytest.mark.parametrize("after", [0.0, 0.6])
def test_a_kill_anywhere_resumes_bit_for_bit(tiny: TinyRuns, tmp_path: Path, after: float) -> None:
    train = table(tmp_path / "t.csv", 16)
    settings = {"epochs": 3, "batch_size": 4, "head_init": "random", "patience": 1}  # the folds take turns
    whole = greffon.finetune(tiny.causal, train=train, out=tmp_path / "whole", quiet=True, **settings)
    code = (
        "import sys, greffon; "
        f"greffon.finetune(sys.argv[1], train=sys.argv[2], out=sys.argv[3], **{settings!r}, quiet=True)"
    )
    out = tmp_path / "killed"
    process = subprocess.Popen(
        [sys.executable, "-c", code, tiny.causal.path, train, out], env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    deadline = time.monotonic() + 300
    while not (out / "selection" / "fold-2" / "metrics.jsonl").is_file() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if not Run.open(out).finished:  # on a fast machine it may be, between its last step and the end of the process
        greffon.resume(out, quiet=True)
    run = Run.open(out)
    assert run.scores == whole.scores
    assert json.loads((out / "selection.json").read_text()) == json.loads((whole.path / "selection.json").read_text())
    pairs = zip(run.load_model().parameters(), whole.load_model().parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_a_head_of_another_form_takes_no_probe(tiny: TinyRuns, tmp_path: Path) -> None:
    recipe = recipe_of(tiny.causal, table(tmp_path / "t.csv", 10), head_init="random")
    vectors = np.random.default_rng(0).normal(size=(10, 32))
    with pytest.raises(AssertionError, match="the form of a head"):
        fold_in(make_model(recipe).head, fit_probe(vectors, [0, 1] * 5))


def test_averaging_needs_validation_texts(tiny: TinyRuns, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="add valid"):
        greffon.finetune(
            tiny.causal, train=table(tmp_path / "t.csv", 10), out=tmp_path / "run", average_checkpoints=2, quiet=True
        )


def test_a_selected_run_is_not_trained_for_longer(tiny: TinyRuns, tmp_path: Path) -> None:
    run = greffon.finetune(tiny.causal, train=table(tmp_path / "t.csv", 10), out=tmp_path / "r", epochs=1, quiet=True)
    with pytest.raises(UserError, match="fine-tune anew with more"):
        greffon.resume(run, extra_steps=5, quiet=True)
