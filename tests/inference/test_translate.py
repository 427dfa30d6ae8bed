"""From pairs of sentences to a translator: the whole way, small."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import greffon
from greffon.cli import run as command
from greffon.core.errors import UserError
from greffon.core.own_presets import small
from greffon.core.rng import generator
from greffon.data.tokenizer import Tokenizer
from greffon.runs.run import Run
from greffon.training.pretrain import make_recipe

TINY = {
    "layers": 1,
    "hidden_size": 32,
    "heads": 2,
    "intermediate_size": 64,
    "context": 32,
    "batch_tokens": 400,
    "dropout": 0.1,
}
FLAGS = [word for name, value in TINY.items() for word in (f"--{name.replace('_', '-')}", str(value))]
WORDS = {"one": "un", "two": "deux", "red": "rouge", "blue": "bleu", "dog": "chien", "cat": "chat", "sees": "voit"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs that are translated word by word."""
    folder = tmp_path_factory.mktemp("pairs")
    random = generator(0, "bitext")
    for part, count in (("train", 600), ("valid", 40)):
        lines = [random.choice(list(WORDS), random.integers(2, 6)).tolist() for _ in range(count)]
        (folder / f"{part}.en").write_text("\n".join(" ".join(line) for line in lines) + "\n")
        (folder / f"{part}.fr").write_text("\n".join(" ".join(WORDS[word] for word in line) for line in lines) + "\n")
    return folder


def files(folder: Path) -> dict[str, Path]:
    names = {"source": "train.en", "target": "train.fr", "valid_source": "valid.en", "valid_target": "valid.fr"}
    return {name: folder / file for name, file in names.items()}


def train(folder: Path, out: Path, **more: object) -> Run:
    given = {"vocab_size": 320, "steps": 30, "evaluate_every": 10, "warmup_steps": 5, **files(folder), **TINY, **more}
    return greffon.pretrain(objective="seq2seq", out=out, quiet=True, **given)


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    given = {"steps": 160, "evaluate_every": 40, "learning_rate": 0.02, "muon_learning_rate": 0.02, "dropout": 0.0}
    return train(folder, tmp_path_factory.mktemp("runs") / "run", metric_for_best="bleu", **given)


def test_it_learns_to_translate(run: Run, folder: Path) -> None:
    made = greffon.translate(run, ["two red dog", "one cat sees blue"])
    assert [one.translation for one in made] == ["deux rouge chien", "un chat voit bleu"]
    assert made[0].source == "two red dog"
    assert made[0].score < 0
    assert made == greffon.translate(run, ["one cat sees blue", "two red dog"])[::-1]
    assert greffon.translate(run, "two red dog")[0] == made[0]
    evaluations = [entry["valid"] for entry in run.metrics() if "valid" in entry]
    assert evaluations[-1]["loss"] < 0.3 * evaluations[0]["loss"]
    assert run.scores["bleu"] == max(scores["bleu"] for scores in evaluations) > 80
    assert run.recipe.preset == "small"
    assert greffon.show(run).data == tuple(str(folder / f"train.{language}") for language in ("en", "fr"))
    assert greffon.params(run.path).total == sum(p.numel() for p in run.load_model().parameters())


def test_empty_lines_keep_their_place_and_long_ones_are_cut(run: Run) -> None:
    with pytest.warns(UserWarning, match="1 of 3 sentences are longer than the context of 32 tokens"):
        made = greffon.translate(run, ["two dog", " ", "red " * 60])
    assert [one.translation for one in made][:2] == ["deux chien", ""]
    assert greffon.translate(run, []) == []


def test_the_best_few_come_in_order(run: Run) -> None:
    (made,) = greffon.translate_best(run, "two red dog", n_best=3)
    assert len({one.translation for one in made}) == 3
    assert [one.score for one in made] == sorted((one.score for one in made), reverse=True)
    assert made[0] == greffon.translate(run, "two red dog")[0]
    with pytest.raises(UserError, match="n_best is 5; choose from 1 to beam_size, 4"):
        greffon.translate_best(run, "two", n_best=5)


def test_evaluation_gives_the_scores_of_the_contract(run: Run, folder: Path, tmp_path: Path) -> None:
    scores = greffon.evaluate(run, source=folder / "valid.en", target=folder / "valid.fr")
    assert {"bleu", "bleu_interval", "chrf", "signature", "n"} <= scores.to_json().keys()
    assert scores.n == 40
    assert scores.bleu > 80
    table = tmp_path / "pairs.jsonl"
    sides = [(folder / f"valid.{language}").read_text().splitlines() for language in ("en", "fr")]
    pairs = zip(*sides, strict=True)
    table.write_text("".join(json.dumps({"source": a, "target": b}) + "\n" for a, b in pairs))
    assert greffon.evaluate(run, table) == scores
    (tmp_path / "a").write_text("one\n\ntwo\n")
    with pytest.raises(UserError, match="one side of pair 2 is empty"):
        greffon.evaluate(run, source=tmp_path / "a", target=tmp_path / "a")
    with pytest.raises(UserError, match="give the pairs once"):
        greffon.evaluate(run, source=folder / "valid.en")


def test_the_command_line_says_the_same(run: Run, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["translate", str(run.path), "two red dog", "one cat", "--json"]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["translation"] for one in said] == ["deux rouge chien", "un chat"]
    assert list(said[0]) == ["source", "translation", "score"]
    assert command(["translate", str(run.path), "--file", str(folder / "valid.en"), "--beam-size", "1"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 40
    assert command(["translate", str(run.path), "two red dog", "--n-best", "2"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert command(["translate", str(run.path), "two red dog", "one cat", "--n-best", "2"]) == 0
    assert [bool(line) for line in capsys.readouterr().out.splitlines()] == [True, True, False, True, True]
    words = ["evaluate", str(run.path), "--source", str(folder / "valid.en"), "--target", str(folder / "valid.fr")]
    assert command([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 40
    assert command(words) == 0
    assert capsys.readouterr().out.startswith("BLEU ")


def test_ctrl_c_saves_and_resuming_is_bit_for_bit(folder: Path, tmp_path: Path) -> None:
    whole = train(folder, tmp_path / "whole", steps=80, average_checkpoints=3)
    words = [sys.executable, "-m", "greffon", "pretrain", "--objective", "seq2seq", "--out", tmp_path / "cut"]
    words += [word for name, file in files(folder).items() for word in (f"--{name.replace('_', '-')}", file)]
    words += [
        "--vocab-size",
        "320",
        "--steps",
        "80",
        "--evaluate-every",
        "10",
        "--warmup-steps",
        "5",
        "--average-checkpoints",
        "3",
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([*words, *FLAGS], stderr=subprocess.PIPE, text=True, env=environment)
    deadline = time.monotonic() + 60
    metrics = tmp_path / "cut" / "metrics.jsonl"
    while time.monotonic() < deadline and (not metrics.exists() or metrics.read_text().count("\n") < 20):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert 0 < Run.open(tmp_path / "cut").load_checkpoint()[0]["step"] < 80
    again = greffon.resume(tmp_path / "cut", quiet=True)
    losses = [{e["step"]: e["loss"].hex() for e in r.metrics() if "loss" in e} for r in (whole, again)]
    common = losses[0].keys() & losses[1].keys()
    assert all(losses[0][step] == losses[1][step] for step in common)
    for name in ("model.safetensors", "snapshots/step-000000070.safetensors"):
        assert (whole.path / name).read_bytes() == (again.path / name).read_bytes()


def test_the_last_weights_are_averaged_if_that_is_better(folder: Path, tmp_path: Path) -> None:
    run = train(
        folder,
        tmp_path / "run",
        average_checkpoints=3,
        learning_rate=0.01,
        muon_learning_rate=0.01,
        lr_schedule="constant",
    )
    snapshots = run.snapshots()
    assert len(snapshots) == 3
    (entry,) = [e for e in run.metrics() if "averaged" in e]
    assert (entry["averaged"], entry["step"]) == (3, 30)
    best = min((e for e in run.metrics() if "valid" in e), key=lambda e: e["valid"]["loss"])
    assert run.scores["loss"] == best["valid"]["loss"]
    if best is entry:
        found = run.load_model().body.encoder.embedding.weight
        wanted = sum(one["body.encoder.embedding.weight"] for one in snapshots) / 3
        assert (found - wanted).abs().max() < 1e-6
    longer = greffon.resume(run, extra_steps=5, quiet=True)
    assert longer.load_checkpoint()[0]["step"] == 35


def test_early_stopping_watches_the_score_that_chooses(folder: Path, tmp_path: Path) -> None:
    run = train(
        folder,
        tmp_path / "run",
        steps=500,
        patience=2,
        learning_rate=1e-12,
        muon_learning_rate=1e-12,
        metric_for_best="bleu",
    )
    assert run.finished
    assert run.load_checkpoint()[0]["step"] < 500
    assert run.recipe.training.evaluates(run.load_checkpoint()[0]["step"])


def test_one_table_and_held_out_pairs(folder: Path, tmp_path: Path) -> None:
    sides = [(folder / f"train.{language}").read_text().splitlines() for language in ("en", "fr")]
    table = tmp_path / "pairs.tsv"
    table.write_text("source\ttarget\n" + "".join(f"{a}\t{b}\n" for a, b in zip(*sides, strict=True)))
    run = greffon.pretrain(
        [table], objective="seq2seq", out=tmp_path / "run", vocab_size=300, steps=3, quiet=True, **TINY
    )
    assert run.finished
    assert run.recipe.data.train == (str(table),)


@pytest.mark.parametrize("pairs", [False, True])
def test_sides_start_from_pretrained_bodies(pairs: bool, folder: Path, tmp_path: Path) -> None:
    form = {name: TINY[name] for name in ("layers", "hidden_size", "heads", "intermediate_size", "context")}
    texts = []
    for language in ("en", "fr"):
        texts.append(tmp_path / f"{language}.txt")
        lines = [line.capitalize() for line in (folder / f"train.{language}").read_text().splitlines()]
        texts[-1].write_text("\n\n".join(". ".join(lines[i : i + 6]) + "." for i in range(0, 600, 6)) + "\n")
    tokenizer = tmp_path / "tokenizer.json"
    greffon.train_tokenizer(texts, out=tokenizer, vocab_size=300)
    # The default has a form for each direction of reading; both sides of a translator need the same.
    form |= {"activation": "squared-relu", "norm": "layer", "scale_embeddings": True, "embedding_norm": False,
             "first_norm": True, "head_transform": False, "head_bias": False}  # fmt: skip
    how = {"tokenizer": tokenizer, "steps": 4, "batch_size": 4, "quiet": True, **form}
    bodies = [
        greffon.pretrain([texts[0]], out=tmp_path / "en", objective="masked", next_sentence=pairs, **how),
        greffon.pretrain([texts[1]], out=tmp_path / "fr", **how),
    ]
    run = greffon.pretrain(
        objective="seq2seq",
        out=tmp_path / "run",
        steps=1,
        learning_rate=1e-12,
        muon_learning_rate=1e-12,
        batch_tokens=200,
        encoder_from=bodies[0].path,
        decoder_from=bodies[1].path,
        quiet=True,
        **files(folder),
    )
    assert run.recipe.shape.layers == 1
    assert run.recipe.shape.dropout == small().shape.dropout  # the translator's own
    found = dict(run.load_model().named_parameters())
    encoder, decoder = (dict(body.load_model().named_parameters()) for body in bodies)
    for name, p in encoder.items():
        if name.startswith("body."):  # what judged pairs of texts is left behind
            assert (found[name.replace("body.", "body.encoder.", 1)] - p).abs().max() < 1e-6
    for name, p in decoder.items():
        if "embedding" not in name:
            assert (found[name.replace("body.", "body.decoder.", 1)] - p).abs().max() < 1e-6
    with pytest.raises(UserError, match="layers is a fixed part of"):
        make_recipe([], objective="seq2seq", encoder_from=bodies[0].path, layers=2, steps=1, **files(folder))
    other = greffon.pretrain(
        [texts[0]], out=tmp_path / "other", vocab_size=290, steps=1, batch_size=4, quiet=True, **form
    )
    with pytest.raises(UserError, match="have different tokenizers"):
        make_recipe(
            [], objective="seq2seq", encoder_from=bodies[0].path, decoder_from=other.path, steps=1, **files(folder)
        )
    with pytest.raises(UserError, match="is a seq2seq run; give a pretrained body"):
        make_recipe([], objective="seq2seq", encoder_from=run.path, steps=1, **files(folder))


def test_what_was_copied_is_told(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    form = {name: TINY[name] for name in ("layers", "hidden_size", "heads", "intermediate_size", "context")}
    text = tmp_path / "fr.txt"
    text.write_text((folder / "train.fr").read_text())
    body = greffon.pretrain([text], out=tmp_path / "body", vocab_size=300, steps=2, batch_size=4, quiet=True, **form)
    greffon.pretrain(
        objective="seq2seq", out=tmp_path / "run", steps=1, batch_tokens=200, decoder_from=body.path, **files(folder)
    )
    said = next(line for line in capsys.readouterr().err.splitlines() if "copied" in line)
    assert f"decoder: {4 * 32 * 32 + 3 * 32 * 64 + 3 * 32:,} parameters copied from" in said
    assert f"cross-attention: {4 * 32 * 32 + 32:,} new" in said
    assert "embedding: " in said
    assert "encoder: " in said


def test_a_longer_start_from_another_translator(run: Run, folder: Path, tmp_path: Path) -> None:
    more = greffon.pretrain(
        objective="seq2seq", out=tmp_path / "more", init_from=run.path, steps=2, batch_tokens=300, quiet=True,
        **files(folder),
    )  # fmt: skip
    first = next(e["valid"]["loss"] for e in more.metrics() if "valid" in e)
    assert first == pytest.approx(run.scores["loss"], abs=1e-4)


def test_short_runs_are_evaluated_often_enough_to_choose_from(folder: Path) -> None:
    given = {"objective": "seq2seq", **files(folder)}
    every = [make_recipe([], steps=steps, **given).training.evaluate_every for steps in (3, 60, 999, 1000, 4000)]
    assert every == [1, 12, 200, 200, 200]
    assert make_recipe([], steps=60, evaluate_every=50, **given).training.evaluate_every == 50


def test_files_that_do_not_fit_are_refused_before_anything_is_written(folder: Path, tmp_path: Path) -> None:
    short, table = tmp_path / "short.fr", tmp_path / "table.tsv"
    short.write_text("un\ndeux\n")
    table.write_text("left\tright\na\tb\n")
    lines = len((folder / "train.en").read_text().splitlines())
    with pytest.raises(UserError, match=f"has {lines} lines but .* has 2;"):
        make_recipe([], objective="seq2seq", steps=1, **{**files(folder), "target": short})
    with pytest.raises(UserError, match="left"):
        make_recipe([table], objective="seq2seq", steps=1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"target": None}, "source needs target"),
        ({"valid_source": None}, "valid_target needs valid_source"),
        ({"source": None, "target": None}, "no pairs to train on"),
        ({"source": "nowhere.en"}, "nowhere.en: there is no such file; check source"),
        ({"objective": "causal"}, "source is for translation; add objective=seq2seq"),
        ({"preset": "compact"}, "for seq2seq choose small or base"),
        ({"batch_size": 4}, "batch_tokens sizes a batch of sentence pairs"),
        ({"mix": (1,)}, "mix is for texts"),
        ({"valid": ("x.tsv",)}, "held-out pairs are given twice"),
        ({"label_smoothing": 1.0}, "label_smoothing is 1.0"),
    ],
)
def test_bad_questions_get_one_sentence(folder: Path, change: dict[str, object], said: str) -> None:
    given = {"objective": "seq2seq", "steps": 1, **files(folder), **change}
    with pytest.raises(UserError) as caught:
        make_recipe([], **given)
    assert said in str(caught.value)


def test_a_run_that_is_no_translator_says_what_it_is(run: Run, corpus: Path, tmp_path: Path) -> None:
    form = {name: TINY[name] for name in ("layers", "hidden_size", "heads", "intermediate_size", "context")}
    causal = greffon.pretrain([corpus], out=tmp_path / "lm", vocab_size=300, steps=1, batch_size=2, quiet=True, **form)
    with pytest.raises(UserError, match="is a causal run, no translator; train one with"):
        greffon.translate(causal, "Bonjour")
    with pytest.raises(UserError, match=r"source has no effect on .*, a causal run: it is for translators"):
        greffon.evaluate(causal, source=corpus, target=corpus)
    with pytest.raises(UserError, match="a causal run: it is for classifiers and translators"):
        greffon.evaluate(causal, corpus, int8=True)
    with pytest.raises(UserError, match="a causal run: it is for translators"):
        greffon.evaluate(causal, corpus, backend="ctranslate2")
    with pytest.raises(UserError, match="is a seq2seq run and cannot generate"):
        greffon.generate(run, "Bonjour")
    with pytest.raises(UserError, match="is a translator; give a run with one body"):
        greffon.embed(run, "Bonjour")
    with pytest.raises(UserError, match="no classifier"):
        greffon.classify(run, "Bonjour")
    table = tmp_path / "labels.csv"
    table.write_text("text,label\n" + "".join(f"texte {i},{'ab'[i % 2]}\n" for i in range(20)))
    with pytest.raises(UserError, match="is a translator; fine-tune a pretrained body"):
        greffon.finetune(run, train=table, out=tmp_path / "ft", quiet=True)
    with pytest.raises(UserError, match="is a translator; fine-tune a pretrained body"):
        greffon.compare([run], train=table, out=tmp_path / "cmp", quiet=True)


def test_dry_run_writes_nothing(folder: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    recipe = greffon.estimate(objective="seq2seq", vocab_size=320, steps=100, **files(folder), **TINY)
    assert recipe.cost["seconds_a_step"] > 0
    assert sorted(tmp_path.iterdir()) == before


def test_a_foreign_tokenizer_serves_too(folder: Path, tmp_path: Path) -> None:
    made = Tokenizer.train((folder / "train.en").read_text().splitlines(), 290)
    made.save(tmp_path / "tok.json")
    run = train(folder, tmp_path / "run", vocab_size=None, tokenizer=tmp_path / "tok.json", steps=2)
    assert run.tokenizer.digest == made.digest
