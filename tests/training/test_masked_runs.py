"""From a text file to a masked body, and what it is good for: small but whole."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from in_process import in_process

import greffon
from greffon.cli import run as command
from greffon.cli.outcome import outcome
from greffon.core.errors import UserError
from greffon.core.rng import generator
from greffon.runs.run import Run

pytestmark = pytest.mark.filterwarnings("ignore:the text is too small")

TINY = {"layers": 2, "hidden_size": 32, "heads": 2, "intermediate_size": 64, "context": 48, "batch_size": 8}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = generator(0, "masked")
    pairs = [("chat", "souris"), ("chien", "os"), ("vache", "herbe"), ("oiseau", "graine")]
    lines = []
    for _ in range(400):
        who, what = pairs[random.integers(4)]
        lines.append(f"Le {who} a faim. Le {who} cherche sa {what}. Il mange la {what} du {who}.")
    path = tmp_path_factory.mktemp("text") / "animals.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def masked(text: Path) -> Run:
    return greffon.pretrain(
        [text], out=text.parent / "masked", objective="masked", vocab_size=400, steps=300, quiet=True, **TINY
    )


@pytest.fixture(scope="module")
def pairs(text: Path, masked: Run) -> Run:
    return greffon.pretrain(
        [text], out=text.parent / "pairs", objective="masked", next_sentence=True, tokenizer=masked.path, steps=400,
        quiet=True, **TINY,
    )  # fmt: skip


@pytest.fixture(scope="module")
def causal(text: Path, masked: Run) -> Run:
    return greffon.pretrain([text], out=text.parent / "causal", tokenizer=masked.path, steps=30, quiet=True, **TINY)


@pytest.fixture(scope="module")
def labelled(text: Path) -> dict[str, Path]:
    random = generator(1, "labels")
    files = {}
    for name, count in (("train", 60), ("test", 40)):
        rows = ["text,label"]
        for i in range(count):
            animal = random.choice(["chat", "chien"] if i % 2 else ["vache", "oiseau"])
            rows.append(f"Le {animal} a faim {random.integers(50)},{'poil' if i % 2 else 'autre'}")
        files[name] = text.parent / f"{name}.csv"
        files[name].write_text("\n".join(rows), encoding="utf-8")
    return files


def test_learns_from_both_sides(masked: Run) -> None:
    assert masked.recipe.body == "encoder"
    assert masked.scores["loss"] < 1.5  # log(317) = 5.8 for a guess among all
    found = greffon.fill(masked, "Le chat a faim. Le chat cherche sa [MASK]. Il mange la souris du chat.", top_k=3)
    assert found[0].candidates[0].token == " souris"
    # What comes after decides, too.
    animals = {
        animal: greffon.fill(masked, f"Le [MASK] a faim. Le {animal} cherche sa {food}.")[0].candidates[0].token
        for animal, food in (("chat", "souris"), ("vache", "herbe"))
    }
    assert animals == {"chat": " chat", "vache": " vache"}


def test_fill_gives_probabilities_for_every_mask(masked: Run) -> None:
    found = greffon.fill(masked, "Le [MASK] a [MASK].", top_k=3)
    assert [mask.text for mask in found] == ["Le [MASK] a [MASK]."] * 2
    everything = greffon.fill(masked, "Le [MASK].", top_k=len(masked.tokenizer.ordinary))[0].candidates
    assert sum(candidate.probability for candidate in everything) == pytest.approx(1, abs=1e-4)
    chances = [candidate.probability for candidate in everything]
    assert chances == sorted(chances, reverse=True)
    assert not {c.token for c in everything} & {"<pad>", "<s>", "</s>", "[CLS]", "[SEP]", "[MASK]"}


@pytest.mark.parametrize(
    ("which", "asked", "top", "said"),
    [
        ("masked", "Le chat", 5, r"no \[MASK\]"),
        ("causal", "Le [MASK]", 5, "is a causal run"),
        ("masked", "[MASK] " + "chat " * 80, 5, "reads 48 at a time"),
        ("masked", "[MASK]", 0, "top_k is 0"),
        ("masked", "[MASK]", 9999, "top_k is 9999"),
    ],
)
def test_fill_refuses(masked: Run, causal: Run, which: str, asked: str, top: int, said: str) -> None:
    with pytest.raises(UserError, match=said):
        greffon.fill({"masked": masked, "causal": causal}[which], asked, top_k=top)


def test_next_sentence_logs_both_losses(pairs: Run) -> None:
    entries = pairs.metrics()
    steps = [entry for entry in entries if "loss" in entry]
    assert all(e["loss"] == pytest.approx(e["token_loss"] + e["pair_loss"]) for e in steps)
    held = [entry["valid"] for entry in entries if "valid" in entry]
    assert all({"loss", "bits_per_byte", "pair_loss", "pair_accuracy"} <= set(scores) for scores in held)
    late = [e["pair_loss"] for e in steps if e["step"] > 240]
    assert np.mean(late) < 0.68  # log 2 = 0.693; other documents mostly speak of other animals
    ledger = greffon.params(pairs)
    assert {"segments", "pair head (hidden, out)"} <= {line.name for line in ledger.components}
    assert ledger.total == sum(p.numel() for p in pairs.load_model().parameters())


def test_few_held_out_pairs_are_told(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(f"Le chat {i} dort. Il rêve de la mer." for i in range(60)), encoding="utf-8")
    with pytest.warns(UserWarning, match=r"only \d+ pairs? of sentences held out"):
        greffon.pretrain(
            [text],
            out=tmp_path / "run",
            objective="masked",
            next_sentence=True,
            vocab_size=300,
            steps=1,
            quiet=True,
            **TINY,
        )


def test_next_sentence_needs_documents_of_several_sentences(tmp_path: Path) -> None:
    one = tmp_path / "one.txt"
    one.write_text("Un seul texte. Il a des phrases. Mais il est seul. " * 40, encoding="utf-8")
    flat = tmp_path / "flat.txt"
    flat.write_text("\n".join(f"une ligne sans fin {i}" for i in range(90)), encoding="utf-8")
    common = {"objective": "masked", "next_sentence": True, "vocab_size": 300, "steps": 2, "quiet": True, **TINY}
    with pytest.raises(UserError, match="needs 3 documents or more, and there is 1"):
        greffon.pretrain([one], out=tmp_path / "a", **common)
    with pytest.raises(UserError, match="needs 2 documents or more, and there is 1"):
        greffon.pretrain([one], valid=[flat], out=tmp_path / "b", **common)
    with pytest.raises(UserError, match="no pairs of sentences were found"):
        greffon.pretrain([flat], out=tmp_path / "c", **common)
    with pytest.raises(UserError, match="belongs to objective=masked"):
        greffon.pretrain([flat], out=tmp_path / "d", **{**common, "objective": "causal"})
    with pytest.raises(UserError, match="mask_rate is 0"):
        greffon.pretrain([flat], out=tmp_path / "d", **{**common, "mask_rate": 0.0})
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []  # what was refused leaves nothing


def test_a_run_of_pairs_can_be_started_from(pairs: Run, text: Path, tmp_path: Path) -> None:
    common = {"objective": "masked", "init_from": pairs.path, "steps": 2, "batch_size": 4, "quiet": True}
    run = greffon.pretrain([text], out=tmp_path / "on", next_sentence=False, **common)  # as the command line says it
    assert run.recipe.masking == pairs.recipe.masking
    assert run.recipe.shape == pairs.recipe.shape


def test_few_pairs_are_told(text: Path, masked: Run, tmp_path: Path) -> None:
    mixed = tmp_path / "mixed.txt"
    lines = text.read_text(encoding="utf-8").splitlines()
    mixed.write_text("\n".join([*(f"une ligne {i}" for i in range(900)), *lines[:60]]), encoding="utf-8")
    with pytest.warns(UserWarning, match="of the documents have two sentences"):
        greffon.pretrain(
            [mixed], out=tmp_path / "run", objective="masked", next_sentence=True, tokenizer=masked.path, steps=1,
            quiet=True, **TINY,
        )  # fmt: skip


@pytest.mark.parametrize("which", ["masked", "pairs"])
def test_resuming_is_exact(which: str, text: Path, masked: Run, tmp_path: Path) -> None:
    common = {
        "objective": "masked", "next_sentence": which == "pairs", "tokenizer": masked.path, "dropout": 0.1,
        "lr_schedule": "constant", "quiet": True, **TINY,
    }  # fmt: skip
    half = greffon.pretrain([text], out=tmp_path / "half", steps=4, warmup_steps=1, **common)
    whole = greffon.pretrain([text], out=tmp_path / "whole", steps=8, warmup_steps=1, **common)
    greffon.resume(half, extra_steps=4, quiet=True)

    def losses(run: Run) -> list[str]:
        return [entry["loss"].hex() for entry in run.metrics() if "loss" in entry]

    assert len(losses(half)) == 8
    assert losses(half) == losses(whole)


def test_a_graft_reads_cls_and_transfers_the_whole_body(
    masked: Run, pairs: Run, causal: Run, labelled: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, source in (("plain", masked), ("two", pairs)):
        run = greffon.finetune(source, train=labelled["train"], out=tmp_path / name, epochs=1, head_init="random")
        assert run.recipe.graft.pooling == "cls"
        body = sum(p.numel() for n, p in source.load_model().named_parameters() if n.startswith("body."))
        assert f"body: {body:,} parameters copied; head: new, 66" in capsys.readouterr().err
        assert greffon.evaluate(run, labelled["test"]).n == 40
    with pytest.raises(UserError, match="choose another pooling"):
        greffon.finetune(causal, train=labelled["train"], out=tmp_path / "no", pooling="cls")
    adapted = greffon.finetune(
        masked, train=labelled["train"], out=tmp_path / "adapted", epochs=1, adapt=True, quiet=True
    )
    assert Run.open(adapted.path / "adapted").recipe.objective == "masked"


def test_embeddings_do_not_depend_on_company(masked: Run, causal: Run) -> None:
    texts = ["Le chat a faim.", "La vache cherche son herbe dans le pré du chat.", "Os", ""]
    for run, pools in ((masked, ("cls", "mean", "last")), (causal, ("mean", "last"))):
        for pool in pools:
            together = greffon.embed(run, texts, pooling=pool)
            assert together.shape == (4, 32)
            for row, text in zip(together, texts, strict=True):
                np.testing.assert_allclose(row, greffon.embed(run, text, pooling=pool)[0], atol=1e-5)
    with pytest.raises(UserError, match="choose mean or last"):
        greffon.embed(causal, texts, pooling="cls")
    with pytest.raises(UserError, match="unknown pooling"):
        greffon.embed(masked, texts, pooling="max")
    with pytest.warns(UserWarning, match="1 of 2 texts are longer"):
        greffon.embed(masked, ["chat " * 90, "os"], long_texts="truncate")


def test_many_texts_are_embedded_block_by_block(masked: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"Le chat {'mange ' * number}sa souris." for number in (3, 40, 0, 7, 1)]
    at_once = greffon.embed(masked, texts)
    monkeypatch.setattr("greffon.inference.embed.BLOCK", 2)
    np.testing.assert_allclose(greffon.embed(masked, texts), at_once, atol=1e-5)
    assert greffon.embed(masked, []).shape == (0, 32)


def test_nearest_texts_and_words_in_context(masked: Run) -> None:
    texts = ["Le chien cherche son os.", "Il mange la souris du chat.", "La vache a faim."]
    found = greffon.nearest(masked, "Il mange la souris du chat.", texts, top_k=2)
    assert (found[0].text, found[0].index, len(found)) == (texts[1], 1, 2)
    assert found[0].cosine == pytest.approx(1, abs=1e-5)
    words = greffon.word_vectors(masked, "Le chat mange. Le chat du chien.")
    assert [w.word for w in words] == ["Le", "chat", "mange", ".", "Le", "chat", "du", "chien", "."]
    chats = [w.vector for w in words if w.word == "chat"]
    assert not np.allclose(*chats, atol=1e-3)
    assert [w.word for w in greffon.word_vectors(masked, "L'os du chat")] == ["L'", "os", "du", "chat"]
    assert greffon.nearest(masked, "Le chat", ["", " "], top_k=3) == []
    with pytest.raises(UserError, match="give a shorter one"):
        greffon.word_vectors(masked, "chat " * 90)


def test_several_bodies_are_compared_in_one_report(
    causal: Run, masked: Run, pairs: Run, labelled: dict[str, Path], tmp_path: Path
) -> None:
    with in_process():
        made = greffon.compare(
            [causal, masked, pairs], train=labelled["train"], test=labelled["test"], out=tmp_path / "all", seeds=2,
            epochs=1, quiet=True,
        )  # fmt: skip
    results = json.loads((made.path / "results.json").read_text())
    bodies = ["causal", "masked", "pairs"]
    fresh = ["scratch", "scratch masked", "scratch masked"]  # both look both ways
    assert set(results["arms"]) == {
        *fresh,
        *bodies,
        *(f"frozen {b}" for b in bodies),
        *(f"ensemble {b}" for b in bodies),
        "tfidf",
        "majority",
    }
    assert results["scratch"] == dict(zip(bodies, fresh, strict=True))
    measured = {(d["a"], d["b"]) for d in results["differences"]}
    assert {*zip(bodies, fresh, strict=True)} <= measured
    for name, own in results["scratch"].items():
        recipes = [Run.open(made.path / "arms" / arm / "seed-0").recipe for arm in (name, own)]
        assert [recipe.origin != "" for recipe in recipes] == [True, False]
        assert recipes[0].body == recipes[1].body
        assert replace(recipes[0].shape, segments=0) == recipes[1].shape
    assert {("causal", "masked"), ("causal", "pairs"), ("masked", "pairs")} <= measured
    assert "Among the pretrained runs" in results["verdict"]
    assert 0.5 <= results["arms"]["frozen masked"]["test_accuracy"]["mean"] <= 1
    assert "frozen masked" in made.report.read_text()
    told = "scratch for causal, scratch masked for masked, scratch masked for pairs"
    assert told in made.report.read_text()
    labelled["test"].write_text(labelled["test"].read_text() + "\nLe chien dort,poil", encoding="utf-8")
    with pytest.raises(UserError, match="holds another comparison"):
        greffon.compare(
            [causal, masked, pairs], train=labelled["train"], test=labelled["test"], out=made.path, seeds=2, epochs=1,
            quiet=True,
        )  # fmt: skip


def test_command_line(masked: Run, causal: Run, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["fill", str(masked.path), "Le [MASK] a faim.", "--top-k", "2", "--json"]) == 0
    out, _ = capsys.readouterr()
    found = json.loads(out)
    assert found[0]["text"] == "Le [MASK] a faim."
    assert [set(candidate) for candidate in found[0]["candidates"]] == [{"token", "probability"}] * 2
    assert command(["fill", str(masked.path), "Le [MASK] a [MASK].", "--top-k", "1"]) == 0
    assert capsys.readouterr().out.count("%") == 2
    vectors = tmp_path / "v.npy"
    words = ["embed", str(masked.path), "--file", str(text), "--out", str(vectors)]
    assert command([*words, "--nearest", "Le chat", "--top-k", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert np.load(vectors).shape == (400, 32)
    for wrong in (
        ["fill", str(causal.path), "Le [MASK]"],
        ["embed", str(masked.path), "--file", str(text)],
        ["embed", str(masked.path), "--out", str(vectors)],
        ["embed", str(masked.path), "--file", str(text), "--out", str(tmp_path / "no" / "v.npy")],
        ["generate", str(masked.path), "Bonjour"],
    ):
        assert command(wrong) == 1
        said = capsys.readouterr().err.strip().splitlines()
        assert said[-1].startswith("greffon: ")


def test_evaluate_hides_the_same_tokens_every_time(masked: Run, text: Path) -> None:
    first, second = (greffon.evaluate(masked, text) for _ in range(2))
    assert first == second
    assert first.loss < 1.5


def test_a_loss_says_that_it_is_one_of_hidden_tokens(
    masked: Run, text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["evaluate", str(masked.path), str(text)]) == 0
    assert " nats a hidden token (95 % interval " in capsys.readouterr().out
    assert " nats a hidden token, " in outcome(masked)


def test_dry_run_costs_a_masked_model(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = [
        "--layers",
        "1",
        "--hidden-size",
        "16",
        "--intermediate-size",
        "16",
        "--context",
        "16",
        "--vocab-size",
        "300",
    ]
    words = ["pretrain", str(text), "--objective", "masked", "--steps", "5", "--dry-run", *shape]
    for more in ([], ["--next-sentence"], ["--whole-word-masking", "--mask-rate", "0.3"]):
        assert command([*words, *more]) == 0
        assert "parameters" in capsys.readouterr().out
