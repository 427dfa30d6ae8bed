"""Export a causal run as a GGUF file, the format of llama.cpp and its kin."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from torch import Tensor

from greffon.core.errors import UserError, setting
from greffon.core.files import write_atomically
from greffon.core.shape import Shape
from greffon.data.tokenizer import Tokenizer
from greffon.nn.positions import rotary_frequencies, stretched
from greffon.runs.export_dir import open_directory
from greffon.runs.huggingface.card import model_card
from greffon.runs.huggingface.companions import give_licence
from greffon.runs.huggingface.export import Checkpoint, as_checkpoint
from greffon.runs.huggingface.tokenizer_files import byte_level_specification
from greffon.runs.run import Run

if TYPE_CHECKING:
    from gguf import GGMLQuantizationType, GGUFWriter

Precision = Literal["f32", "f16", "q8_0"]
FILE = "model.gguf"
ROPE = "rope_freqs.weight"
"""The tensor that stretches rotary positions unevenly; GGUF has no setting for that."""
BLOCK = 32
"""Numbers that share one scale in q8_0: a matrix whose rows are no multiple of it is stored in f16."""
WORDS = "gpt-2"
"""How llama.cpp cuts a text into words before it merges bytes: it has a fixed list of ways, and ours is not in it."""


def to_gguf(run: Run, out: Path, quantize: str | None = None) -> Path:
    """Write model.gguf: weights, sizes and tokenizer of a causal run whose form GGUF has a name for."""
    precision = quantize or "f32"
    try:
        import gguf
    except ImportError:
        raise UserError("an export to gguf needs a package; install it with: pip install 'greffon[gguf]'") from None
    if precision not in get_args(Precision):
        raise UserError(f"an export to gguf has no precision {precision!r}; choose {', '.join(get_args(Precision))}")
    if run.recipe.objective != "causal":
        raise UserError(f"{run.path} is a {run.recipe.objective} run; only causal runs are exported to gguf")
    made = as_checkpoint(run)
    kind = made.config["model_type"]
    if kind not in _ARCHITECTURES:
        raise UserError(f"{run.path} is a {made.family.title} in form; to gguf go {', '.join(_ARCHITECTURES)}")
    _check_form(made.config)
    tokenizer = byte_level_specification(run.tokenizer)
    part = out / f".{FILE}.part"
    writer = gguf.GGUFWriter(part, _ARCHITECTURES[kind])
    writer.add_name(run.name)
    _add_sizes(writer, made.config)
    writer.add_file_type(_FILE_TYPES[precision])
    _add_tokenizer(writer, run.tokenizer, tokenizer, run.recipe.vocab_size)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[_ARCHITECTURES[kind].upper()], run.recipe.shape.layers)
    for name, tensor in sorted(as_gguf(made).items()):
        stored = names.get_name(name, try_suffixes=(".weight", ".bias"))
        assert stored is not None, name
        values, dtype = _stored(tensor.numpy(), precision)
        writer.add_tensor(stored, values, raw_dtype=dtype)
    if run.recipe.shape.rope_scaling == "llama3":
        writer.add_tensor(ROPE, _slowing(run.recipe.shape))
    open_directory(out, run, "gguf", precision=precision)  # from here on nothing is refused
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    part.replace(out / FILE)
    give_licence(run, out)
    write_atomically(out / "README.md", model_card(run, "GGUF", out.resolve().name, loading=_LOADING).encode())
    warnings.warn(
        "llama.cpp cuts texts into words in its own way, so some texts get other tokens there than here; exact is the "
        "tokenizer in the key tokenizer.huggingface.json, where a program reads it",
        stacklevel=3,
    )
    return out


_ARCHITECTURES = {"llama": "llama", "gpt2": "gpt2", "qwen2": "qwen2", "qwen3": "qwen3", "gpt_neox": "gptneox"}
"""The architectures of GGUF, by the `model_type` of a checkpoint."""
_SMOOTH = ("gelu", "gelu_new")
"""Activations of a GPT-2 or a GPT-NeoX in GGUF, which names none: its readers compute GELU."""
_FILE_TYPES = {"f32": 0, "f16": 1, "q8_0": 7}
_LOADING = ['# llama-cli -m DIR/model.gguf -p "a prompt"', "import gguf", 'gguf.GGUFReader("DIR/model.gguf").tensors']


def as_gguf(made: Checkpoint) -> dict[str, Tensor]:
    """Return the tensors of a checkpoint as GGUF has them, still under their names in the checkpoint.

    A Llama's queries and keys rotate halves of a head there, and neighbours here; GPT-2's matrices are inputs ×
    outputs there; GPT-NeoX stacks queries, keys and values head by head there, and the head over the vocabulary has a
    matrix of its own here.
    """
    config, found = made.config, dict(made.tensors)
    if config["model_type"] == "gpt2":
        kinds = ("c_attn.weight", "c_proj.weight", "c_fc.weight")
        return {name: tensor.T.contiguous() if name.endswith(kinds) else tensor for name, tensor in found.items()}
    if config["model_type"] == "gpt_neox":
        found.setdefault("embed_out.weight", found["gpt_neox.embed_in.weight"])
        for name, tensor in made.tensors.items():
            if ".query_key_value." in name:
                found[name] = restacked(tensor, config["num_attention_heads"])
        return found
    if config["model_type"] != "llama":
        return found
    heads = config["num_attention_heads"]
    counts = {"q_proj": heads, "k_proj": config.get("num_key_value_heads") or heads}
    for name, tensor in made.tensors.items():
        for projection, count in counts.items():
            if f".{projection}." in name:
                found[name] = interleaved(tensor, count)
    return found


def restacked(tensor: Tensor, heads: int) -> Tensor:
    """Order rows that are queries, keys and values head by head as all queries, all keys and all values."""
    return tensor.reshape(heads, 3, -1, *tensor.shape[1:]).transpose(0, 1).reshape(tensor.shape).contiguous()


def interleaved(matrix: Tensor, heads: int) -> Tensor:
    """Order the rows of each head so that those that rotate together, half a head apart before, are neighbours."""
    rows = matrix.shape[0]
    halves = matrix.reshape(heads, 2, rows // heads // 2, *matrix.shape[1:])  # (H, 2, D / 2, …)
    return halves.transpose(1, 2).reshape(matrix.shape).contiguous()


def _stored(values: np.ndarray, precision: str) -> "tuple[np.ndarray, GGMLQuantizationType]":
    """Quantize a matrix; vectors (norms, biases) stay as they are."""
    from gguf import GGMLQuantizationType, quants

    if values.ndim < 2 or precision == "f32":
        kind = GGMLQuantizationType.F32
    elif precision == "f16" or values.shape[-1] % BLOCK:
        kind = GGMLQuantizationType.F16
    else:
        kind = GGMLQuantizationType.Q8_0
    return quants.quantize(values.astype(np.float32), kind), kind


def _slowing(shape: Shape) -> np.ndarray:
    """Return by how much each pair of features turns slower than without the scaling of llama3: (head width / 2)."""
    frequencies = rotary_frequencies(shape.rotated, shape.rope_theta)
    slowing: np.ndarray = (frequencies / stretched(frequencies, shape)).numpy()
    return slowing


def _add_sizes(writer: "GGUFWriter", config: dict[str, Any]) -> None:
    """Write the sizes of a body under the names of GGUF."""
    if config["model_type"] == "gpt2":
        writer.add_context_length(config["n_positions"])
        writer.add_embedding_length(config["n_embd"])
        writer.add_block_count(config["n_layer"])
        writer.add_feed_forward_length(config["n_inner"])
        writer.add_head_count(config["n_head"])
        writer.add_layer_norm_eps(config["layer_norm_epsilon"])
        return
    heads = config["num_attention_heads"]
    head = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_vocab_size(config["vocab_size"])
    if config["model_type"] == "gpt_neox":
        writer.add_parallel_residual(config["use_parallel_residual"])
        writer.add_layer_norm_eps(config["layer_norm_eps"])
    else:
        writer.add_head_count_kv(config.get("num_key_value_heads") or heads)
        writer.add_key_length(head)
        writer.add_value_length(head)
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    _add_rope(writer, config, head)


def _add_rope(writer: "GGUFWriter", config: dict[str, Any], head: int) -> None:
    """Write how positions rotate the features of a head."""
    rope = config["rope_parameters"]
    writer.add_rope_dimension_count(int(head * rope.get("partial_rotary_factor", 1.0)))
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope["rope_type"] == "linear":
        from gguf import RopeScalingType

        writer.add_rope_scaling_type(RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])


def _check_form(config: dict[str, Any]) -> None:
    """Raise a `UserError` for what a format of names and numbers cannot say."""
    kind = (config.get("rope_parameters") or {}).get("rope_type", "default")
    if kind == "llama3" and config["model_type"] != "llama":
        raise UserError(
            f"rotary positions that are stretched by {kind!r} are exported to gguf for a Llama alone: other readers "
            f"leave out the slowing of each rotation; choose {setting('to', 'huggingface')}"
        )
    activation = config.get("activation_function") or config["hidden_act"]
    if config["model_type"] in ("gpt2", "gpt_neox") and activation not in _SMOOTH:
        raise UserError(
            f"the activation {activation!r} of a {config['model_type']} is not exported to gguf, whose readers compute "
            f"GELU; train with {setting('activation', 'gelu')}, or choose {setting('to', 'huggingface')}"
        )


def _add_tokenizer(writer: "GGUFWriter", tokenizer: Tokenizer, found: dict[str, Any], vocabulary: int) -> None:
    """Write the pieces, merges and special tokens of a byte-level tokenizer, and its tokenizer.json."""
    import json

    from gguf import TokenType

    pieces = dict(found["model"]["vocab"]) | {token["content"]: token["id"] for token in found["added_tokens"]}
    names = {id: piece for piece, id in pieces.items()}
    special = {token["id"] for token in found["added_tokens"] if token["special"]}
    kinds = [
        TokenType.CONTROL if id in special else TokenType.NORMAL if id in names else TokenType.UNUSED
        for id in range(vocabulary)
    ]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in found["model"]["merges"]]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(WORDS)
    writer.add_token_list([names.get(id, f"[UNUSED{id}]") for id in range(vocabulary)])
    writer.add_token_types([int(kind) for kind in kinds])
    writer.add_token_merges(merges)
    writer.add_bos_token_id(tokenizer.start)
    writer.add_eos_token_id(tokenizer.end)
    writer.add_pad_token_id(tokenizer.pad)
    writer.add_add_bos_token(tokenizer.starts)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)
    writer.add_string("tokenizer.huggingface.json", json.dumps(found))
