"""Every command works on an imported run; what cannot be imported or exported is refused by name."""

import ast
import json
import shlex
import shutil
from pathlib import Path

import checkpoints
import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from test_tokenizer_files import own_run

import greffon
from greffon.cli import run as command
from greffon.core.errors import UserError
from greffon.core.rng import generator
from greffon.runs.huggingface.checkpoint import locate, read_tensors
from greffon.runs.huggingface.companions import inherit_companions
from greffon.runs.run import Run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Imported runs of each kind, a body of the user's own, and labelled texts."""
    path = tmp_path_factory.mktemp("commands")
    made = {
        "bert": checkpoints.bert(path / "their-bert"),
        "gpt2": checkpoints.gpt2(path / "their-gpt2"),
        "marian": checkpoints.marian(path / "their-marian"),
        "classes": checkpoints.bert(path / "their-classes", "ForSequenceClassification", **checkpoints.LABELS),
        "body": checkpoints.bert(path / "their-body", "Model"),
    }
    for name in made:
        greffon.import_checkpoint(path / f"their-{name}", out=path / name, quiet=True)
    own_run("bert-mini", path / "own")
    random = generator(0, "labelled")
    for name in ("train", "test"):
        rows = [("mange", "good") if random.random() < 0.5 else ("regarde", "bad") for _ in range(24)]
        lines = [f"le chat {word} {i} {name},{label}" for i, (word, label) in enumerate(rows)]
        (path / f"{name}.csv").write_text("text,label\n" + "\n".join(lines) + "\n", encoding="utf-8")
    (path / "text.txt").write_text("\n".join(checkpoints.TEXTS), encoding="utf-8")
    (path / "a.en").write_text("\n".join(checkpoints.TEXTS), encoding="utf-8")
    (path / "a.fr").write_text("\n".join(text.upper() for text in checkpoints.TEXTS), encoding="utf-8")
    return path


def test_an_imported_body_stands_beside_ones_own(folder: Path) -> None:
    """Each body has a tokenizer of its own."""
    found = greffon.compare(
        [folder / "own", folder / "bert"], train=folder / "train.csv", test=folder / "test.csv",
        seeds=1, epochs=1, jobs=1, out=folder / "verdict", quiet=True,
    )  # fmt: skip
    assert {"own", "bert", "scratch", "tfidf"} <= found.results.arms.keys()
    digests = {Run.open(folder / "verdict" / "arms" / name / "seed-0").tokenizer.digest for name in ("own", "bert")}
    assert len(digests) == 2
    assert found.results.pretraining["bert"] is None
    assert "bert imported" in found.report.read_text(encoding="utf-8")


def test_fine_tuned_it_can_be_exported_and_labels_travel(folder: Path) -> None:
    run = greffon.finetune(
        folder / "bert",
        train=folder / "train.csv",
        epochs=1,
        context=20,
        head_init="random",
        out=folder / "tuned",
        quiet=True,
    )
    assert run.recipe.shape.context == 20  # the first of its positions
    there = greffon.export(run, to="huggingface", out=folder / "tuned-hf")
    classify = transformers.pipeline("text-classification", model=str(there), top_k=None, device="cpu")
    texts = ["le chat mange 3", "la mère regarde l'été et Paul"]
    for text, ours, theirs in zip(texts, greffon.classify(run, texts), classify(texts), strict=True):
        assert ours.text == text
        for one in theirs:
            assert ours.probabilities[one["label"]] == pytest.approx(one["score"], abs=1e-5)
    card = (there / "README.md").read_text(encoding="utf-8")
    for part in ("## Data", "`train.csv`", "## Recipe", "## Measured figures", "| accuracy |", "## Intended use",
                 "imported from `their-bert`", "`good`", "context: 20 tokens"):  # fmt: skip
        assert part in card, part
    assert str(folder) not in card


def test_a_gpt2_classifier_answers_as_theirs(folder: Path) -> None:
    given = {"train": folder / "train.csv", "epochs": 1, "quiet": True}
    probed = greffon.finetune(folder / "gpt2", out=folder / "probed", **given)
    with pytest.raises(
        UserError, match=r"; fine-tune with pooler_activation=none .*class_bias=False pooling=last head_init=random$"
    ):
        greffon.export(probed, to="huggingface", out=folder / "probed-hf")
    run = greffon.finetune(folder / "gpt2", head_init="random", out=folder / "tuned-2", **given)
    there = greffon.export(run, to="huggingface", out=folder / "tuned-2-hf")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(there).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(there)
    texts = ["le chat mange", "Paul"]
    with torch.no_grad():
        theirs = model(**tokenizer(texts, return_tensors="pt", padding=True)).logits.softmax(-1)
    ours = [[*one.probabilities.values()] for one in greffon.classify(run, texts)]
    np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-5)


def test_an_imported_classifier_classifies(folder: Path) -> None:
    theirs = transformers.pipeline("text-classification", model=str(folder / "their-classes"), top_k=None, device="cpu")
    (ours,) = greffon.classify(folder / "classes", "le chat mange")
    for one in theirs(["le chat mange"])[0]:
        assert ours.probabilities[one["label"]] == pytest.approx(one["score"], abs=1e-5)


def test_fill_equals_theirs(folder: Path) -> None:
    theirs = transformers.pipeline("fill-mask", model=str(folder / "their-bert"), device="cpu", top_k=100)
    (ours,) = greffon.fill(folder / "bert", "le chat [MASK] une pomme.", top_k=3)
    run = Run.open(folder / "bert")
    ordinary = {*run.tokenizer.ordinary.tolist()}
    found = [one for one in theirs("le chat [MASK] une pomme.") if one["token"] in ordinary][:3]
    shares = np.array([c.probability for c in ours.candidates])  # of ordinary tokens; theirs of all
    scores = np.array([one["score"] for one in found])
    np.testing.assert_allclose(shares / shares[0], scores / scores[0], rtol=1e-4)
    assert [c.token.strip() for c in ours.candidates] == [one["token_str"].removeprefix("##") for one in found]


def test_embed_equals_their_states(folder: Path) -> None:
    texts = ["le chat", "la mère mange une pomme."]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "their-body")
    model = transformers.AutoModel.from_pretrained(folder / "their-body").eval()
    for text, vector in zip(texts, greffon.embed(folder / "body", texts), strict=True):
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        np.testing.assert_allclose(vector, states.mean(0).numpy(), atol=1e-5)


def test_the_other_commands(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    at = {name: str(folder / name) for name in ("bert", "gpt2", "marian", "body", "classes")}
    text, out = str(folder / "text.txt"), folder / "more"
    for words in (
        ["import", str(folder / "their-gpt2"), "--out", str(out / "gpt2")],
        ["export", at["gpt2"], "--to", "huggingface", "--out", str(out / "gpt2-hf")],
        *(["show", path] for path in at.values()),
        *(["params", path] for path in at.values()),
        ["generate", at["gpt2"], "le chat", "--max-new-tokens", "5"],
        ["generate", at["gpt2"], "", "--max-new-tokens", "5"],
        ["translate", at["marian"], "le chat mange", ""],
        ["evaluate", at["bert"], text],
        ["evaluate", at["gpt2"], text],
        ["evaluate", at["marian"], "--source", str(folder / "a.en"), "--target", str(folder / "a.fr")],
    ):  # fmt: skip
        assert command(words) == 0, (words, capsys.readouterr().err)
    said = capsys.readouterr().out
    assert "imported    their-bert" in said
    assert "stopped" not in said.partition("imported")[2].partition("\n")[0]
    pairs = {"source": folder / "a.en", "target": folder / "a.fr"}
    greffon.pretrain([text], objective="masked", init_from=at["bert"], steps=2, out=out / "b", quiet=True)
    greffon.pretrain([text], init_from=at["gpt2"], steps=2, out=out / "g", quiet=True)
    greffon.pretrain(objective="seq2seq", **pairs, init_from=at["marian"], steps=2, out=out / "m", quiet=True)
    greffon.finetune(at["body"], train=folder / "train.csv", epochs=1, out=out / "t", quiet=True)
    for words, reason in (
        (["resume", at["bert"], "--extra-steps", "3"], "--init-from"),
        (["fill", at["body"], "[MASK]"], "cannot fill masks"),
        (["evaluate", at["body"], text], "no head"),
        (["export", str(folder / "text.txt"), "--to", "huggingface", "--out", str(out / "x")], "no run at"),
        (["export", at["gpt2"], "--to", "huggingface", "--out", str(out / "gpt2-hf")], "--force"),
        (["import", str(folder / "nowhere"), "--out", str(out / "y")], "no checkpoint at"),
    ):
        assert command(words) == 1, words
        assert reason in capsys.readouterr().err


def test_what_fits_no_family_is_named_and_a_preset_offered(tmp_path: Path) -> None:
    run = own_run("bert-mini", tmp_path / "run", positions="rotary", activation="geglu", head_bias=False)
    with pytest.raises(
        UserError, match=r"is no BERT: positions rotary \(BERT: learned\); head_bias no .*bert-mini fits"
    ):
        greffon.export(run, to="huggingface", out=tmp_path / "there")
    assert not (tmp_path / "there").exists()
    with pytest.raises(UserError, match=r"activation geglu \(BERT: gelu, "):
        greffon.export(run, to="huggingface", out=tmp_path / "there")
    with pytest.raises(UserError, match="huggingface"):
        greffon.export(run, to="hugingface", out=tmp_path / "there")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("mine")
    with pytest.raises(UserError, match="other files in it"):
        greffon.export(own_run("bert-mini", tmp_path / "fits"), to="huggingface", out=tmp_path / "mine")
    assert (tmp_path / "mine" / "letter.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model_type": "t5"}, "model_type 't5' is not supported"),
        ({"architectures": ["BertForQuestionAnswering"]}, "'BertForQuestionAnswering' is not supported"),
        ({"hidden_act": "quick_gelu"}, "hidden_act 'quick_gelu' is not supported"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"is_decoder": True}, "is_decoder is True"),
        ({"auto_map": {"AutoModel": "x.y"}}, "never run"),
        ({"num_attention_heads": 3}, "cannot be cut into 3 heads"),
        ({"num_hidden_layers": 3}, "lacks the tensor bert.encoder.layer.2"),
        ({"num_hidden_layers": 1}, "tensors that have no place"),
        ({"hidden_size": None}, "of the wrong kind"),
        ({"num_hidden_layers": "two"}, "of the wrong kind"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(changes: dict, reason: str, folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "changed"
    source.mkdir()
    for file in (folder / "their-bert").iterdir():
        (source / file.name).write_bytes(file.read_bytes())
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(UserError, match=reason):
        greffon.import_checkpoint(source, out=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("table", [{"0": "a", "2": "b"}, {"0": "a"}, {"0": "a", "1": "a"}, {"no": "a", "yes": "b"}])
def test_labels_must_make_sense(table: dict[str, str], folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "changed"
    source.mkdir()
    for file in (folder / "their-classes").iterdir():
        (source / file.name).write_bytes(file.read_bytes())
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | {"id2label": table}))
    # A single name is that of a score, which these weights are not.
    told = "id2label must name two or more classes" if len(table) > 1 else "restore the files that belong together"
    with pytest.raises(UserError, match=told):
        greffon.import_checkpoint(source, out=tmp_path / "run", quiet=True)


def test_pickled_weights_are_refused_with_a_way_out(folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "pickled"
    source.mkdir()
    for name in ("config.json", "vocab.txt"):
        (source / name).write_bytes((folder / "their-bert" / name).read_bytes())
    with pytest.raises(UserError, match=r"has no model\.safetensors"):
        greffon.import_checkpoint(source, out=tmp_path / "run", quiet=True)
    (source / "pytorch_model.bin").write_bytes(b"\x80\x04")
    with pytest.raises(UserError, match=r"pytorch_model\.bin.*BertForMaskedLM as M.*save_pretrained") as told:
        greffon.import_checkpoint(source, out=tmp_path / "run", quiet=True)
    words = shlex.split(str(told.value).rpartition("convert it: ")[2])
    assert words[:2] == ["python", "-c"]
    ast.parse(words[2])


def test_a_command_never_quotes_what_is_no_name_of_a_class(folder: Path, tmp_path: Path) -> None:
    source = tmp_path / 'it\'s "pickled" $(here)'
    source.mkdir()
    (source / "pytorch_model.bin").write_bytes(b"\x80\x04")
    config = json.loads((folder / "their-bert" / "config.json").read_text())
    for path, named in ((source, "BertForMaskedLM"), (source, 'X; import os as M; os.system("x")')):
        with pytest.raises(UserError) as told:
            read_tensors(path, {**config, "architectures": [named]}, "bert.")
        words = shlex.split(str(told.value).rpartition("convert it: ")[2])
        (imported, listed) = ast.parse(words[2]).body
        assert imported.names[1].name == (named if named.isidentifier() else "AutoModel")
        called = [node.args[0].value for node in ast.walk(listed) if isinstance(node, ast.Call) and node.args]
        assert set(called) == {str(source), f"{source}-safe"}


def test_the_hubs_cache_is_understood(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "models--owner--bert"
    for revision in ("aaa", "bbb"):
        shutil.copytree(folder / "their-bert", cache / "snapshots" / revision)
    with pytest.raises(UserError, match=r"several revisions \(aaa, bbb\)"):
        greffon.import_checkpoint(cache, out=tmp_path / "run", quiet=True)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text("bbb\n")
    assert locate(cache) == cache / "snapshots" / "bbb"
    assert greffon.import_checkpoint(cache, out=tmp_path / "run", quiet=True).finished


def test_the_licence_of_a_checkpoint_travels_along(folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(folder / "their-bert", source)
    (source / "README.md").write_text("---\nlanguage: fr\nlicense: apache-2.0\n---\n# Bert\n")
    (source / "LICENSE").write_text("Apache License\n")
    (source / "NOTICE").write_text("by them\n")
    run = greffon.import_checkpoint(source, out=tmp_path / "run", quiet=True)
    out = greffon.export(run, to="huggingface", out=tmp_path / "out")
    assert (out / "LICENSE").read_text() == "Apache License\n"
    assert (out / "NOTICE").read_text() == "by them\n"
    assert "license: apache-2.0" in (out / "README.md").read_text().split("---")[1].splitlines()
    graph = greffon.export(run, to="onnx", out=tmp_path / "graph")
    assert (graph / "LICENSE").read_text() == "Apache License\n"
    given = {"train": folder / "train.csv", "epochs": 1, "head_init": "random", "quiet": True}
    tuned = greffon.finetune(run, out=tmp_path / "tuned", **given)
    adapted = greffon.finetune(run, out=tmp_path / "adapted", adapt=True, **given)
    for made in (tuned, adapted):
        there = greffon.export(made, to="huggingface", out=tmp_path / f"{made.name}-there")
        assert (there / "LICENSE").read_text() == "Apache License\n"
        card = (there / "README.md").read_text()
        assert "license: apache-2.0" in card.split("---")[1].splitlines()
        assert "## The card of the checkpoint it starts from" in card


def test_two_licences_become_one_file_and_two_cards_none(tmp_path: Path) -> None:
    sides = []
    for name, terms in (("one", "Apache License\n"), ("two", "MIT License\n")):
        sides.append(own_run("bert-mini", tmp_path / name))
        (sides[-1].path / "LICENSE").write_text(terms)
        (sides[-1].path / "NOTICE").write_text("by them\n")
        (sides[-1].path / "card.md").write_text(f"# {name}\n")
    run = own_run("bert-mini", tmp_path / "run")
    inherit_companions(run, sides)
    assert (run.path / "LICENSE").read_text() == "Apache License\n\n\nMIT License\n"
    assert (run.path / "NOTICE").read_text() == "by them\n"
    assert not (run.path / "card.md").exists()


def test_a_damaged_checkpoint_leaves_nothing_behind(folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "torn"
    source.mkdir()
    for file in (folder / "their-bert").iterdir():
        (source / file.name).write_bytes(file.read_bytes())
    whole = (source / "model.safetensors").read_bytes()
    (source / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="cannot read"):
        greffon.import_checkpoint(source, out=tmp_path / "run", quiet=True)
    (source / "model.safetensors").write_bytes(whole)
    config = (source / "config.json").read_text()
    for name, wrong, told in (
        ("hidden_size", 48, r"word_embeddings\.weight is .* by config\.json"),
        ("vocab_size", 7, "says vocab_size 7"),
        ("num_attention_heads", 5, r"config\.json: hidden_size.* 5 heads"),
    ):
        (source / "config.json").write_text(json.dumps(json.loads(config) | {name: wrong}))
        with pytest.raises(UserError, match=told):
            greffon.import_checkpoint(source, out=tmp_path / "run", quiet=True)
    (source / "config.json").write_text(config)
    tensors = load_file(source / "model.safetensors")
    tensors["bert.embeddings.LayerNorm.bias"][0] = float("nan")
    save_file(tensors, source / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match=r"LayerNorm\.bias holds NaN or infinite numbers"):
        greffon.import_checkpoint(source, out=tmp_path / "run", quiet=True)
    (source / "model.safetensors").write_bytes(whole)
    (source / "vocab.txt").unlink()
    with pytest.raises(UserError, match=r"no whole tokenizer; fetch its tokenizer\.json, or vocab\.txt"):
        greffon.import_checkpoint(source, out=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_hf_downloads_only_what_the_user_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub itself is not reached from here: its one function is replaced at the boundary."""
    import huggingface_hub

    asked = []

    def snapshot_download(name: str, allow_patterns: list[str], revision: str | None) -> str:
        asked.append((name, allow_patterns, revision))
        if name != "owner/bert":
            raise OSError("no network")
        return str(folder / "their-bert")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    run = greffon.import_checkpoint("hf:owner/bert", out=tmp_path / "run", quiet=True)
    assert run.recipe.imported == "hf:owner/bert"
    assert (asked[0][0], asked[0][2]) == ("owner/bert", None)
    greffon.import_checkpoint("hf:owner/bert@v1.0", out=tmp_path / "old", quiet=True)
    assert (asked[1][0], asked[1][2]) == ("owner/bert", "v1.0")
    assert not any(pattern.endswith(("bin", "py", "*")) for pattern in asked[0][1])
    with pytest.raises(UserError, match=r"hf:no/body: the download failed \(no network\)"):
        greffon.import_checkpoint("hf:no/body", out=tmp_path / "other", quiet=True)
