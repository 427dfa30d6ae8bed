"""From a text file to a run, and on after an interruption: the whole way, small."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import greffon
from greffon.core.errors import UserError
from greffon.runs.run import Run
from greffon.training import progress
from greffon.training.loop import Step
from greffon.training.pretrain import make_recipe
from greffon.training.progress import TrainingProgress

TINY = {
    "layers": 2,
    "hidden_size": 32,
    "heads": 2,
    "intermediate_size": 64,
    "context": 32,
    "batch_size": 4,
    "warmup_steps": 5,
}
FLAGS = [word for name, value in TINY.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def pretrain(corpus: Path, out: Path, **more: object) -> Run:
    return greffon.pretrain([corpus], out=out, vocab_size=400, quiet=True, **{"steps": 40, **TINY, **more})


def losses(run: Run) -> dict[int, str]:
    return {e["step"]: e["loss"].hex() for e in run.metrics() if "loss" in e}


def test_text_becomes_a_body_that_goes_on_in_its_language(corpus: Path, tmp_path: Path) -> None:
    run = pretrain(corpus, tmp_path / "run", steps=150, learning_rate=0.01, muon_learning_rate=0.01)
    evaluations = [entry["valid"]["bits_per_byte"] for entry in run.metrics() if "valid" in entry]
    assert evaluations[-1] < 0.4 * evaluations[0]
    assert run.finished
    made = greffon.generate(run, "Bonjour les", max_new_tokens=8, temperature=0)
    assert made.text.startswith("Bonjour les amis :")
    assert made == greffon.generate(run, "Bonjour les", max_new_tokens=8, temperature=0)
    assert greffon.generate(run, "Le", seed=3) == greffon.generate(run, "Le", seed=3)
    scores = greffon.evaluate(run, corpus)
    assert 0 < scores.bits_per_byte < 1.5
    assert set(scores.to_json()) == {"loss", "interval", "bits_per_byte", "n"}
    assert scores.interval[0] < scores.loss < scores.interval[1]
    assert greffon.show(run).finished
    assert greffon.params(run.path).total == sum(p.numel() for p in run.load_model().parameters())


def test_the_same_seed_gives_the_same_weights(corpus: Path, tmp_path: Path) -> None:
    first, second, other = (
        pretrain(corpus, tmp_path / name, steps=12, seed=seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    files = [(run.path / "model.safetensors").read_bytes() for run in (first, second, other)]
    assert files[0] == files[1] != files[2]


def test_ctrl_c_saves_and_resuming_is_bit_for_bit(corpus: Path, tmp_path: Path) -> None:
    whole = pretrain(corpus, tmp_path / "whole", steps=300)
    words = [sys.executable, "-m", "greffon", "pretrain", corpus, "--out", tmp_path / "cut", "--vocab-size", "400"]
    words += ["--steps", "300", *FLAGS]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    deadline = time.monotonic() + 60
    metrics = tmp_path / "cut" / "metrics.jsonl"
    while time.monotonic() < deadline and (not metrics.exists() or metrics.read_text().count("\n") < 12):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert f"greffon resume {tmp_path / 'cut'}" in said.splitlines()[-1]
    stopped_at = Run.open(tmp_path / "cut").load_checkpoint()[0]["step"]
    assert 0 < stopped_at < 300
    run = greffon.resume(tmp_path / "cut", quiet=True)
    common = losses(run).keys() & losses(whole).keys()
    assert {s for s in common if s > stopped_at}
    assert all(losses(run)[step] == losses(whole)[step] for step in common)
    weights = [(r.path / "model.safetensors").read_bytes() for r in (run, whole)]
    assert weights[0] == weights[1]
    with pytest.raises(UserError, match=r"has finished its 300 steps; train longer with .*--extra-steps"):
        greffon.resume(run)
    longer = greffon.resume(run, extra_steps=5, quiet=True)
    assert longer.load_checkpoint()[0]["step"] == 305


def test_a_run_can_be_resumed_before_its_tokenizer_exists(corpus: Path, tmp_path: Path) -> None:
    from greffon.training.pretrain import make_recipe

    recipe = make_recipe([corpus], vocab_size=400, steps=4, **TINY)
    Run.create(tmp_path / "begun", recipe)
    run = greffon.resume(tmp_path / "begun", quiet=True)
    assert (run.path / "model.safetensors").read_bytes() == (
        pretrain(corpus, tmp_path / "whole", steps=4).path / "model.safetensors"
    ).read_bytes()


def test_a_crash_before_the_first_checkpoint_leaves_no_trace_in_the_metrics(corpus: Path, tmp_path: Path) -> None:
    run = pretrain(corpus, tmp_path / "run", steps=4)
    whole = [{name: value for name, value in e.items() if name in ("step", "loss", "valid")} for e in run.metrics()]
    run.drop_checkpoints()
    (run.path / "finished").unlink()
    greffon.resume(run, quiet=True)
    again = [{name: value for name, value in e.items() if name in ("step", "loss", "valid")} for e in run.metrics()]
    assert again == whole


def test_minutes_become_steps_that_the_recipe_remembers(corpus: Path, tmp_path: Path) -> None:
    run = pretrain(corpus, tmp_path / "run", steps=None, minutes=0.02)
    assert run.recipe.training.steps > 0
    assert run.recipe.cost["seconds_a_step"] > 0
    tokens = pretrain(corpus, tmp_path / "tokens", steps=None, tokens=1000)
    assert tokens.recipe.training.steps == -(-1000 // (4 * 32))


def test_a_run_can_start_from_another(corpus: Path, tmp_path: Path) -> None:
    first = pretrain(corpus, tmp_path / "first", steps=60)
    second = greffon.pretrain([corpus], out=tmp_path / "second", init_from=first, steps=3, batch_size=4, quiet=True)
    assert second.tokenizer.digest == first.tokenizer.digest
    start = next(e["valid"]["loss"] for e in second.metrics() if "valid" in e)
    assert start == pytest.approx(first.scores["loss"], abs=0.3)
    with pytest.raises(UserError, match="layers is a fixed part"):
        greffon.pretrain([corpus], out=tmp_path / "third", init_from=first.path, steps=3, layers=7)


def test_a_preset_cannot_change_what_a_run_fixes(corpus: Path, tmp_path: Path) -> None:
    first = pretrain(corpus, tmp_path / "first", steps=1)
    with pytest.raises(UserError, match="preset is a fixed part of"):
        greffon.pretrain([corpus], out=tmp_path / "no", init_from=first.path, preset="lab", steps=1)
    with pytest.raises(UserError, match="muon_learning_rate has no effect with optimizer=adamw"):
        pretrain(corpus, tmp_path / "no", optimizer="adamw", muon_learning_rate=0.1)
    assert not (tmp_path / "no").exists()


def test_a_run_that_diverges_says_so_and_keeps_its_best(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"diverged: 10 steps in a row .* its (loss|gradient) is nan.*lower learning_rate"
    ):
        pretrain(corpus, tmp_path / "run", learning_rate=1e30, muon_learning_rate=1e30)
    assert Run.open(tmp_path / "run").load_model()
    assert not Run.open(tmp_path / "run").finished


def test_another_tokenizer_in_the_run_is_noticed(corpus: Path, tmp_path: Path) -> None:
    run = pretrain(corpus, tmp_path / "run", steps=3)
    greffon.train_tokenizer([corpus], out=run.path / "tokenizer.json", vocab_size=300, force=True)
    with pytest.raises(UserError, match="another tokenizer"):
        greffon.generate(run.path, "Bonjour")
    (run.path / "tokenizer.json").unlink()
    with pytest.raises(UserError, match="lost its tokenizer"):
        greffon.generate(run.path, "Bonjour")


def test_a_run_can_be_resumed_from_another_folder(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = greffon.pretrain(corpus.name, out="run", vocab_size=300, steps=3, quiet=True, **TINY)
    monkeypatch.chdir("/")
    assert greffon.resume(tmp_path / "run", extra_steps=2, quiet=True).checkpoint_step == 5
    assert run.recipe.data.train == (str(corpus),)


def test_estimate_writes_nothing(corpus: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    recipe = greffon.estimate([corpus], vocab_size=400, steps=1000, **TINY)
    shape = {name: value for name, value in TINY.items() if name in vars(recipe.shape)}
    assert recipe.cost["parameters"] == greffon.params(preset="compact", vocab_size=400, **shape).total
    assert sorted(tmp_path.iterdir()) == before


def test_a_config_file_stands_between_defaults_and_command_line(corpus: Path, tmp_path: Path) -> None:
    config = tmp_path / "small.toml"
    config.write_text(
        "vocab_size = 400\nsteps = 3\n[shape]\nlayers = 1\nhidden_size = 16\nheads = 2\n[training]\nbatch_size = 2\n"
    )
    words = [sys.executable, "-m", "greffon", "pretrain", corpus, "--config", config, "--out", tmp_path / "r"]
    subprocess.run([*words, "--layers", "2"], check=True, capture_output=True)
    recipe = json.loads((tmp_path / "r" / "recipe.json").read_text())
    assert (recipe["shape"]["layers"], recipe["shape"]["hidden_size"], recipe["training"]["batch_size"]) == (2, 16, 2)


def test_a_score_in_the_progress_says_of_which_step_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_PLAIN_SECONDS", 0.0)
    told = TrainingProgress(steps=9, done=0)
    told.evaluation(3, {"loss": 2.5})
    step = Step(
        number=5, loss=2.0, learning_rate=0.1, grad_norm=1.0, targets=1, tokens=8, bytes=0, padding=0.0, seconds=0.1
    )
    time.sleep(0.01)
    told.step(step)
    told.evaluation(9, {"loss": 2.25}, averaged=4)
    first, second, third = capsys.readouterr().err.splitlines()
    assert first == "step 3/9 · held out: loss 2.5"
    assert "step 5/9 · loss 2.000" in second
    assert "held out at step 3: loss 2.5" in second
    assert third == "step 9/9 · held out, mean of the last 4 weights: loss 2.25"


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
def test_compiled_blocks_learn_the_same(corpus: Path, tmp_path: Path) -> None:
    runs = [pretrain(corpus, tmp_path / str(on), steps=6, compile=on) for on in (False, True)]
    plain, compiled = ([e["loss"] for e in run.metrics() if "loss" in e] for run in runs)
    assert compiled == pytest.approx(plain, rel=1e-4)
    names = [set(run.load_model().state_dict()) for run in runs]
    assert names[0] == names[1]


def test_compiling_needs_a_compiler(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UserError, match=r"there is no no-such-compiler; install one, or leave it out"):
        pretrain(corpus, tmp_path / "no", steps=2, compile=True)


def test_the_tokenizer_of_a_run_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "recipe.json").write_text('{"objective": "causal"}')
    with pytest.raises(UserError, match="was written by an earlier version of Greffon"):
        make_recipe(["text.txt"], tokenizer=tmp_path / "old", steps=1)
