"""What a run survives beside kills: two processes, damage, changed surroundings."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from survival import FLAGS, TINY, Crash, losses, pretrain, weights

import greffon
from greffon.cli import run as command
from greffon.core.errors import UserError
from greffon.data.corpora import texts_of
from greffon.runs.create import room_for
from greffon.runs.run import Run

# -- going on --------------------------------------------------------------------------------


def test_a_checkpoint_knows_where_training_stands_and_on_what_data(corpus: Path, tmp_path: Path) -> None:
    run = pretrain(corpus, tmp_path / "run", patience=9)
    state = run.checkpoint_state
    assert state["step"] == 12
    assert state["best"]["step"] == run.scores["step"]
    assert state["data"] == run.recipe.data.digest
    assert state["stale"] in range(9)
    assert state["spikes"]["learned"] == 12
    names = {key.partition("/")[0] for key in run.load_checkpoint()[1]}
    assert names == {"model", "optimizer"}


def test_what_changed_is_said_before_it_goes_on(corpus: Path, tmp_path: Path) -> None:
    run = pretrain(corpus, tmp_path / "run")
    with corpus.open("a", encoding="utf-8") as file:
        file.write("Encore une phrase.\n")
    with pytest.warns(UserWarning, match="the text is not the one this run was trained on"):
        greffon.resume(run.path, extra_steps=2, quiet=True)
    folder = next((run.path / "checkpoints").iterdir())
    state = json.loads((folder / "state.json").read_text())
    state["environment"] |= {"torch version": "1.0", "threads": 64}
    from greffon.runs.checkpoints import sealed

    (folder / "state.json").write_text(json.dumps(sealed(state)))
    with pytest.warns(UserWarning, match="results may differ") as said:
        greffon.resume(run.path, extra_steps=2, quiet=True)
    told = " ".join(str(one.message) for one in said)
    assert re.search(r"torch version: 1\.0 before, 2\.\S+ now; results may differ", told)
    assert "threads: 64 before, 1 now" in told


def test_a_finished_run_says_so_also_where_patience_ran_out(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"steps": 60, "learning_rate": 1e-12, "muon_learning_rate": 1e-12, "patience": 2}
    run = pretrain(corpus, tmp_path / "run", **settings)
    stopped = run.checkpoint_step
    assert stopped < 60
    with pytest.raises(
        UserError, match=rf"finished its 60 steps \(it stopped early, at step {stopped}\); .*--extra-steps"
    ):
        greffon.resume(run)
    assert command(["show", str(run.path)]) == 0
    assert "(finished)" in capsys.readouterr().out
    # Killed before it was marked as finished, it does not train on.
    (run.path / "finished").unlink()
    before = losses(run)
    assert greffon.resume(run.path, quiet=True).finished
    assert losses(run) == before
    # To train longer means just that many steps, with new patience.
    longer = greffon.resume(run.path, extra_steps=3, quiet=True)
    assert longer.checkpoint_step == stopped + 3
    longer.drop_checkpoints()
    with pytest.raises(UserError, match="no checkpoint any more"):
        greffon.resume(longer, extra_steps=3)


def test_a_tokenizer_that_the_recipe_does_not_know_yet_is_adopted(corpus: Path, tmp_path: Path) -> None:
    whole = pretrain(corpus, tmp_path / "whole", vocab_size=900)
    assert whole.recipe.vocab_size < 900
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "save_recipe", lambda run, recipe: (_ for _ in ()).throw(Crash))
        begun = greffon.training.pretrain.make_recipe([corpus], vocab_size=900, steps=12, evaluate_every=4, **TINY)
        run = Run(tmp_path / "cut", begun)
        run.path.mkdir()
        with pytest.raises(Crash):
            run.adopt(whole.tokenizer)
    Run.create(run.path, begun)
    assert weights(greffon.resume(run.path, quiet=True)) == weights(whole)


def test_any_step_is_found_at_once(corpus: Path, tmp_path: Path) -> None:
    from greffon.training.jobs import JOBS

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
    from greffon.core import files
    from greffon.runs import run as module

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
        for writer in (files, module):  # of JSON, and of weights
            monkeypatch.setattr(writer, "write_atomically", dying)
        try:
            copy.save_model(fresh, {"loss": 0.5, "step": 9})
        except Crash:
            assert survived < 3
        for writer in (files, module):
            monkeypatch.setattr(writer, "write_atomically", write)
        again = Run.open(copy.path)
        wanted = {"loss": 0.5, "step": 9} if survived > 1 else old
        assert again.scores == wanted
        moved = torch.equal(next(again.load_model().parameters()), next(fresh.parameters()))
        assert moved == (survived > 1)


def test_damage_is_found_wherever_it_is(corpus: Path, tmp_path: Path) -> None:
    run = pretrain(corpus, tmp_path / "run", average_checkpoints=2)
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
    greffon.resume(run.path, extra_steps=1, quiet=True)
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


# -- two processes ---------------------------------------------------------------------------


HOLD = """
import sys, time
from pathlib import Path
from greffon.core.locks import sole_use
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
            greffon.resume(run.path, extra_steps=2, quiet=True)
        with pytest.raises(UserError, match="in use"):
            pretrain(corpus, run.path, force=True)
        assert run.recipe == Run.open(run.path).recipe
        assert greffon.generate(run.path, "Bonjour", max_new_tokens=2)  # readers are welcome
    assert greffon.resume(run.path, extra_steps=2, quiet=True).checkpoint_step == 4


def test_a_run_without_weights_is_not_cleared_under_its_process(corpus: Path, tmp_path: Path) -> None:
    recipe = greffon.training.pretrain.make_recipe([corpus], steps=2, **TINY)
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


# -- small debts -----------------------------------------------------------------------------


def test_an_empty_cell_is_not_the_word_none(tmp_path: Path) -> None:
    from greffon.inference.translate import sentences

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
    assert greffon.resume(run.path, extra_steps=1, quiet=True).checkpoint_step == 2
