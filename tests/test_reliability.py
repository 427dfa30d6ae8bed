"""What a run survives beside kills: full disks, two processes, numbers that go wrong, damage, changed surroundings."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import greffon
from greffon.cli import run as command
from greffon.errors import UserError
from greffon.fit import fit
from greffon.health import IN_A_ROW, KNOWN, Health
from greffon.room import room_for
from greffon.run import Run
from greffon.text.corpora import texts_of

TINY = {"layers": 1, "width": 16, "heads": 2, "feed_forward": 32, "context": 24, "rows": 4, "dropout": 0.1}
FLAGS = [word for name, value in TINY.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def pretrain(corpus: Path, out: Path, **more: Any) -> Run:
    settings = {"steps": 12, "evaluate_every": 4, "vocabulary": 300, **TINY, **more}
    return greffon.pretrain([corpus], out=out, quiet=True, **settings)


def weights(run: Run) -> bytes:
    return (run.path / "model.safetensors").read_bytes()


def losses(run: Run) -> dict[int, str]:
    return {e["step"]: e["loss"].hex() for e in run.metrics() if "loss" in e}


class Crash(Exception):  # noqa: N818
    """The power goes."""


# -- going on --------------------------------------------------------------------------------


def test_a_checkpoint_knows_where_training_stands_and_on_what_data(corpus: Path, tmp_path: Path) -> None:
    run = pretrain(corpus, tmp_path / "run", patience=9)
    state = run.checkpoint_state
    assert state["step"] == 12
    assert state["best"]["step"] == run.scores["step"]
    assert state["data"] == run.recipe.data.digest
    assert state["stale"] in range(9)
    assert state["health"]["learned"] == 12
    names = {key.partition("/")[0] for key in run.load_checkpoint()[1]}
    assert names == {"model", "optimiser"}


def test_what_changed_is_said_before_it_goes_on(corpus: Path, tmp_path: Path) -> None:
    run = pretrain(corpus, tmp_path / "run")
    with corpus.open("a", encoding="utf-8") as file:
        file.write("Encore une phrase.\n")
    with pytest.warns(UserWarning, match="the text is not the one this run was trained on"):
        greffon.resume(run.path, more=2, quiet=True)
    folder = next((run.path / "checkpoints").iterdir())
    state = json.loads((folder / "state.json").read_text())
    state["environment"] |= {"torch version": "1.0", "threads": 64}
    from greffon.run import sealed

    (folder / "state.json").write_text(json.dumps(sealed(state)))
    with pytest.warns(UserWarning, match="results may differ") as said:
        greffon.resume(run.path, more=2, quiet=True)
    told = " ".join(str(one.message) for one in said)
    assert re.search(r"torch version: 1\.0 before, 2\.\S+ now; results may differ", told)
    assert "threads: 64 before, 1 now" in told


def test_a_finished_run_says_so_also_where_patience_ran_out(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"steps": 60, "rate": 1e-12, "matrix_rate": 1e-12, "patience": 2}
    run = pretrain(corpus, tmp_path / "run", **settings)
    stopped = run.checkpoint_step
    assert stopped < 60
    with pytest.raises(UserError, match=rf"finished its 60 steps \(it stopped early, at step {stopped}\); .*--more"):
        greffon.resume(run)
    assert command(["show", str(run.path)]) == 0
    assert "(finished)" in capsys.readouterr().out
    # Killed before it was marked as finished, it does not train on.
    (run.path / "finished").unlink()
    before = losses(run)
    assert greffon.resume(run.path, quiet=True).finished
    assert losses(run) == before
    # To train longer means just that many steps, with new patience.
    longer = greffon.resume(run.path, more=3, quiet=True)
    assert longer.checkpoint_step == stopped + 3
    longer.drop_checkpoints()
    with pytest.raises(UserError, match="no checkpoint any more"):
        greffon.resume(longer, more=3)


def test_a_tokenizer_that_the_recipe_does_not_know_yet_is_adopted(corpus: Path, tmp_path: Path) -> None:
    whole = pretrain(corpus, tmp_path / "whole", vocabulary=900)
    assert whole.recipe.vocabulary < 900
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "save_recipe", lambda run, recipe: (_ for _ in ()).throw(Crash))
        begun = greffon.pretraining.make_recipe([corpus], vocabulary=900, steps=12, evaluate_every=4, **TINY)
        run = Run(tmp_path / "cut", begun)
        run.path.mkdir()
        with pytest.raises(Crash):
            run.adopt(whole.tokenizer)
    Run.create(run.path, begun)
    assert weights(greffon.resume(run.path, quiet=True)) == weights(whole)


def test_any_step_is_found_at_once(corpus: Path, tmp_path: Path) -> None:
    from greffon.jobs import JOBS

    run = pretrain(corpus, tmp_path / "run", steps=1)
    job = JOBS["causal"](run.recipe, run.tokenizer)
    job.batches(0)
    started = time.process_time()
    job.batches(10**12)
    assert time.process_time() - started < 0.5


# -- checkpoints and weights -----------------------------------------------------------------


def test_weights_can_be_checked_at_every_moment_of_their_replacement(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from greffon import run as module

    run = pretrain(corpus, tmp_path / "run", steps=1)
    fresh = run.load_model()
    with torch.no_grad():
        for p in fresh.parameters():
            p.add_(1.0)
    write, old = module.write_atomically, run.scores
    for survived in range(4):
        done = 0

        def dying(path: Path, content: bytes, survived: int = survived) -> None:
            nonlocal done
            if done == survived:
                raise Crash
            done += 1
            write(path, content)

        copy = Run.open(shutil.copytree(run.path, tmp_path / f"copy{survived}"))
        monkeypatch.setattr(module, "write_atomically", dying)
        try:
            copy.save_model(fresh, {"loss": 0.5, "step": 9})
        except Crash:
            assert survived < 3
        monkeypatch.setattr(module, "write_atomically", write)
        again = Run.open(copy.path)
        wanted = {"loss": 0.5, "step": 9} if survived > 1 else old
        assert again.scores == wanted
        moved = torch.equal(next(again.load_model().parameters()), next(fresh.parameters()))
        assert moved == (survived > 1)


def test_damage_is_found_wherever_it_is(corpus: Path, tmp_path: Path) -> None:
    run = pretrain(corpus, tmp_path / "run", average=2)
    folder = next((run.path / "checkpoints").iterdir())
    (run.path / "finished").unlink()
    snapshot = sorted((run.path / "snapshots").glob("*.safetensors"))[0]
    for file in (folder / "tensors.safetensors", folder / "state.json", snapshot):
        sound = file.read_bytes()
        flipped = bytearray(sound)
        flipped[len(sound) // 2] ^= 1
        file.write_bytes(flipped)
        with pytest.raises(UserError, match=r"damaged|cannot read"):
            greffon.resume(run.path, quiet=True)
        file.write_bytes(sound)
    (run.path / "manifest.json").unlink()
    with pytest.raises(UserError, match=r"lost its manifest\.json"):
        run.load_model()


def test_torn_files_are_swept_and_the_same_step_can_be_saved_again(corpus: Path, tmp_path: Path) -> None:
    run = pretrain(corpus, tmp_path / "run", steps=4)
    torn = [run.path / ".recipe.json.1.part", run.path / "checkpoints" / ".step-000000009.1.part"]
    torn[0].write_text("{")
    torn[1].mkdir()
    greffon.resume(run.path, more=1, quiet=True)
    assert not any(path.exists() for path in torn)
    for value in (1.0, 2.0, 3.0):
        run.save_checkpoint(5, {"model/a": torch.full((2,), value)}, {"stale": 0})
        assert run.checkpoint_step == 5
        assert run.load_checkpoint()[1]["model/a"][0] == value
        assert len(list((run.path / "checkpoints").iterdir())) == 1


def test_a_replacement_killed_half_way_gives_the_old_run_back(corpus: Path, tmp_path: Path) -> None:
    run = pretrain(corpus, tmp_path / "run", steps=2)
    before = weights(run)
    run.path.rename(tmp_path / ".run.replaced")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.json").write_text("{}")
    with pytest.raises(UserError, match="holds a run already"), room_for(tmp_path / "run", force=False):
        pass
    assert weights(Run.open(tmp_path / "run")) == before
    assert not (tmp_path / ".run.replaced").exists()


def test_nothing_is_written_through_a_memory_map() -> None:
    source = Path(greffon.__file__).parent
    for path in source.rglob("*.py"):
        for call in re.findall(r"(?:memmap|mmap_mode|open_memmap)[^\n]*", path.read_text(encoding="utf-8")):
            assert not re.search(r"""["'](r\+|w\+|c)["']""", call), (path, call)


# -- disks -----------------------------------------------------------------------------------


@contextmanager
def disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """A small disk of its own."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "greffon-test", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command here, so no small disk")
    if done.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_ends_in_a_sentence_and_resuming_is_bit_for_bit(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = pretrain(corpus, tmp_path / "whole")
    capsys.readouterr()
    with disk(tmp_path / "disk", kilobytes=400) as small:
        run = small / "run"
        words = ["pretrain", corpus, "--out", run, "--steps", "12", "--evaluate-every", "4", "--vocabulary", "300"]

        def fill_up(*arguments: Any, **more: Any) -> Any:
            for made in fit(*arguments, **more):
                if made.number == 7 and (run / "checkpoints").exists():  # not while it is timed
                    (small / "ballast").write_bytes(b"x" * (os.statvfs(small).f_bavail * os.statvfs(small).f_frsize))
                yield made

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("greffon.train.fit", fill_up)
            assert command([str(word) for word in (*words, *FLAGS)]) == 1
        said = capsys.readouterr().err.strip().splitlines()[-1]
        assert "No space left on device" in said
        assert f"greffon resume {run}" in said
        assert "the checkpoint of step 4 is whole" in said
        assert Run.open(run).load_checkpoint()[0]["step"] == 4
        Run.open(run).load_model()
        assert command(["resume", str(run)]) == 1  # still full
        assert "No space left" in capsys.readouterr().err
        (small / "ballast").unlink()
        assert command(["resume", str(run)]) == 0
        assert weights(Run.open(run)) == weights(whole)
        common = losses(whole).keys() & losses(Run.open(run)).keys()
        assert all(losses(whole)[step] == losses(Run.open(run))[step] for step in common)


def test_a_read_only_directory_ends_in_a_sentence(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with disk(tmp_path / "disk", kilobytes=4000) as small:
        run = pretrain(corpus, small / "run", steps=2)
        before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
        subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
        for words in (
            ["resume", run.path, "--more", "3"],
            ["pretrain", corpus, "--out", small / "new", "--steps", "2"],
        ):
            assert command([str(word) for word in words]) == 1
            assert "Read-only file system" in capsys.readouterr().err
        assert greffon.generate(run.path, "Bonjour", tokens=2).tokens <= 2
        assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before


# -- two processes ---------------------------------------------------------------------------


HOLD = """
import sys, time
from pathlib import Path
from greffon.locks import sole_use
with sole_use(Path(sys.argv[1])):
    print("ready", flush=True)
    time.sleep(120)
"""


@contextmanager
def another_process_in(folder: Path) -> Iterator[int]:
    """A process that uses a directory until it is killed."""
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "ready\n"
    try:
        yield other.pid
    finally:
        other.kill()
        other.wait()
        other.stdout.close()


def test_a_second_process_is_refused_until_the_first_is_gone_even_if_killed(corpus: Path, tmp_path: Path) -> None:
    run = pretrain(corpus, tmp_path / "run", steps=2)
    with another_process_in(run.path) as pid:
        with pytest.raises(UserError, match=f"in use by process {pid}"):
            greffon.resume(run.path, more=2, quiet=True)
        with pytest.raises(UserError, match="in use"):
            pretrain(corpus, run.path, force=True)
        assert run.recipe == Run.open(run.path).recipe
        assert greffon.generate(run.path, "Bonjour", tokens=2)  # readers are welcome
    assert greffon.resume(run.path, more=2, quiet=True).checkpoint_step == 4


def test_a_run_without_weights_is_not_cleared_under_its_process(corpus: Path, tmp_path: Path) -> None:
    recipe = greffon.pretraining.make_recipe([corpus], steps=2, **TINY)
    Run.create(tmp_path / "run", recipe)
    with another_process_in(tmp_path / "run"), pytest.raises(UserError, match="in use"):
        pretrain(corpus, tmp_path / "run")
    assert pretrain(corpus, tmp_path / "run").finished


def test_only_our_own_directories_are_cleared(corpus: Path, tmp_path: Path) -> None:
    for names in ([".lock", "photo.jpg"], ["tokenizer.json"], ["notes.txt"]):
        folder = tmp_path / names[-1].partition(".")[0]
        folder.mkdir()
        for name in names:
            (folder / name).write_text("mine")
        with pytest.raises(UserError, match="other files in it"):
            pretrain(corpus, folder)
        assert sorted(path.name for path in folder.iterdir()) == sorted(names)


# -- signals outside the loop ----------------------------------------------------------------


def test_sigterm_is_heard_before_the_loop_too(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("".join(f"Le mot numéro {i} et {i * 7919 % 100003}\n" for i in range(120_000)), encoding="utf-8")
    words = [sys.executable, "-m", "greffon", "pretrain", text, "--out", tmp_path / "run", "--steps", "3", *FLAGS]
    process = subprocess.Popen([str(word) for word in words], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert process.stderr.readline().startswith("training a tokenizer")
    process.terminate()
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 143, said
    assert f"go on with: greffon resume {tmp_path / 'run'}" in said
    assert "Traceback" not in said
    assert not Run.open(tmp_path / "run").has_model


# -- numbers ---------------------------------------------------------------------------------


@contextmanager
def poisoned(bad: dict[int, float]) -> Iterator[None]:
    """Multiply the loss of some steps (0: the first) by what they say, and with it the gradient."""

    def wrapped(model: Any, objective: Any, batches: Any, *rest: Any) -> Any:
        now = {"step": 0}

        class Poison:
            def score(self, model: Any, batch: Any) -> Any:
                score = objective.score(model, batch)
                factor = bad.get(now["step"], 1.0) if model.training else 1.0
                return replace(score, loss=score.loss * factor)

        def looked_up(step: int) -> Any:
            now["step"] = step
            return batches(step)

        return fit(model, Poison(), looked_up, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("greffon.train.fit", wrapped)
        yield


def test_steps_that_go_wrong_are_skipped_logged_and_counted(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = {3: float("nan"), 24: 1000.0, 25: float("inf")}
    with poisoned(bad):
        run = pretrain(corpus, tmp_path / "run", steps=30, evaluate_every=10)
    skipped = {e["step"]: e["skipped"] for e in run.metrics() if "skipped" in e}
    assert list(skipped) == [4, 25, 26]
    assert "nan" in skipped[4]
    assert re.search(r"its loss is \d.*, usual is ", skipped[25])
    assert "inf" in skipped[26]
    assert run.finished
    assert run.checkpoint_state["health"]["skipped"] == 3
    assert all(torch.isfinite(p).all() for p in run.load_model().parameters())
    assert all(line == json.dumps(json.loads(line)) and "NaN" not in line for line in lines_of(run))
    with poisoned(bad), crash_inside(28):
        pretrain(corpus, tmp_path / "cut", steps=30, evaluate_every=10)
    with poisoned(bad):
        again = greffon.resume(tmp_path / "cut", quiet=True)
    assert weights(again) == weights(run)
    assert again.checkpoint_state["health"] == run.checkpoint_state["health"]


def lines_of(run: Run) -> list[str]:
    return (run.path / "metrics.jsonl").read_text().splitlines()


@contextmanager
def crash_inside(step: int) -> Iterator[None]:
    """Crash at a step of a training whose loop is replaced already."""
    import greffon.train

    inner = greffon.train.fit

    def dying(*arguments: Any) -> Any:
        for made in inner(*arguments):
            if made.number == step:
                raise Crash
            yield made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("greffon.train.fit", dying)
        with pytest.raises(Crash):
            yield


def test_many_in_a_row_stop_at_the_last_good_checkpoint(corpus: Path, tmp_path: Path) -> None:
    bad = dict.fromkeys(range(9, 40), float("nan"))
    with poisoned(bad), pytest.raises(UserError, match="diverged") as caught:
        pretrain(corpus, tmp_path / "run", steps=40, evaluate_every=4)
    said = str(caught.value)
    assert f"{IN_A_ROW} steps in a row" in said
    assert "its last good checkpoint, step 8" in said
    assert "lower --rate" in said
    run = Run.open(tmp_path / "run")
    assert run.checkpoint_step == 8
    assert not run.finished
    healthy = greffon.resume(run.path, quiet=True)
    assert weights(healthy) == weights(pretrain(corpus, tmp_path / "whole", steps=40, evaluate_every=4))


def test_hard_texts_are_no_spikes_and_spikes_can_be_allowed() -> None:
    training = greffon.Training()
    for factor, skipped in ((4.0, False), (6.0, True)):
        health = Health()
        for _ in range(KNOWN):
            assert health.judge(2.0, 0.5, training) == ""
        assert bool(health.judge(factor * 2.0, 0.5, training)) is skipped
        assert bool(health.judge(2.0, factor * 100 * training.clip, training)) is skipped
        assert health.judge(factor * 2.0, 1e9, replace(training, spike=0.0)) == ""
    easy = Health()
    for _ in range(50):
        easy.judge(1e-4, 1e-4, training)
    assert easy.judge(3.0, 50.0, training) == ""  # one hard text among easy ones
    with pytest.raises(UserError, match=r"spike is 0\.5"):
        greffon.Training(spike=0.5)


# -- small debts -----------------------------------------------------------------------------


def test_an_empty_cell_is_not_the_word_none(tmp_path: Path) -> None:
    from greffon.translation import sentences

    table = tmp_path / "table.jsonl"
    table.write_text('{"source": "one cat"}\n{"source": null}\n')
    with pytest.raises(UserError, match=r"table\.jsonl:2: 'source' must be a string, not null"):
        sentences(table)
    table.write_text('{"source": "one cat"}\n{"source": ""}\n')
    assert sentences(table) == texts_of(table, "source") == ["one cat", ""]


@pytest.mark.skipif(sys.platform == "darwin", reason="this file system has Unicode names only")
def test_a_file_whose_name_is_no_unicode(corpus: Path, tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"caf\xe9.txt")
    shutil.copy(corpus, odd)
    run = pretrain(odd, tmp_path / "run", steps=1)
    assert greffon.resume(run.path, more=1, quiet=True).checkpoint_step == 2
