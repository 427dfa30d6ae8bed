"""GGUF files: read back with `gguf`, tensor by tensor, and with the reader of `transformers`, logit by logit."""

import json
from pathlib import Path

import checkpoints
import numpy as np
import pytest
import tokenizers
import torch
import transformers
from safetensors.torch import load_file
from tiny import TinyRuns
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

import greffon
from greffon.core.errors import UserError
from greffon.core.rng import generator
from greffon.data.tokenizer import Tokenizer
from greffon.runs.run import Run

gguf = pytest.importorskip("gguf")

NAMES = {
    "llama": ["attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"],
    "gpt2": ["attn_norm", "attn_qkv", "attn_output", "ffn_norm", "ffn_up", "ffn_down"],
}
NAMES |= {
    "qwen2": NAMES["llama"], "qwen3": [*NAMES["llama"], "attn_q_norm", "attn_k_norm"], "gptneox": NAMES["gpt2"],
}  # fmt: skip
READABLE = [kind for kind in NAMES if kind != "gptneox"]
"""Of GPT-NeoX, `transformers` reads no GGUF."""
NEOX = {"norm": "layer", "bias": True, "partial_rotary_factor": 0.5}


@pytest.fixture(scope="module")
def runs(tiny: TinyRuns) -> dict[str, Run]:
    gpt2 = tiny.body("gpt2", preset="gpt2-mini", steps=1, intermediate_size=64)
    qwen2 = tiny.body("qwen2", steps=1, qkv_bias=True, key_value_heads=1)
    qwen3 = tiny.body("qwen3", steps=1, qk_norm=True, key_value_heads=1, head_dim=32, tie_embeddings=False)
    neox = tiny.body("neox", steps=1, activation="gelu", **NEOX)
    return {"llama": tiny.causal, "gpt2": gpt2, "qwen2": qwen2, "qwen3": qwen3, "gptneox": neox}


def read(file: Path) -> tuple[dict[str, object], dict[str, np.ndarray], dict[str, str]]:
    """The settings, the dequantized tensors, and how each is stored."""
    reader = gguf.GGUFReader(file)
    settings = {name: field.contents() for name, field in reader.fields.items()}
    tensors = {t.name: gguf.quants.dequantize(t.data, t.tensor_type) for t in reader.tensors}
    return settings, tensors, {t.name: t.tensor_type.name for t in reader.tensors}


def logits(folder: Path, tokens: torch.Tensor, config: Path) -> np.ndarray:
    """Read the weights as `transformers` does; it takes the sizes of a GPT-2 from its config.json."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file="model.gguf", config=transformers.AutoConfig.from_pretrained(config), dtype=torch.float32
    ).eval()
    with torch.no_grad():
        found: np.ndarray = model(tokens).logits.numpy()
    return found


@pytest.mark.parametrize("kind", READABLE)
@pytest.mark.parametrize(("precision", "tolerance"), [(None, 1e-5), ("f16", 5e-3), ("q8_0", 0.1)])
def test_another_reader_computes_the_same(
    kind: str, precision: str | None, tolerance: float, runs: dict[str, Run], tmp_path: Path
) -> None:
    run = runs[kind]
    out = greffon.export(run, to="gguf", out=tmp_path / "gguf", quantize=precision)
    tokens = torch.from_numpy(generator(0, "gguf").integers(6, run.tokenizer.size, (3, 20)))
    found = logits(out, tokens, greffon.export(run, to="huggingface", out=tmp_path / "hf"))
    with torch.no_grad():
        expected = run.load_model()(tokens).numpy()
    np.testing.assert_allclose(found, expected, atol=tolerance)


@pytest.mark.parametrize("kind", NAMES)
def test_tensors_settings_and_tokenizer_are_read_back(kind: str, runs: dict[str, Run], tmp_path: Path) -> None:
    run, shape = runs[kind], runs[kind].recipe.shape
    settings, tensors, stored = read(greffon.export(run, to="gguf", out=tmp_path / "gguf") / "model.gguf")
    assert {name.split(".")[2] for name in tensors if name.startswith("blk.1.")} == set(NAMES[kind])
    assert {*stored.values()} == {"F32"}
    assert settings["general.architecture"] == kind
    for name, value in (
        ("block_count", shape.layers),
        ("context_length", shape.context),
        ("embedding_length", shape.hidden_size),
        ("feed_forward_length", shape.intermediate_size),
        ("attention.head_count", shape.heads),
    ):
        assert settings[f"{kind}.{name}"] == value
    theirs = load_file(greffon.export(run, to="huggingface", out=tmp_path / "hf") / "model.safetensors")
    if kind == "llama":
        for i in range(shape.layers):
            for ours, other in (("q", "q_proj"), ("k", "k_proj")):
                matrix = tensors.pop(f"blk.{i}.attn_{ours}.weight")
                heads, width = shape.heads, shape.hidden_size
                pairs = matrix.reshape(heads, width // heads // 2, 2, width)  # neighbours rotate together
                apart = np.concatenate([pairs[:, :, 0], pairs[:, :, 1]], axis=1).reshape(width, width)
                np.testing.assert_array_equal(apart, theirs.pop(f"model.layers.{i}.self_attn.{other}.weight").numpy())
    if kind == "gptneox":
        np.testing.assert_array_equal(tensors.pop("output.weight"), tensors["token_embd.weight"])
        assert settings["gptneox.use_parallel_residual"] is False
        assert settings["gptneox.rope.dimension_count"] == shape.rotated
        own = dict(run.load_model().named_parameters())
        for i in range(shape.layers):
            for part in ("weight", "bias"):
                names = [f"body.blocks.{i}.attention.{name}.{part}" for name in ("query", "key", "value")]
                stacked = np.concatenate([own[name].detach().numpy() for name in names])
                np.testing.assert_array_equal(tensors[f"blk.{i}.attn_qkv.{part}"], stacked)
    found = sorted(float(np.abs(tensor).sum(dtype=np.float64)) for tensor in tensors.values())
    expected = sorted(float(tensor.abs().double().sum()) for tensor in theirs.values())
    np.testing.assert_allclose(found, expected, rtol=1e-12)  # each other one is there, once
    _check_tokenizer(settings, run)


def _check_tokenizer(settings: dict[str, object], run: Run) -> None:
    pieces = run.tokenizer.backend.pieces
    listed = settings["tokenizer.ggml.tokens"]
    assert len(listed) == run.recipe.vocab_size
    assert all(listed[id] == piece for piece, id in pieces.items())
    assert settings["tokenizer.ggml.model"] == "gpt2"
    assert settings["tokenizer.ggml.bos_token_id"] == run.tokenizer.start
    assert settings["tokenizer.ggml.eos_token_id"] == run.tokenizer.end
    kinds = settings["tokenizer.ggml.token_type"]
    assert kinds[run.tokenizer.mask] == gguf.TokenType.CONTROL
    assert kinds[pieces["a"]] == gguf.TokenType.NORMAL
    whole = tokenizers.Tokenizer.from_str(settings["tokenizer.huggingface.json"])
    text = "L'été, l'enfant a 12345 pommes…  et 树"
    assert whole.encode(text, add_special_tokens=False).ids == run.tokenizer.encode(text)
    merges = [tuple(merge.split(" ")) for merge in settings["tokenizer.ggml.merges"]]
    assert merges == [tuple(merge) for merge in json.loads(run.tokenizer.backend.serialised)["model"]["merges"]]


def test_precisions_store_matrices_smaller_and_vectors_whole(runs: dict[str, Run], tmp_path: Path) -> None:
    _, whole, _ = read(greffon.export(runs["llama"], to="gguf", out=tmp_path / "f32") / "model.gguf")
    for precision, kind in (("f16", "F16"), ("q8_0", "Q8_0")):
        out = greffon.export(runs["llama"], to="gguf", out=tmp_path / precision, quantize=precision)
        _, tensors, stored = read(out / "model.gguf")
        assert {stored[name] for name in tensors if "norm" in name} == {"F32"}
        assert {stored[name] for name in tensors if "norm" not in name} == {kind}
        for name, tensor in tensors.items():
            step = np.abs(whole[name]).max() / (127 if kind == "Q8_0" else 1024)
            np.testing.assert_allclose(tensor, whole[name], atol=step)


def test_what_does_not_go_to_gguf_is_refused(tiny: TinyRuns, runs: dict[str, Run], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(UserError, match="only causal runs"):
        greffon.export(tiny.masked, to="gguf", out=out)
    relu = tiny.body("relu2", steps=1, activation="squared-relu", **NEOX)
    with pytest.raises(UserError, match="activation 'relu2' of a gpt_neox is not exported to gguf"):
        greffon.export(relu, to="gguf", out=out)
    stretched = {"rope_scaling": "llama3", "rope_factor": 8.0, "rope_original_context": 16}
    with pytest.raises(UserError, match="stretched by 'llama3'"):
        greffon.export(tiny.body("stretched", steps=1, qkv_bias=True, **stretched), to="gguf", out=out)
    with pytest.raises(UserError, match="choose f32, f16, q8_0"):
        greffon.export(runs["llama"], to="gguf", out=out, quantize="int8")
    with pytest.raises(UserError, match="leave out quantize=f16"):
        greffon.export(runs["gpt2"], to="huggingface", out=out, quantize="f16")
    Tokenizer.train(["Le chat dort."], 270, lowercase=True).save(tmp_path / "lower")
    lower = tiny.body("lower", tokenizer=tmp_path / "lower", steps=1)
    with pytest.raises(UserError, match="lowercases its text"):
        greffon.export(lower, to="gguf", out=out)
    assert not out.exists()


LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "rope_theta": 500.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
IMPORTED = {
    "grouped": {},
    "wide": {"head_dim": 12},
    "linear": {"head_dim": 12, "rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}},
    "llama3": {"rope_parameters": LLAMA3},
}


@pytest.mark.parametrize("name", IMPORTED)
def test_an_imported_llama_keeps_its_heads_and_rotations(name: str, tmp_path: Path) -> None:
    theirs = checkpoints.llama(tmp_path / "theirs", **IMPORTED[name])
    (tmp_path / "theirs" / "LICENSE").write_text("Apache License\n")
    run = greffon.import_checkpoint(tmp_path / "theirs", out=tmp_path / "run", quiet=True)
    out = greffon.export(run, to="gguf", out=tmp_path / "gguf")
    assert (out / "LICENSE").read_text() == "Apache License\n"
    stretched = name in ("linear", "llama3")  # which the reader of `transformers` takes from config.json alone
    tokens = torch.from_numpy(generator(0, "gguf").integers(6, run.tokenizer.size, (3, 20)))
    with torch.no_grad():
        expected = theirs(tokens).logits.numpy()
    found = logits(out, tokens, tmp_path / "theirs") if stretched else logits_alone(out, tokens)
    np.testing.assert_allclose(found, expected, atol=1e-5)

    settings, tensors, _ = read(out / "model.gguf")
    width = IMPORTED[name].get("head_dim", 8)
    attention = {"head_count": 2, "head_count_kv": 1, "key_length": width, "value_length": width}
    assert {key: settings[f"llama.attention.{key}"] for key in attention} == attention
    assert settings["llama.rope.dimension_count"] == width
    assert settings["llama.rope.freq_base"] == (500.0 if stretched else 10_000.0)
    scaling = [settings.get(f"llama.rope.scaling.{key}") for key in ("type", "factor")]
    assert scaling == (["linear", 4.0] if name == "linear" else [None, None])
    assert ("rope_freqs.weight" in tensors) == (name == "llama3")
    if name == "llama3":  # llama.cpp divides the frequencies by this tensor
        plain = 500.0 ** -(np.arange(0, width, 2) / width)
        wanted, _ = ROPE_INIT_FUNCTIONS["llama3"](theirs.config, torch.device("cpu"))
        assert len({*np.round(plain / wanted.numpy(), 3)}) > 2  # kept, slowed, and between the two
        np.testing.assert_allclose(plain / tensors["rope_freqs.weight"], wanted.numpy(), rtol=1e-6)


@torch.no_grad()
def logits_alone(folder: Path, tokens: torch.Tensor) -> np.ndarray:
    """Read weights and sizes from the file itself."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, gguf_file="model.gguf", dtype=torch.float32)
    found: np.ndarray = model.eval()(tokens).logits.numpy()
    return found


def test_a_refused_export_leaves_the_old_one(tiny: TinyRuns, runs: dict[str, Run], tmp_path: Path) -> None:
    out = greffon.export(runs["llama"], to="gguf", out=tmp_path / "out")
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    Tokenizer.train(["Le chat dort."], 270, lowercase=True).save(tmp_path / "lower")
    lower = tiny.body("lower-again", tokenizer=tmp_path / "lower", steps=1)
    for refused in (tiny.masked, lower):
        with pytest.raises(UserError):
            greffon.export(refused, to="gguf", out=out, force=True)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
