"""The graft, the comparison and what comes of them, small but whole."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import greffon
from greffon.cli import run as command
from greffon.comparison.arms import reported_settings
from greffon.comparison.study import name_sources, scratches
from greffon.core.errors import UserError
from greffon.core.graft import Graft
from greffon.core.presets import PRESETS
from greffon.core.recipe import Data, Recipe
from greffon.core.rng import generator
from greffon.core.training import Training
from greffon.data.corpora import documents, labelled
from greffon.data.splits import load_splits
from greffon.inference.classify import probabilities
from greffon.nn.body import Decoder
from greffon.nn.heads import ClassHead
from greffon.nn.model import Model
from greffon.nn.quantize import can_quantize_int8
from greffon.runs.run import Run
from greffon.training.adaptation import ADAPTED
from greffon.training.finetune import PROBE_PATIENCE, check_body, graft_recipe
from greffon.training.head_form import PROBE_LEARNING_RATE
from greffon.training.transfer import transfer

TINY = {"layers": 2, "hidden_size": 32, "heads": 2, "intermediate_size": 64, "context": 32}
GOOD = ["superbe", "magnifique", "un régal", "touchant", "brillant"]
BAD = ["ennuyeux", "raté", "une déception", "lourd", "vide"]


def reviews(path: Path, count: int, name: str) -> Path:
    random = generator(0, name)
    lines = ["text,label"]
    for i in range(count):
        positive = i % 2 == 0
        word = random.choice(GOOD if positive else BAD)
        lines.append(
            f"Le livre numéro {random.integers(1000)} est {word} vraiment,{'positif' if positive else 'négatif'}"
        )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for name, count in (("train", 80), ("valid", 40), ("test", 60)):
        reviews(folder / f"{name}.csv", count, name)
    return folder


@pytest.fixture(scope="module")
def body(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("body")
    text = [e.text for e in labelled(reviews(folder / "more.csv", 600, "more"))]
    (folder / "text.txt").write_text("\n".join(text), encoding="utf-8")
    return greffon.pretrain(
        [folder / "text.txt"], out=folder / "body", vocab_size=400, steps=60, batch_size=4, quiet=True, **TINY
    )


def finetune(body: Run, data: Path, out: Path, **more: object) -> Run:
    given = {"epochs": 4, "quiet": True, "learning_rate": 0.01, "batch_size": 4, **more}
    return greffon.finetune(body, train=data / "train.csv", valid=data / "valid.csv", out=out, **given)


def test_the_graft_says_what_it_copied(body: Run) -> None:
    model = Model(Decoder(body.recipe.shape, body.recipe.vocab_size), ClassHead(32, 2, Graft(pooling="last")))
    copied = sum(p.numel() for p in body.load_model().body.parameters())
    assert str(transfer(model, body, head=False)) == f"body: {copied:,} parameters copied; head: new, 66"
    for name, p in body.load_model().body.named_parameters():
        assert torch.equal(p, model.body.get_parameter(name)), name


def test_what_does_not_fit_is_named(body: Run) -> None:
    shape = greffon.Shape(**{**TINY, "intermediate_size": 48})
    model = Model(Decoder(shape, body.recipe.vocab_size), ClassHead(32, 2, Graft(pooling="last")))
    with pytest.raises(UserError, match=r"feed_forward\.up\.weight is \(64, 32\) there and \(48, 32\) here"):
        transfer(model, body, head=False)
    shape = greffon.Shape(**{**TINY, "layers": 1})
    model = Model(Decoder(shape, body.recipe.vocab_size), ClassHead(32, 2, Graft(pooling="last")))
    with pytest.raises(UserError, match=r"body\.blocks\.1\..* has no place here"):
        transfer(model, body, head=False)


def test_finetuning_learns_and_the_run_can_be_used(
    body: Run, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = finetune(body, data, tmp_path / "run", quiet=False, epochs=8, patience=0)
    said = capsys.readouterr().err
    assert "parameters copied; head: new, " in said
    assert run.scores["accuracy"] > 0.9
    curve = [e["valid"]["accuracy"] for e in run.metrics() if "valid" in e]
    assert len(curve) == 9  # epoch 0 and eight more
    assert run.scores["accuracy"] == max(curve)
    scores = greffon.evaluate(run, data / "test.csv")
    wanted = {"accuracy", "interval", "macro_f1", "n", "labels", "confusion", "metric"}
    assert set(scores.to_json()) == wanted | {"expected_calibration_error", "reliability"}
    assert scores.n == 60 == sum(map(sum, scores.confusion))
    assert scores.interval[0] <= scores.accuracy <= scores.interval[1]
    good, bad = greffon.classify(run, ["Le livre est superbe", "Le livre est ennuyeux"])
    assert (good.label, bad.label) == ("positif", "négatif")
    assert sum(good.probabilities.values()) == pytest.approx(1)


def test_a_text_is_classified_the_same_alone_and_in_company(body: Run, data: Path, tmp_path: Path) -> None:
    run = finetune(body, data, tmp_path / "run", epochs=1)
    examples = labelled(data / "test.csv")
    together = probabilities(run, examples)
    alone = np.concatenate([probabilities(run, [example]) for example in examples[:10]])
    np.testing.assert_allclose(together[:10], alone, atol=1e-5)


@pytest.mark.skipif(not can_quantize_int8(), reason="this PyTorch cannot multiply 8-bit integers")
def test_whole_numbers_classify_nearly_the_same(
    body: Run, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = finetune(body, data, tmp_path / "run", epochs=3)
    examples = labelled(data / "test.csv")
    exact, rounded = probabilities(run, examples), probabilities(run, examples, int8=True)
    assert not np.array_equal(exact, rounded)
    np.testing.assert_allclose(rounded, exact, atol=0.05)
    alone = np.concatenate([probabilities(run, [example], int8=True) for example in examples[:10]])
    np.testing.assert_allclose(rounded[:10], alone, atol=1e-4)
    assert np.array_equal(probabilities(run, examples), exact)  # the model that is kept in full is another one
    scores = [greffon.evaluate(run, data / "test.csv", int8=int8).accuracy for int8 in (False, True)]
    assert scores[0] == pytest.approx(scores[1], abs=0.05)
    capsys.readouterr()
    command(["classify", str(run.path), "Le livre est superbe", "--int8", "--json"])
    said = json.loads(capsys.readouterr().out)
    assert said["label"] == greffon.classify(run, "Le livre est superbe")[0].label
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    with pytest.raises(UserError, match="leave out int8"):
        greffon.classify(run, "Le livre est superbe", int8=True)


def test_a_frozen_body_does_not_change(body: Run, data: Path, tmp_path: Path) -> None:
    run = finetune(body, data, tmp_path / "run", freeze=True, epochs=2, head_init="random")
    before = dict(body.load_model().body.named_parameters())
    after = run.load_model()
    assert all(torch.equal(p, before[name]) for name, p in after.body.named_parameters())
    assert run.scores["step"] > 0


def test_a_training_is_told_by_what_was_asked_for_and_what_counts(body: Run, data: Path, tmp_path: Path) -> None:
    recipe = finetune(body, data, tmp_path / "run", epochs=1, layer_decay=0.5).recipe
    told = reported_settings(recipe, ["layer_decay"])
    assert (told["layer_decay"], told["optimizer"], told["pooling"]) == (0.5, "adamw", "mean")
    assert "muon_learning_rate" not in told  # Muon's, which was not used
    assert "seed" not in told


def test_texts_that_were_learnt_from_are_noticed(body: Run, data: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "data")
    run = finetune(body, tmp_path / "data", tmp_path / "run", epochs=1)
    with pytest.warns(UserWarning, match=r"of the 80 texts in .*train.csv are among those that .* was trained on"):
        greffon.evaluate(run, tmp_path / "data" / "train.csv")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        greffon.evaluate(run, data / "test.csv")
        (tmp_path / "data" / "train.csv").unlink()
        greffon.evaluate(run, data / "train.csv")  # what it was trained on is not known any more


def test_adapting_that_does_not_help_is_told(
    body: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    preset = PRESETS[body.recipe.preset]()
    wild = replace(
        preset,
        adaptation=replace(
            preset.adaptation, learning_rate=10.0, muon_learning_rate=10.0, steps=10, skip_loss_spikes=0.0
        ),
    )
    monkeypatch.setitem(PRESETS, body.recipe.preset, lambda: wild)
    run = greffon.finetune(body, train=data / "train.csv", out=tmp_path / "run", epochs=1, adapt=True)
    assert Run.open(run.path / ADAPTED).scores["step"] == 0
    assert "adapting did not help" in capsys.readouterr().err


def test_gradual_unfreezing_starts_at_the_top(body: Run, data: Path, tmp_path: Path) -> None:
    run = finetune(body, data, tmp_path / "run", gradual_unfreezing=True, epochs=1, layer_decay=0.5)
    assert run.recipe.training.unfreeze_every > 0
    before = dict(body.load_model().body.named_parameters())
    changed = {
        name.split(".")[0] for name, p in run.load_model().body.named_parameters() if not torch.equal(p, before[name])
    }
    assert changed <= {"norm"}


def test_adapting_goes_on_pretraining_first(
    body: Run, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = finetune(body, data, tmp_path / "run", adapt=True, epochs=1)
    adapted = Run.open(run.path / ADAPTED)
    assert adapted.finished
    losses = [e["valid"]["loss"] for e in adapted.metrics() if "valid" in e]
    assert min(losses) <= losses[0]
    assert Path(run.recipe.origin) == adapted.path.resolve()


def test_fine_tuning_resumes_in_the_middle_of_a_later_epoch(body: Run, data: Path, tmp_path: Path) -> None:
    whole = finetune(body, data, tmp_path / "whole", epochs=3, dropout=0.1)

    class Stop:
        """Asks to stop in the middle of the second epoch."""

        looked = 0

        @property
        def asked(self) -> bool:
            self.looked += 1
            return self.looked > 29  # once a step

    @contextmanager
    def stop_signals() -> Iterator[Stop]:
        yield Stop()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("greffon.training.train.stop_signals", stop_signals)
        with pytest.raises(KeyboardInterrupt):
            finetune(body, data, tmp_path / "cut", epochs=3, dropout=0.1)
    stopped = Run.open(tmp_path / "cut").load_checkpoint()[0]["step"]
    epoch = whole.recipe.training.evaluate_every
    assert epoch < stopped < 2 * epoch
    run = greffon.resume(tmp_path / "cut", quiet=True)
    assert (run.path / "model.safetensors").read_bytes() == (whole.path / "model.safetensors").read_bytes()


def test_early_stopping_waits_for_its_patience(body: Run, data: Path, tmp_path: Path) -> None:
    run = finetune(body, data, tmp_path / "run", epochs=30, patience=2)
    evaluated = [e["step"] for e in run.metrics() if "valid" in e]
    assert evaluated[-1] < run.recipe.training.steps
    losses = [e["valid"]["loss"] for e in run.metrics() if "valid" in e]
    assert max(evaluated.index(run.scores["step"]), losses.index(min(losses))) == len(evaluated) - 3
    assert run.finished


def test_what_cannot_change_is_refused(body: Run, data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="hidden_size is a fixed part"):
        finetune(body, data, tmp_path / "a", hidden_size=64)
    with pytest.raises(UserError, match="unknown setting 'poolng'; did you mean 'pooling'"):
        finetune(body, data, tmp_path / "b", poolng="last")
    run = finetune(body, data, tmp_path / "c", epochs=1)
    with pytest.raises(UserError, match="is a classifier"):
        finetune(run, data, tmp_path / "d")


@pytest.mark.parametrize("name", ["tfidf", "scratch two", "frozen body", "ensemble", "ensemble masked"])
def test_among_several_runs_none_has_the_name_of_another_arm(body: Run, tmp_path: Path, name: str) -> None:
    taken = Run.open(shutil.copytree(body.path, tmp_path / name))
    assert list(name_sources([taken])) == ["pretrained"]
    with pytest.raises(UserError, match=re.escape(f"{taken.path}: among several runs")):
        name_sources([body, taken])


def test_among_several_runs_two_of_one_name_are_refused(body: Run, tmp_path: Path) -> None:
    same = Run.open(shutil.copytree(body.path, tmp_path / "elsewhere" / body.name))
    with pytest.raises(UserError, match=re.escape(f"{body.path} and {same.path} have the same name")):
        name_sources([body, same])


def test_compare_reports_and_does_not_train_twice(
    body: Run, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def compare(labels: Sequence[int] = (20,)) -> greffon.Comparison:
        return greffon.compare(
            [body], train=data / "train.csv", test=data / "test.csv", out=tmp_path / "verdict",
            seeds=2, epochs=2, train_sizes=labels, jobs=2, learning_rate=0.01,
        )  # fmt: skip

    made = compare()
    results = json.loads((made.path / "results.json").read_text())
    assert set(results["arms"]) == {"scratch", "pretrained", "ensemble", "frozen", "tfidf", "majority"}
    for name in ("scratch", "pretrained"):
        arm = results["arms"][name]
        assert [point["epoch"] for point in arm["curve"]] == [0, 1, 2]
        assert len(arm["test_accuracy"]["by_seed"]) == 2
        low, high = arm["test_accuracy"]["interval"]
        assert low <= arm["test_accuracy"]["mean"] <= high
    assert results["arms"]["majority"]["test_accuracy"]["mean"] == 0.5
    assert results["data"]["train"] + results["data"]["valid"] == 80
    assert [entry["size"] for entry in results["train_sizes"]] == [20]
    drawn = results["train_sizes"][0]["arms"]
    assert set(drawn) == set(results["arms"])
    assert all(len(arm["by_draw"]) == 2 for arm in drawn.values())
    once = run_accuracy(made.path / "arms" / "pretrained" / "draw-1-size-20", data / "test.csv")
    assert drawn["pretrained"]["by_draw"][1] == pytest.approx(once)
    assert results["metric"] == "accuracy"
    seen = set(Path(body.recipe.data.train[0]).read_text(encoding="utf-8").split("\n"))
    shared = sum(example.text in seen for example in labelled(data / "test.csv"))
    assert results["data"]["pretraining_overlap"] == {"pretrained": shared}
    pair = next(d for d in results["differences"] if (d["a"], d["b"]) == ("pretrained", "scratch"))
    means = [results["arms"][name]["test_accuracy"]["mean"] for name in ("pretrained", "scratch")]
    assert pair["mean"] == pytest.approx(means[0] - means[1])
    assert results["verdict"].startswith("Best by number of labels: ")
    for name in ("report.html", "accuracy.png", "train_sizes.png"):
        assert (made.path / name).stat().st_size > 1000
    recorded = {
        seed: run_accuracy(made.path / "arms" / "pretrained" / f"seed-{seed}", data / "test.csv") for seed in range(2)
    }
    assert results["arms"]["pretrained"]["test_accuracy"]["by_seed"] == pytest.approx(list(recorded.values()))

    capsys.readouterr()
    again = compare()
    assert "12 of 12 trainings are finished already" in capsys.readouterr().err
    assert again.results.arms["pretrained"] == greffon.Comparison.open(made.path).results.arms["pretrained"]
    assert again.results.arms["pretrained"] == made.results.arms["pretrained"]

    arm = made.path / "arms" / "pretrained" / "seed-0"
    trained = (arm / "model.safetensors").stat().st_mtime_ns
    (arm / "probabilities.json").unlink()
    assert compare().results.arms["pretrained"] == made.results.arms["pretrained"]
    assert (arm / "model.safetensors").stat().st_mtime_ns == trained, "a finished training only answers again"

    told = results["settings"]["training"]
    assert (told["learning_rate"], told["optimizer"]) == (0.01, "adamw")
    assert told["pooling"] == "mean"  # fresh weights are read as pretrained ones are
    compare(labels=())
    assert not (made.path / "train_sizes.png").exists()
    assert "train_sizes" not in json.loads((made.path / "results.json").read_text())
    with pytest.raises(UserError, match="holds another comparison"):
        greffon.compare([body], train=data / "train.csv", out=made.path, epochs=1, quiet=True)

    capsys.readouterr()
    assert command(["show", str(made.path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(greffon.Comparison.open(made.path).results.verdict)
    assert all(f"\n{name} " in said for name in results["arms"])
    with pytest.raises(UserError, match="is a comparison, not a run: see `greffon show"):
        Run.open(made.path)
    (made.path / "results.json").unlink()
    with pytest.raises(UserError, match="no results yet; repeat the command"):
        greffon.Comparison.open(made.path)
    with pytest.raises(UserError, match="is no comparison"):
        greffon.Comparison.open(body.path)


def test_adapting_reads_only_what_the_classifier_learns_from(body: Run, data: Path, tmp_path: Path) -> None:
    run = greffon.finetune(body, train=data / "train.csv", out=tmp_path / "run", epochs=1, adapt=True, quiet=True)
    splits = load_splits(run.recipe.data)
    inner = Run.open(run.path / ADAPTED)
    read = set(documents(inner.recipe.data.train))
    assert read == {example.text for example in splits.train}
    assert not read & ({example.text for example in splits.valid} - read)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"epochs": 0}, "epochs is 0"),
        ({"epochs": 10**12}, "epochs is 1000000000000"),
        ({"freeze": True, "gradual_unfreezing": True}, "give one of them"),
        ({"freeze": True, "layer_decay": 0.9}, "layer_decay has no effect with freeze"),
        (
            {"optimizer": "adamw", "muon_learning_rate": 0.1},
            "muon_learning_rate has no effect with optimizer=adamw",
        ),
        ({"gradual_unfreezing": True, "unfreeze_every": 3}, "give one of them"),
        ({"learning_rat": 1.0}, "unknown setting 'learning_rat'; did you mean 'learning_rate'"),
        ({"lr": 1.0}, "unknown setting 'lr': it is 'learning_rate' here"),
    ],
)
def test_impossible_wishes_are_refused(
    body: Run, data: Path, tmp_path: Path, settings: dict[str, object], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        greffon.finetune(body, train=data / "train.csv", out=tmp_path / "no", **settings)
    assert not (tmp_path / "no").exists()


def test_too_few_texts_to_hold_any_out(body: Run, tmp_path: Path) -> None:
    (tmp_path / "two.csv").write_text("text,label\nbon,oui\nnul,non\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"2 labelled texts are too few .* give a file with valid"):
        greffon.compare([body], train=tmp_path / "two.csv", test=tmp_path / "two.csv", out=tmp_path / "no")
    with pytest.raises(UserError, match="give a file with test"):
        greffon.compare([body], train=tmp_path / "two.csv", out=tmp_path / "no")


def test_a_refused_comparison_leaves_nothing_in_the_way(body: Run, data: Path, tmp_path: Path) -> None:
    for wrong in ({"layers": 6}, {"evaluate_every": 3}, {"pooling": "cls"}, {"freeze": True}):
        with pytest.raises(UserError):
            greffon.compare([body], train=data / "train.csv", out=tmp_path / "cmp", quiet=True, **wrong)
    assert not (tmp_path / "cmp").exists()


def test_an_untrained_body_is_called_so(body: Run, tmp_path: Path) -> None:
    copy = Run.open(shutil.copytree(body.path, tmp_path / "copy"))
    assert check_body(copy) == []
    (copy.path / "finished").unlink()
    assert "stopped before its end" in check_body(copy)[0].message
    manifest = json.loads((copy.path / "manifest.json").read_text())
    manifest["scores"]["step"] = 0
    (copy.path / "manifest.json").write_text(json.dumps(manifest))
    assert "untrained" in check_body(copy)[0].message


def test_ctrl_c_ends_a_comparison_soon_and_begins_no_other_training(body: Run, data: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "greffon", "compare", body.path, "--train", data / "train.csv", "--seeds", "6"]
    words += ["--epochs", "400", "--patience", "0", "--jobs", "1", "--out", tmp_path / "cmp"]
    process = subprocess.Popen([str(w) for w in words], stderr=subprocess.PIPE, text=True, start_new_session=True)
    first = tmp_path / "cmp" / "arms" / "scratch" / "seed-0" / "metrics.jsonl"
    while not (first.is_file() and first.stat().st_size) and process.poll() is None:
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert "the same command; finished trainings are kept" in said
    assert [path.parent.name for path in (tmp_path / "cmp" / "arms").rglob("metrics.jsonl")] == ["seed-0"]
    assert (first.parent / "checkpoints").is_dir()


def run_accuracy(path: Path, file: Path) -> float:
    return greffon.evaluate(path, file).accuracy


def test_training_from_scratch_and_pretrained_share_everything_else(body: Run, data: Path) -> None:
    files = Data(train=(str(data / "train.csv"),))

    def recipe(scratch: bool, **settings: object) -> Recipe:
        return graft_recipe(body, files, load_splits(files), epochs=3, seed=1, scratch=scratch, settings=settings)

    scratch, pretrained = recipe(True), recipe(False)
    assert isinstance(scratch.training, Training)
    assert (scratch.origin, pretrained.origin) == ("", str(body.path.resolve()))
    # A head that starts as the probe has a lower learning rate and less patience by default; nothing else differs.
    assert pretrained.training.learning_rate == PROBE_LEARNING_RATE < scratch.training.learning_rate
    assert pretrained.training.patience == PROBE_PATIENCE < scratch.training.patience
    own = {"learning_rate": scratch.training.learning_rate, "patience": scratch.training.patience}
    assert replace(pretrained.training, **own) == scratch.training
    for settings in ({"head_init": "random"}, {"learning_rate": 5e-4, "patience": 2}):
        assert recipe(True, **settings).training == recipe(False, **settings).training


def test_runs_share_a_scratch_arm_only_if_it_would_be_the_same_training(body: Run, data: Path) -> None:
    files = Data(train=(str(data / "train.csv"),))
    first = graft_recipe(body, files, load_splits(files), epochs=1, seed=0, scratch=True, settings={})
    recipes = {
        "a": first,
        "b": replace(first, preset="bert", shape=replace(first.shape, segments=2, head_bias=True)),
        "c": replace(first, training=replace(first.training, learning_rate=5e-5)),
        "d": replace(first, body="encoder"),
        "e": replace(first, training=replace(first.training, learning_rate=5e-5)),
    }
    assert scratches(recipes) == {
        "a": "scratch",
        "b": "scratch",
        "c": "scratch c",
        "d": "scratch d",
        "e": "scratch c",
    }


@pytest.mark.parametrize("given", [[("un livre", "bon")], {"text": ["un livre"], "label": ["bon"]}])
def test_labelled_texts_that_are_no_file_are_refused_in_a_sentence(given: object, body: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"labelled texts are a file, not a (list|dict); write them into a \.csv"):
        greffon.finetune(body, train=given, out=tmp_path / "run", quiet=True)  # type: ignore[arg-type]
