"""The families of Hugging Face checkpoints, as configurations of our bodies: one table, no class a family.

What a family fixes, and our bodies leave open, stands here; a shape fits a family when it agrees with it. What our
bodies do not have is refused by name (`configs.py`).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from greffon.core.errors import UserError
from greffon.core.recipe import Recipe
from greffon.data.tokenizer import Tokenizer
from greffon.runs.huggingface.family import PLAIN, TOKENS, Family, class_graft, uses, write_decoder
from greffon.runs.huggingface.rotary_families import EUROBERT, GPT_NEOX, LLAMA, MODERNBERT, QWEN2, QWEN3

# -- encoders ----------------------------------------------------------------------------------

_ENCODER = {
    "norm": "layer", "norm_place": "post", "positions": "learned", "bias": True, "scale_embeddings": False,
    "embedding_norm": True, **PLAIN,
}  # fmt: skip
_NO_QUANTIZATION: dict[str, tuple[Any, ...]] = {"quantization_config": (None,), "pruned_heads": ({}, None)}


def _write_roberta(recipe: Recipe, tokenizer: Tokenizer) -> dict[str, Any]:
    return {"bos_token_id": tokenizer.cls, "eos_token_id": tokenizer.sep, "attention_probs_dropout_prob": 0.0}


def _read_roberta(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    offset = config.get("pad_token_id", 1) + 1
    return {"position_offset": offset, "context": config["max_position_embeddings"] - offset}


BERT = Family(
    kind="bert",
    title="BERT",
    body="encoder",
    preset="bert",
    offered="bert-mini",
    names={
        "layers": "num_hidden_layers", "hidden_size": "hidden_size", "heads": "num_attention_heads",
        "intermediate_size": "intermediate_size", "activation": "hidden_act", "dropout": "hidden_dropout_prob",
        "context": "max_position_embeddings", "segments": "type_vocab_size", "norm_epsilon": "layer_norm_eps",
    },
    fixed={**_ENCODER, "position_offset": 0},
    transform=True,
    head_bias=True,
    graft=class_graft(pooling="cls", pooler_activation="tanh", pooler_bias=True),
    settings={
        "is_decoder": (False,), "add_cross_attention": (False,), "position_embedding_type": ("absolute", None),
        "embedding_size": (None,), **_NO_QUANTIZATION,
    },
    architectures=uses(
        "Bert", ForMaskedLM="masked", ForPreTraining="pairs", ForSequenceClassification="classify", **TOKENS,
        Model="body",
    ),
    prefix="bert.",
    embedding="bert.embeddings.word_embeddings.weight",
    defaults={"hidden_act": "gelu", "hidden_dropout_prob": 0.1, "layer_norm_eps": 1e-12, "type_vocab_size": 2},
    write=lambda recipe, tokenizer: {"attention_probs_dropout_prob": 0.0},
)  # fmt: skip
ROBERTA = replace(
    BERT,
    kind="roberta",
    title="RoBERTa",
    fixed=_ENCODER,
    architectures={
        name: use
        for prefix in ("Roberta", "Camembert", "XLMRoberta")
        for name, use in uses(
            prefix, ForMaskedLM="masked", ForSequenceClassification="classify", **TOKENS, Model="body"
        ).items()
    },
    prefix="roberta.",
    embedding="roberta.embeddings.word_embeddings.weight",
    activations={"gelu": "gelu"},  # that of the head, whatever hidden_act says
    read=_read_roberta,
    write=_write_roberta,
)
DISTILBERT = replace(
    BERT,
    kind="distilbert",
    title="DistilBERT",
    preset="distilbert",
    names={
        "layers": "n_layers", "hidden_size": "dim", "heads": "n_heads", "intermediate_size": "hidden_dim",
        "activation": "activation", "dropout": "dropout", "context": "max_position_embeddings",
    },
    fixed={**_ENCODER, "position_offset": 0, "segments": 0, "norm_epsilon": 1e-12},
    graft=class_graft(pooling="cls", pooler_activation="relu", pooler_bias=True),
    settings=_NO_QUANTIZATION,
    architectures=uses(
        "DistilBert", ForMaskedLM="masked", ForSequenceClassification="classify", **TOKENS, Model="body",
    ),
    prefix="distilbert.",
    embedding="distilbert.embeddings.word_embeddings.weight",
    defaults={"activation": "gelu", "dropout": 0.1},
    write=lambda recipe, tokenizer: {"attention_dropout": 0.0},
)  # fmt: skip

# -- decoders ----------------------------------------------------------------------------------


GPT2 = Family(
    kind="gpt2",
    title="GPT-2",
    body="decoder",
    preset="gpt2",
    offered="gpt2-mini",
    names={
        "layers": "n_layer", "hidden_size": "n_embd", "heads": "n_head", "intermediate_size": "n_inner",
        "activation": "activation_function", "dropout": "resid_pdrop", "context": "n_positions",
        "norm_epsilon": "layer_norm_epsilon",
    },
    fixed={
        "norm": "layer", "norm_place": "pre", "positions": "learned", "bias": True, "scale_embeddings": False,
        "embedding_norm": False, "position_offset": 0, "segments": 0, **PLAIN,
    },
    transform=False,
    head_bias=False,
    graft=class_graft(pooling="last", class_bias=False),
    settings={
        "scale_attn_weights": (True,), "scale_attn_by_inverse_layer_idx": (False,), "add_cross_attention": (False,),
        "tie_word_embeddings": (True,), **_NO_QUANTIZATION,
    },
    architectures=uses("GPT2", LMHeadModel="causal", ForSequenceClassification="classify", **TOKENS, Model="body"),
    prefix="transformer.",
    embedding="transformer.wte.weight",
    defaults={"activation_function": "gelu_new", "resid_pdrop": 0.1, "layer_norm_epsilon": 1e-5, "n_inner": None},
    read=lambda config, where: (
        {"intermediate_size": 4 * config["n_embd"]} if config.get("n_inner") is None else {}
    ),
    write=lambda recipe, tokenizer: {
        **write_decoder(recipe, tokenizer), "embd_pdrop": recipe.shape.dropout, "attn_pdrop": 0.0,
    },
    always_tied=True,
)  # fmt: skip

# -- encoder-decoders --------------------------------------------------------------------------


def _read_sides(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Check that both sides are equal, as ours are."""
    for name in ("layers", "attention_heads", "ffn_dim"):
        if config.get(f"encoder_{name}") != config.get(f"decoder_{name}"):
            raise UserError(
                f"{where}: encoder_{name} is {config.get(f'encoder_{name}')} and decoder_{name} "
                f"{config.get(f'decoder_{name}')}; only equal sides are supported"
            )
    if config.get("decoder_vocab_size") not in (None, config.get("vocab_size")):
        raise UserError(f"{where}: decoder_vocab_size differs from vocab_size; only one vocabulary is supported")
    return {}


def _write_sides(recipe: Recipe, tokenizer: Tokenizer) -> dict[str, Any]:
    shape = recipe.shape
    sides = {"layers": shape.layers, "attention_heads": shape.heads, "ffn_dim": shape.intermediate_size}
    return {
        **{f"decoder_{name}": value for name, value in sides.items()},
        "max_position_embeddings": shape.context,
        "attention_dropout": 0.0,
        "activation_dropout": shape.dropout,
        "eos_token_id": tokenizer.end,
        "bos_token_id": None,
        "decoder_start_token_id": tokenizer.start,
        "forced_eos_token_id": None,
        "is_encoder_decoder": True,
    }


MARIAN = Family(
    kind="marian",
    title="Marian",
    body="encoder-decoder",
    preset="marian",
    offered="marian-small",
    names={
        "layers": "encoder_layers", "hidden_size": "d_model", "heads": "encoder_attention_heads",
        "intermediate_size": "encoder_ffn_dim", "activation": "activation_function", "dropout": "dropout",
        "context": "max_position_embeddings", "scale_embeddings": "scale_embedding",
    },
    fixed={
        "norm": "layer", "norm_place": "post", "positions": "sinusoidal-halves", "bias": True, "embedding_norm": False,
        "segments": 0, "norm_epsilon": 1e-5, "position_offset": 0, **PLAIN,
    },
    transform=False,
    head_bias=True,
    graft={},
    settings={
        "share_encoder_decoder_embeddings": (True,), "normalize_embedding": (False,), "normalize_before": (False,),
        "add_final_layer_norm": (False,), "static_position_embeddings": (True,), "quantization_config": (None,),
    },
    architectures=uses("Marian", MTModel="seq2seq"),
    prefix="model.",
    embedding="model.shared.weight",
    defaults={"activation_function": "gelu", "dropout": 0.1, "scale_embedding": False},
    read=_read_sides,
    write=lambda recipe, tokenizer: {**_write_sides(recipe, tokenizer), "decoder_vocab_size": recipe.vocab_size},
)  # fmt: skip
MBART = replace(
    MARIAN,
    kind="mbart",
    title="mBART",
    preset="mbart",
    offered="",
    fixed={**MARIAN.fixed, "norm_place": "pre", "positions": "learned", "position_offset": 2, "embedding_norm": True},
    settings={
        "normalize_embedding": (True,), "normalize_before": (True,), "add_final_layer_norm": (True,),
        "static_position_embeddings": (False,), "quantization_config": (None,), "tie_word_embeddings": (True,),
    },
    architectures=uses("MBart", ForConditionalGeneration="seq2seq"),
    write=_write_sides,
    always_tied=True,
)  # fmt: skip
M2M100 = replace(
    MBART,
    kind="m2m_100",
    title="M2M100",
    preset="m2m100",
    fixed={
        name: value
        for name, value in {
            **MBART.fixed, "positions": "sinusoidal-tensor2tensor", "embedding_norm": False, "untied_head_bias": False,
        }.items()
        if name != "position_offset"
    },
    head_bias=False,
    settings={"tie_word_embeddings": (True,), **_NO_QUANTIZATION},
    architectures=uses("M2M100", ForConditionalGeneration="seq2seq"),
    defaults={"activation_function": "relu", "dropout": 0.1, "scale_embedding": True},
    read=lambda config, where: {**_read_sides(config, where), "position_offset": config.get("pad_token_id", 1) + 1},
)  # fmt: skip

_ALL = (
    BERT, ROBERTA, DISTILBERT, MODERNBERT, EUROBERT, GPT2, LLAMA, QWEN2, QWEN3, GPT_NEOX, MARIAN, MBART, M2M100,
)  # fmt: skip
FAMILIES = {family.kind: family for family in _ALL}
MODEL_TYPES = {**FAMILIES, "camembert": ROBERTA, "xlm-roberta": ROBERTA}
"""The family of each `model_type`."""
