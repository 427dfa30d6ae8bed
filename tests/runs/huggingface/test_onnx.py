"""Exported graphs in onnxruntime against our models, for batches of sizes that were not there when they were made."""

import ast
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers

import greffon
from greffon.core.choices import BodyKind, Task
from greffon.core.errors import UserError
from greffon.core.graft import Graft
from greffon.core.presets import PRESETS
from greffon.core.recipe import Data, Masking, Recipe
from greffon.core.rng import generator
from greffon.data.tokenizer import Tokenizer
from greffon.inference.classify import examples_of, outputs
from greffon.nn.build import make_model
from greffon.runs.huggingface.fit import export_note
from greffon.runs.run import Run

onnxruntime = pytest.importorskip("onnxruntime")


def make(path: Path, preset: str, body: BodyKind, graft: Graft | None, task: Task = "classes") -> Run:
    tokenizer = Tokenizer.train(["le chat mange une pomme"], 270)
    found = PRESETS[preset]()
    labels = () if graft is None or task == "regression" else ("bad", "good")
    recipe = Recipe(
        objective="masked" if graft is None else "classify", preset=preset,
        shape=replace(found.shape, layers=2, hidden_size=16, heads=2, intermediate_size=24, context=24, dropout=0.5),
        training=found.training, data=Data(task=task), vocab_size=tokenizer.size, tokenizer_digest=tokenizer.digest,
        body=body, masking=Masking() if graft is None else None, graft=graft, labels=labels,
        score_scale=(40.0, 3.0) if task == "regression" else (),
    )  # fmt: skip
    run = Run.create(path, recipe)
    tokenizer.save(run.path)
    model = make_model(recipe)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.2 * torch.randn_like(p))
    run.save_model(model, {})
    run.mark_finished()
    return run


@pytest.mark.parametrize(
    ("preset", "body", "graft"),
    [
        ("compact", "decoder", Graft()),
        ("compact", "encoder", Graft(concat_embeddings=True)),
        ("lab", "decoder", Graft(pooling="last")),
        ("bert-mini", "encoder", Graft(pooling="cls", pooler_activation="tanh")),
        ("bert-mini", "encoder", None),
    ],
)
def test_a_graph_answers_as_the_model_does(preset: str, body: BodyKind, graft: Graft | None, tmp_path: Path) -> None:
    run = make(tmp_path / "run", preset, body, graft)
    out = greffon.export(run, to="onnx", out=tmp_path / "out")
    session = onnxruntime.InferenceSession(out / "model.onnx", providers=["CPUExecutionProvider"])
    model, random = run.load_model(), generator(0, "onnx")
    part = model.body if graft is None else model
    for texts, length in ((1, 3), (3, 9), (5, 24)):
        tokens = random.integers(6, run.tokenizer.size, (texts, length))
        mask = (np.arange(length) < random.integers(1, length + 1, (texts, 1))).astype(np.int64)
        (found,) = session.run(None, {"input_ids": tokens, "attention_mask": mask})
        with torch.no_grad():
            wanted = part(torch.from_numpy(tokens), torch.from_numpy(mask)).numpy()
        if graft is None:
            found, wanted = found[mask == 1], wanted[mask == 1]
        np.testing.assert_allclose(found, wanted, atol=1e-4)


@pytest.mark.parametrize(("preset", "body"), [("lab", "encoder"), ("bert-mini", "encoder"), ("compact", "decoder")])
def test_an_export_is_whole_without_the_run(preset: str, body: BodyKind, tmp_path: Path) -> None:
    """Text in, labels out, with the files of the directory alone."""
    graft = Graft(pooling="cls", pooler_activation="tanh") if body == "encoder" else Graft()
    run = make(tmp_path / "run", preset, body, graft)
    out = greffon.export(run, to="onnx", out=tmp_path / "out")
    texts = ["le chat mange", "une pomme", "le chat, le chat, le chat"]
    expected = [one.probabilities for one in greffon.classify(run, texts)]
    (tmp_path / "run").rename(tmp_path / "gone")
    config = json.loads((out / "config.json").read_text())
    assert config["vocab_size"] == run.recipe.vocab_size
    given = transformers.AutoTokenizer.from_pretrained(out)(texts, return_tensors="np", padding=True)
    session = onnxruntime.InferenceSession(out / "model.onnx", providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {name: given[name].astype(np.int64) for name in ("input_ids", "attention_mask")})
    shares = torch.from_numpy(logits).softmax(dim=-1).numpy()
    for row, wanted in zip(shares, expected, strict=True):
        assert {config["id2label"][str(i)]: share for i, share in enumerate(row)} == pytest.approx(wanted, abs=1e-4)


HEADS = {
    ("compact", "decoder", "tokens"): Graft(),
    ("bert-mini", "encoder", "tokens"): Graft(),
    ("bert-mini", "encoder", "pairs"): Graft(pooling="cls", pooler_activation="tanh", pair_reading="cross"),
    ("compact", "decoder", "pairs"): Graft(pooling="last", pair_reading="cross"),
    ("compact", "decoder", "regression"): Graft(pooling="last", class_bias=False),
    ("compact", "encoder", "multilabel"): Graft(concat_embeddings=True),
}


@pytest.mark.parametrize(("case", "graft"), HEADS.items())
def test_the_graph_of_each_task_answers_from_text(
    case: tuple[str, BodyKind, Task], graft: Graft, tmp_path: Path
) -> None:
    preset, body, task = case
    run = make(tmp_path / "run", preset, body, graft, task)
    texts = [("le chat", "mange une pomme"), ("une pomme", "le")]
    given = texts if task == "pairs" else [" ".join(pair) for pair in texts]
    wanted = outputs(run, examples_of(run, given))
    out = greffon.export(run, to="onnx", out=tmp_path / "out")
    session = onnxruntime.InferenceSession(out / "model.onnx", providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    assert names == json.loads((out / "greffon.json").read_text())["inputs"]
    (line,) = re.findall(r"for name in (\(.*?\))\}", (out / "README.md").read_text())
    assert [*ast.literal_eval(line)] == names  # what the card tells the reader to give
    assert ("token_type_ids" in names) == (task == "pairs" and preset == "bert-mini")
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    sides = [*zip(*given, strict=True)] if task == "pairs" else [given]
    read = tokenizer(*map(list, sides), return_tensors="np", padding=True, return_token_type_ids=True)
    (found,) = session.run(None, {name: read[name].astype(np.int64) for name in names})
    if task == "tokens":
        for i, (text, ours) in enumerate(zip(given, wanted, strict=True)):
            alone = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
            starts = [
                -1 if special else start
                for (start, _), special in zip(alone["offset_mapping"], alone["special_tokens_mask"], strict=True)
            ]
            words = [match.start() for match in re.finditer(r"\w+", text)]
            logits = torch.from_numpy(found[i, [starts.index(word) for word in words]])
            np.testing.assert_allclose(logits.softmax(-1), ours, atol=1e-4)
        return
    logits = torch.from_numpy(found)
    says = {"regression": logits, "multilabel": logits.sigmoid()}.get(task, logits.softmax(-1))
    np.testing.assert_allclose(says, np.stack(wanted), atol=1e-3 if task == "regression" else 1e-4)


def test_texts_that_are_read_apart_are_refused(tmp_path: Path) -> None:
    run = make(tmp_path / "run", "compact", "encoder", Graft(pooling="mean"), "pairs")
    assert "reads the two texts of a pair each on its own" in export_note(run.recipe)
    for to in ("onnx", "huggingface"):
        with pytest.raises(UserError, match=r"each on its own, .* with pair_reading=cross"):
            greffon.export(run, to=to, out=tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_generators_and_translators_are_refused(tmp_path: Path) -> None:
    run = make(tmp_path / "run", "compact", "decoder", Graft())
    run.save_recipe(replace(run.recipe, objective="causal", graft=None, labels=()))
    with pytest.raises(UserError, match="only classifiers and encoders"):
        greffon.export(run, to="onnx", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
