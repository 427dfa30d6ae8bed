"""The families with rotary positions: Llama and its relatives, GPT-NeoX and ModernBERT."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from greffon.core.errors import UserError
from greffon.core.recipe import Recipe
from greffon.data.tokenizer import Tokenizer
from greffon.runs.huggingface.family import TOKENS, Family, class_graft, uses, write_decoder
from greffon.runs.huggingface.rope import read_rope, stretching, table_of, write_rope

# -- Llama and its relatives -------------------------------------------------------------------


def _read_llama(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Read grouped heads, their width and rotary positions; what is as usual is 0 here."""
    heads, groups, width = config["num_attention_heads"], config.get("num_key_value_heads"), config.get("head_dim")
    return {
        **read_rope(config, where),
        "key_value_heads": 0 if groups in (None, heads) else groups,
        "head_dim": 0 if width is None or width * heads == config["hidden_size"] else width,
        "dropout": 0.0,
    }


def _write_llama(recipe: Recipe, tokenizer: Tokenizer) -> dict[str, Any]:
    shape = recipe.shape
    return {
        **write_decoder(recipe, tokenizer),
        **write_rope(shape),
        "num_key_value_heads": shape.groups,
        "head_dim": shape.head_width,
        "attention_bias": False,
        "mlp_bias": False,
        "attention_dropout": 0.0,
    }


LLAMA = Family(
    kind="llama",
    title="Llama",
    body="decoder",
    preset="llama",
    offered="compact",
    names={
        "layers": "num_hidden_layers", "hidden_size": "hidden_size", "heads": "num_attention_heads",
        "intermediate_size": "intermediate_size", "activation": "hidden_act", "context": "max_position_embeddings",
        "norm_epsilon": "rms_norm_eps",
    },
    fixed={
        "norm": "rms", "norm_place": "pre", "positions": "rotary", "bias": False, "scale_embeddings": False,
        "embedding_norm": False, "position_offset": 0, "segments": 0, "qkv_bias": False, "qk_norm": False,
        "local_attention": 0, "parallel_residual": False, "first_norm": True, "partial_rotary_factor": 1.0,
    },
    transform=False,
    head_bias=False,
    graft=class_graft(pooling="last", class_bias=False),
    settings={
        "attention_bias": (False,), "mlp_bias": (False,), "pretraining_tp": (1, None), "quantization_config": (None,),
    },
    architectures=uses("Llama", ForCausalLM="causal", ForSequenceClassification="classify", **TOKENS, Model="body"),
    prefix="model.",
    embedding="model.embed_tokens.weight",
    defaults={"hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": False},
    activations={"silu": "swiglu", "swish": "swiglu"},
    read=_read_llama,
    write=_write_llama,
)  # fmt: skip


def _read_qwen(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Read what a Llama has, and check that each layer attends to the whole document."""
    kinds = config.get("layer_types") or []
    if not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds):
        raise UserError(f"{where}: layer_types names other layers than full_attention, which is not supported")
    return _read_llama(config, where)


def _write_qwen2(recipe: Recipe, tokenizer: Tokenizer) -> dict[str, Any]:
    known = _write_llama(recipe, tokenizer) | {"use_sliding_window": False}
    return {name: value for name, value in known.items() if name not in ("attention_bias", "mlp_bias")}


QWEN2 = replace(
    LLAMA,
    kind="qwen2",
    title="Qwen2",
    offered="compact --qkv-bias true",
    fixed={**LLAMA.fixed, "qkv_bias": True},
    settings={"use_sliding_window": (False,), "quantization_config": (None,)},
    architectures=uses("Qwen2", ForCausalLM="causal", ForSequenceClassification="classify", **TOKENS, Model="body"),
    defaults={**LLAMA.defaults, "num_key_value_heads": 32},
    read=_read_qwen,
    write=_write_qwen2,
)
QWEN3 = replace(
    QWEN2,
    kind="qwen3",
    title="Qwen3",
    offered="compact --qk-norm true",
    fixed={**LLAMA.fixed, "qk_norm": True},
    settings={**QWEN2.settings, "attention_bias": (False,)},
    architectures=uses("Qwen3", ForCausalLM="causal", ForSequenceClassification="classify", **TOKENS, Model="body"),
    defaults={**QWEN2.defaults, "head_dim": 128},
    write=lambda recipe, tokenizer: _write_qwen2(recipe, tokenizer) | {"attention_bias": False},
)

EUROBERT_POOLINGS = {"bos": "cls", "mean": "mean"}
"""Names of the poolings of EuroBERT's class head, there and here."""


def _write_eurobert(recipe: Recipe, tokenizer: Tokenizer) -> dict[str, Any]:
    config = _write_llama(recipe, tokenizer)
    config |= {"bos_token_id": tokenizer.cls, "eos_token_id": tokenizer.sep, "mask_token_id": tokenizer.mask}
    if recipe.graft is not None and recipe.task != "tokens":
        theirs = {ours: name for name, ours in EUROBERT_POOLINGS.items()}
        config["classifier_pooling"] = theirs[recipe.graft.pooling]
    return config


EUROBERT = replace(
    LLAMA,
    kind="eurobert",
    title="EuroBERT",
    body="encoder",
    preset="modernbert",
    offered="compact --norm rms --activation swiglu --first-norm true --embedding-norm false --head-transform false "
    "--head-bias false",
    graft=class_graft(pooling=("cls", "mean"), pooler_activation="gelu", pooler_bias=True),
    architectures=uses(
        "EuroBert", ForMaskedLM="masked", ForSequenceClassification="classify", **TOKENS, Model="body",
    ),
    defaults={**LLAMA.defaults, "rms_norm_eps": 1e-5},
    write=_write_eurobert,
)  # fmt: skip

# -- GPT-NeoX ----------------------------------------------------------------------------------


def _write_neox(recipe: Recipe, tokenizer: Tokenizer) -> dict[str, Any]:
    shape = recipe.shape
    older = {"rotary_pct": shape.partial_rotary_factor, "rotary_emb_base": shape.rope_theta}
    return {
        **write_decoder(recipe, tokenizer), **write_rope(shape), **older, "attention_bias": True,
        "attention_dropout": 0.0,
    }  # fmt: skip


GPT_NEOX = Family(
    kind="gpt_neox",
    title="GPT-NeoX",
    body="decoder",
    preset="llama",
    offered="compact --norm layer --bias true --activation squared-relu",
    names={
        "layers": "num_hidden_layers", "hidden_size": "hidden_size", "heads": "num_attention_heads",
        "intermediate_size": "intermediate_size", "activation": "hidden_act", "dropout": "hidden_dropout",
        "context": "max_position_embeddings", "norm_epsilon": "layer_norm_eps",
        "parallel_residual": "use_parallel_residual",
    },
    fixed={
        "norm": "layer", "norm_place": "pre", "positions": "rotary", "bias": True, "scale_embeddings": False,
        "embedding_norm": False, "position_offset": 0, "segments": 0, "qk_norm": False, "local_attention": 0,
        "first_norm": True, "key_value_heads": 0, "head_dim": 0,
    },
    transform=False,
    head_bias=False,
    graft=class_graft(pooling="last", class_bias=False),
    settings={
        "attention_bias": (True,), "use_parallel_residual": (True, False), "quantization_config": (None,),
    },
    architectures=uses("GPTNeoX", ForCausalLM="causal", ForSequenceClassification="classify", **TOKENS, Model="body"),
    prefix="gpt_neox.",
    embedding="gpt_neox.embed_in.weight",
    defaults={
        "hidden_act": "gelu", "hidden_dropout": 0.0, "layer_norm_eps": 1e-5, "use_parallel_residual": True,
        "tie_word_embeddings": False,
    },
    read=lambda config, where: read_rope(config, where, share=0.25),
    write=_write_neox,
)  # fmt: skip

# -- ModernBERT --------------------------------------------------------------------------------

POOLER_ACTIVATIONS = {"gelu": "gelu", "linear": "identity", "relu": "relu", "tanh": "tanh"}
"""Names of the activations of ModernBERT's class head there, and here."""


def _read_modernbert(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Read windows and rotary positions, which global and local layers have of their own."""
    layers, size = config["num_hidden_layers"], config.get("local_attention", 128)
    every = config.get("global_attn_every_n_layers", 3)
    kinds = config.get("layer_types")
    if isinstance(kinds, list):
        distances = [i for i, kind in enumerate(kinds) if kind == "full_attention" and i > 0]
        every = distances[0] if distances else max(1, len(kinds))
        regular = ["sliding_attention" if i % every else "full_attention" for i in range(len(kinds))]
        if len(kinds) != layers or kinds != regular:
            raise UserError(f"{where}: layer_types follows no regular pattern, which is not supported")
    ropes = config.get("rope_parameters") or {}
    sides = {}
    for side, name in (("full_attention", "global_rope_theta"), ("sliding_attention", "local_rope_theta")):
        usual = 160_000.0 if side == "full_attention" else 10_000.0
        sides[side] = {"rope_theta": config.get(name, usual), **table_of(table_of(ropes, where).get(side, {}), where)}
        if stretching(sides[side], where)["rope_scaling"] != "none":
            raise UserError(f"{where}: {side} has a rope_type of its own, which is not supported (only default is)")
    local = 0 if every == 1 else size
    return {
        **read_rope({"rope_parameters": sides["full_attention"]}, where),
        "local_attention": local,
        "global_attention_every": every if local else 3,
        "local_rope_theta": float(sides["sliding_attention"]["rope_theta"]),
    }


def _write_modernbert(recipe: Recipe, tokenizer: Tokenizer) -> dict[str, Any]:
    shape, graft = recipe.shape, recipe.graft
    kinds = ["sliding_attention" if shape.is_local(i) else "full_attention" for i in range(shape.layers)]
    thetas = {"full_attention": shape.rope_theta, "sliding_attention": shape.local_rope_theta}
    config: dict[str, Any] = {
        "layer_types": kinds,
        "local_attention": shape.local_attention or 128,
        "global_attn_every_n_layers": shape.global_attention_every if shape.local_attention else 1,
        "global_rope_theta": shape.rope_theta,
        "local_rope_theta": shape.local_rope_theta,
        "rope_parameters": {side: {"rope_type": "default", "rope_theta": theta} for side, theta in thetas.items()},
        "norm_bias": shape.bias,
        "attention_bias": shape.bias,
        "mlp_bias": shape.bias,
        "decoder_bias": True,
        "classifier_bias": shape.bias,
        "classifier_activation": "gelu",
        "embedding_dropout": shape.dropout,
        "attention_dropout": 0.0,
        "bos_token_id": tokenizer.cls,
        "cls_token_id": tokenizer.cls,
        "eos_token_id": tokenizer.sep,
        "sep_token_id": tokenizer.sep,
    }
    if graft is not None:
        theirs = {ours: name for name, ours in POOLER_ACTIVATIONS.items()}
        pooling = "mean" if recipe.task == "tokens" else graft.pooling  # which a head over tokens has no use for
        config |= {"classifier_pooling": pooling, "classifier_bias": graft.pooler_bias}
        config |= {"classifier_activation": theirs[graft.pooler_activation], "classifier_dropout": graft.head_dropout}
    return config


MODERNBERT = Family(
    kind="modernbert",
    title="ModernBERT",
    body="encoder",
    preset="modernbert",
    offered="compact",
    names={
        "layers": "num_hidden_layers", "hidden_size": "hidden_size", "heads": "num_attention_heads",
        "intermediate_size": "intermediate_size", "activation": "hidden_activation", "dropout": "mlp_dropout",
        "context": "max_position_embeddings", "norm_epsilon": "norm_eps",
    },
    fixed={
        "norm": "layer", "norm_place": "pre", "positions": "rotary", "bias": False, "scale_embeddings": False,
        "embedding_norm": True, "first_norm": False, "qkv_bias": False, "qk_norm": False, "parallel_residual": False,
        "key_value_heads": 0, "head_dim": 0, "segments": 0, "position_offset": 0, "partial_rotary_factor": 1.0,
        "rope_scaling": "none",
    },
    transform=True,
    head_bias=True,
    graft=class_graft(
        pooling=("cls", "mean"), pooler_activation=tuple(POOLER_ACTIVATIONS.values()), pooler_bias=(True, False),
        pooler_norm=True,
    ),
    settings={
        "norm_bias": (False,), "attention_bias": (False,), "mlp_bias": (False,), "decoder_bias": (True,),
        "tie_word_embeddings": (True,), "quantization_config": (None,),
    },
    architectures=uses(
        "ModernBert", ForMaskedLM="masked", ForSequenceClassification="classify", **TOKENS, Model="body",
    ),
    prefix="model.",
    embedding="model.embeddings.tok_embeddings.weight",
    defaults={"hidden_activation": "gelu", "mlp_dropout": 0.0, "norm_eps": 1e-5},
    activations={"gelu": "geglu"},
    read=_read_modernbert,
    write=_write_modernbert,
    always_tied=True,
)  # fmt: skip
