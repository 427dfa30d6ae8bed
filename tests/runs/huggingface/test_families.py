"""The table of families in the documentation is true, and what a relative of them has beyond it is refused by name."""

import importlib
import json
import re
import shlex
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import checkpoints
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from test_fit import check, recipe_of, run_of
from test_like_transformers import MAKERS

import greffon
from greffon.core.config import read_value
from greffon.core.errors import UserError
from greffon.core.presets import PRESETS
from greffon.core.shape import Shape
from greffon.runs.huggingface.families import FAMILIES, MODEL_TYPES
from greffon.runs.huggingface.fit import fitting_family

IMPORT = importlib.import_module("greffon.cli.import").Args.__doc__
PAGE = Path(__file__).parents[3] / "docs" / "howto-hugging-face.md"


def test_the_table_of_families_is_true() -> None:
    rows = re.findall(
        r"^\| (.+?) \| (`.+?) \| yes \| yes.*? \| `transformers`: (.+?) \|$", PAGE.read_text("utf-8"), re.M
    )
    told = {kind: titles for titles, kinds, _ in rows for kind in re.findall(r"`(.+?)`", kinds)}
    assert told.keys() == MODEL_TYPES.keys()
    for kind, titles in told.items():
        assert MODEL_TYPES[kind].title in titles
    for _, kinds, checked in rows:
        assert {"logits", "tensors", "tokens"} <= {*re.findall(r"\w+", checked)}
        made = any(MODEL_TYPES[kind].body != "encoder" for kind in re.findall(r"`(.+?)`", kinds))
        assert ("generated text" in checked or "translations" in checked) == made
    for page in (PAGE, PAGE.parents[1] / "README.md", PAGE.parents[1] / "CHANGELOG.md"):
        assert all(family.title in page.read_text("utf-8") for family in FAMILIES.values()), page
    assert all(family.title in IMPORT for family in FAMILIES.values())
    assert checkpoints.MAKERS.keys() == MODEL_TYPES.keys()  # of each there is a tokenizer that is compared
    assert MODEL_TYPES.keys() <= MAKERS.keys()  # and a model, there and back


def settings_of(words: str) -> dict[str, Any]:
    """Read flags as the command line does."""
    given = shlex.split(words)
    found = {
        name.removeprefix("--").replace("-", "_"): value for name, value in zip(given[::2], given[1::2], strict=True)
    }
    kinds = {field.name: field.type for field in fields(Shape)}
    return {
        name: value == "true" if kinds[name] is bool else read_value(kinds[name], value, name)
        for name, value in found.items()
    }


@pytest.mark.parametrize("kind", [kind for kind, family in FAMILIES.items() if family.body != "encoder-decoder"])
def test_what_is_offered_for_a_family_fits_it(kind: str, tmp_path: Path) -> None:
    family = FAMILIES[kind]
    preset, _, flags = family.offered.partition(" ")
    objective = "causal" if family.body == "decoder" else "masked"
    shape = replace(PRESETS[preset]().shape_for(objective), **settings_of(flags))
    recipe = recipe_of(preset, objective, family.body, shape)
    if kind not in ("roberta", "distilbert"):  # a BERT is offered for these
        assert fitting_family(recipe) is family
    check(run_of(recipe, tmp_path / "run"), tmp_path / "there")


@pytest.mark.parametrize(
    ("kind", "changes", "reason"),
    [
        ("qwen2", {"use_sliding_window": True}, "use_sliding_window is True"),
        ("qwen2", {"layer_types": ["full_attention", "sliding_attention"]}, "layer_types names other layers"),
        ("qwen3", {"layer_types": "sliding_attention"}, "layer_types names other layers"),
        ("qwen3", {"attention_bias": True}, "attention_bias is True"),
        ("qwen3", {"head_dim": 16}, r"q_proj\.weight is \(24, 16\), and by config\.json it would be \(32, 16\)"),
        ("gpt_neox", {"attention_bias": False}, "attention_bias is False"),
        ("gpt_neox", {"use_parallel_residual": "no"}, "use_parallel_residual is 'no'"),
        ("gpt_neox", {"num_attention_heads": 16, "rope_parameters": {"partial_rotary_factor": 1}}, "1 features"),
        ("eurobert", {"mlp_bias": True}, "mlp_bias is True"),
        ("llama", {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}, "rope_parameters": None}, "'yarn'"),
    ],
)
def test_what_a_relative_has_beyond_it_is_refused(
    kind: str, changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    checkpoints.MAKERS[kind](tmp_path / "theirs")
    config = json.loads((tmp_path / "theirs" / "config.json").read_text())
    (tmp_path / "theirs" / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(UserError, match=reason):
        greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_a_pooling_of_eurobert_that_there_is_not_here_is_refused(tmp_path: Path) -> None:
    checkpoints.eurobert(tmp_path / "theirs", "ForSequenceClassification", classifier_pooling="late")
    with pytest.raises(UserError, match="classifier_pooling 'late' is not supported; known are bos, mean"):
        greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)


def test_code_beside_a_eurobert_is_left_out_as_transformers_does(tmp_path: Path) -> None:
    """Its published checkpoints are older than its place in `transformers`, and carry code that is now there."""
    checkpoints.eurobert(tmp_path / "theirs")
    file = tmp_path / "theirs" / "config.json"
    code = {
        "AutoConfig": "configuration_eurobert.EuroBertConfig",
        "AutoModelForMaskedLM": "modeling_eurobert.EuroBertForMaskedLM",
    }
    file.write_text(json.dumps({**json.loads(file.read_text()), "auto_map": code}))
    for name in ("configuration", "modeling"):
        (tmp_path / "theirs" / f"{name}_eurobert.py").write_text("raise SystemExit('run')")
    run = greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "theirs").eval()
    tokens = torch.randint(5, run.tokenizer.size, (2, 11), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        torch.testing.assert_close(run.load_model()(tokens), theirs(tokens).logits, atol=1e-5, rtol=1e-5)


def test_a_matrix_that_cannot_be_cut_into_heads_is_refused(tmp_path: Path) -> None:
    checkpoints.neox(tmp_path / "theirs")
    file = tmp_path / "theirs" / "model.safetensors"
    tensors = load_file(file)
    name = "gpt_neox.layers.1.attention.query_key_value.weight"
    for wrong in (tensors[name][:-1].clone(), torch.zeros(()), torch.zeros(0, 16)):
        save_file({**tensors, name: wrong}, file, metadata={"format": "pt"})
        with pytest.raises(
            UserError, match=r"query_key_value\.weight is .*, which cannot be cut into 3 parts of 2 heads"
        ):
            greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_the_head_of_a_neox_has_two_names(tmp_path: Path) -> None:
    checkpoints.neox(tmp_path / "theirs")
    file = tmp_path / "theirs" / "model.safetensors"
    tensors = load_file(file)
    older = greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "older", quiet=True).load_model()
    tensors["lm_head.weight"] = tensors.pop("embed_out.weight")
    save_file(tensors, file, metadata={"format": "pt"})
    newer = greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "newer", quiet=True).load_model()
    assert torch.equal(older.head.weight, newer.head.weight)


def test_pieces_and_merges_alone_do_not_say_how_a_qwen_cuts_words(tmp_path: Path) -> None:
    checkpoints.qwen(tmp_path / "theirs")
    (tmp_path / "theirs" / "tokenizer.json").unlink()
    checkpoints.byte_level(tmp_path / "theirs", ["<|endoftext|>", "<|im_end|>"], "Qwen2Tokenizer")
    with pytest.raises(UserError, match=r"no whole tokenizer; fetch its tokenizer\.json$"):
        greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)


def test_heads_that_are_shared_go_to_onnx(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    checkpoints.eurobert(tmp_path / "theirs")
    run = greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)
    out = greffon.export(run, to="onnx", out=tmp_path / "onnx")
    tokens = torch.randint(5, run.tokenizer.size, (2, 11))
    given = {"input_ids": tokens.numpy(), "attention_mask": torch.ones_like(tokens).numpy()}
    found = onnxruntime.InferenceSession(out / "model.onnx").run(None, given)[0]
    with torch.no_grad():
        torch.testing.assert_close(torch.from_numpy(found), run.load_model().body(tokens), atol=1e-4, rtol=1e-4)


def test_an_encoder_whose_texts_have_no_end_is_refused(tmp_path: Path) -> None:
    checkpoints.eurobert(tmp_path / "theirs")
    file = tmp_path / "theirs" / "tokenizer.json"
    content = json.loads(file.read_text())
    del content["post_processor"]["single"][-1]
    file.write_text(json.dumps(content))
    assert len(transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")("")["input_ids"]) == 1
    with pytest.raises(UserError, match="puts 1 special tokens around a text"):
        greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)
