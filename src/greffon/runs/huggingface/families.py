"""The families of Hugging Face checkpoints, as configurations of our bodies: one table, no class a family.

What a family fixes, and our bodies leave open, stands here; a shape fits a family when it agrees with it. What our
bodies do not have is refused by name (`configs.py`).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from greffon.core.config import Activation, BodyKind, Recipe
from greffon.core.errors import UserError
from greffon.data.tokenizer import Tokenizer
from greffon.runs.huggingface.rope import read_rope, stretching, table_of, write_rope

Reader = Callable[[Mapping[str, Any], str], dict[str, Any]]
Writer = Callable[[Recipe, Tokenizer], dict[str, Any]]

ACTIVATIONS: dict[str, Activation] = {
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "relu": "relu",
    "relu2": "squared-relu",
    "silu": "silu",
    "swish": "silu",
}
"""Names of our activations in config.json; the first name of each is the one that is written."""


def _nothing(*_: Any) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Family:
    """A kind of checkpoint: the names in its configuration, and the settings that all its models share."""

    kind: str
    title: str
    body: BodyKind
    preset: str  # how an imported one is fine-tuned
    offered: str  # what to train here so that it fits; empty if no preset does
    names: Mapping[str, str]  # of our shape's fields in config.json
    fixed: Mapping[str, Any]  # fields of our shape
    transform: bool  # whether the head over the vocabulary has a dense layer, an activation and a norm
    head_bias: bool  # whether the head over the vocabulary has a bias
    graft: Mapping[str, tuple[Any, ...]]  # how a class head may be made
    settings: Mapping[str, tuple[Any, ...]]  # settings of config.json, each with the values we can follow
    architectures: Mapping[str, str]  # class of theirs → what its head is for
    prefix: str  # of the body's tensors
    embedding: str  # the tensor of token embeddings
    defaults: Mapping[str, Any] = field(default_factory=dict)  # settings that config.json may lack
    activations: Mapping[str, Activation] = field(default_factory=lambda: ACTIVATIONS)
    read: Reader = _nothing  # fields of our shape that follow from several settings
    write: Writer = _nothing  # settings that follow from several fields
    always_tied: bool = False

    def architecture(self, use: str) -> str:
        """Return the `transformers` class for an objective."""
        return next(name for name, known in self.architectures.items() if known == use)

    def serves(self, use: str) -> bool:
        """Whether the family has a class for an objective."""
        return use in self.architectures.values()


def _uses(prefix: str, **uses: str) -> dict[str, str]:
    return {prefix + suffix: use for suffix, use in uses.items()}


_TOKENS = {"ForTokenClassification": "tokens"}


def token_graft(family: Family) -> Mapping[str, tuple[Any, ...]]:
    """Describe the heads over tokens of a family: one linear layer, or ModernBERT's dense layer and norm before it."""
    plain: dict[str, tuple[Any, ...]] = {"pooler_activation": ("none",), "pooler_norm": (False,), "class_bias": (True,)}
    dense = {name: values for name, values in family.graft.items() if name in (*plain, "pooler_bias")}
    return dense if family.graft.get("pooler_norm") == (True,) else plain


def _graft(**fields: Any) -> dict[str, tuple[Any, ...]]:
    """Describe the class heads of a family; each field has one value, or several in a tuple."""
    plain: dict[str, Any] = {
        "concat_embeddings": False, "pooler_activation": "none", "pooler_norm": False, "class_bias": True,
    }  # fmt: skip
    return {name: value if isinstance(value, tuple) else (value,) for name, value in {**plain, **fields}.items()}


_PLAIN = {
    "qkv_bias": False, "qk_norm": False, "local_attention": 0, "parallel_residual": False, "first_norm": True,
    "key_value_heads": 0, "head_dim": 0,
}  # fmt: skip
"""What only newer families have."""

# -- encoders ----------------------------------------------------------------------------------

_ENCODER = {
    "norm": "layer", "norm_place": "post", "positions": "learned", "bias": True, "scale_embeddings": False,
    "embedding_norm": True, **_PLAIN,
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
    graft=_graft(pooling="cls", pooler_activation="tanh", pooler_bias=True),
    settings={
        "is_decoder": (False,), "add_cross_attention": (False,), "position_embedding_type": ("absolute", None),
        "embedding_size": (None,), **_NO_QUANTIZATION,
    },
    architectures=_uses(
        "Bert", ForMaskedLM="masked", ForPreTraining="pairs", ForSequenceClassification="classify", **_TOKENS,
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
        for name, use in _uses(
            prefix, ForMaskedLM="masked", ForSequenceClassification="classify", **_TOKENS, Model="body"
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
    graft=_graft(pooling="cls", pooler_activation="relu", pooler_bias=True),
    settings=_NO_QUANTIZATION,
    architectures=_uses(
        "DistilBert", ForMaskedLM="masked", ForSequenceClassification="classify", **_TOKENS, Model="body",
    ),
    prefix="distilbert.",
    embedding="distilbert.embeddings.word_embeddings.weight",
    defaults={"activation": "gelu", "dropout": 0.1},
    write=lambda recipe, tokenizer: {"attention_dropout": 0.0},
)  # fmt: skip

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
        regular = ["sliding_attention" if i % every else "full_attention" for i in range(layers)]
        if kinds != regular:
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
        config |= {"classifier_pooling": graft.pooling, "classifier_bias": graft.pooler_bias}
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
    graft=_graft(
        pooling=("cls", "mean"), pooler_activation=tuple(POOLER_ACTIVATIONS.values()), pooler_bias=(True, False),
        pooler_norm=True,
    ),
    settings={
        "norm_bias": (False,), "attention_bias": (False,), "mlp_bias": (False,), "decoder_bias": (True,),
        "tie_word_embeddings": (True,), "quantization_config": (None,),
    },
    architectures=_uses(
        "ModernBert", ForMaskedLM="masked", ForSequenceClassification="classify", **_TOKENS, Model="body",
    ),
    prefix="model.",
    embedding="model.embeddings.tok_embeddings.weight",
    defaults={"hidden_activation": "gelu", "mlp_dropout": 0.0, "norm_eps": 1e-5},
    activations={"gelu": "geglu"},
    read=_read_modernbert,
    write=_write_modernbert,
    always_tied=True,
)  # fmt: skip

# -- decoders ----------------------------------------------------------------------------------


def _write_decoder(recipe: Recipe, tokenizer: Tokenizer) -> dict[str, Any]:
    return {"bos_token_id": tokenizer.start, "eos_token_id": tokenizer.end}


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
        "embedding_norm": False, "position_offset": 0, "segments": 0, **_PLAIN,
    },
    transform=False,
    head_bias=False,
    graft=_graft(pooling="last", class_bias=False),
    settings={
        "scale_attn_weights": (True,), "scale_attn_by_inverse_layer_idx": (False,), "add_cross_attention": (False,),
        "tie_word_embeddings": (True,), **_NO_QUANTIZATION,
    },
    architectures=_uses("GPT2", LMHeadModel="causal", ForSequenceClassification="classify", **_TOKENS, Model="body"),
    prefix="transformer.",
    embedding="transformer.wte.weight",
    defaults={"activation_function": "gelu_new", "resid_pdrop": 0.1, "layer_norm_epsilon": 1e-5, "n_inner": None},
    read=lambda config, where: (
        {"intermediate_size": 4 * config["n_embd"]} if config.get("n_inner") is None else {}
    ),
    write=lambda recipe, tokenizer: {
        **_write_decoder(recipe, tokenizer), "embd_pdrop": recipe.shape.dropout, "attn_pdrop": 0.0,
    },
    always_tied=True,
)  # fmt: skip


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
        **_write_decoder(recipe, tokenizer),
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
    graft=_graft(pooling="last", class_bias=False),
    settings={
        "attention_bias": (False,), "mlp_bias": (False,), "pretraining_tp": (1, None), "quantization_config": (None,),
    },
    architectures=_uses("Llama", ForCausalLM="causal", ForSequenceClassification="classify", **_TOKENS, Model="body"),
    prefix="model.",
    embedding="model.embed_tokens.weight",
    defaults={"hidden_act": "silu", "rms_norm_eps": 1e-6, "tie_word_embeddings": False},
    activations={"silu": "swiglu", "swish": "swiglu"},
    read=_read_llama,
    write=_write_llama,
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
        "segments": 0, "norm_epsilon": 1e-5, "position_offset": 0, **_PLAIN,
    },
    transform=False,
    head_bias=True,
    graft={},
    settings={
        "share_encoder_decoder_embeddings": (True,), "normalize_embedding": (False,), "normalize_before": (False,),
        "add_final_layer_norm": (False,), "static_position_embeddings": (True,), "quantization_config": (None,),
    },
    architectures=_uses("Marian", MTModel="seq2seq"),
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
    architectures=_uses("MBart", ForConditionalGeneration="seq2seq"),
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
    architectures=_uses("M2M100", ForConditionalGeneration="seq2seq"),
    defaults={"activation_function": "relu", "dropout": 0.1, "scale_embedding": True},
    read=lambda config, where: {**_read_sides(config, where), "position_offset": config.get("pad_token_id", 1) + 1},
)  # fmt: skip

FAMILIES = {
    family.kind: family for family in (BERT, ROBERTA, DISTILBERT, MODERNBERT, GPT2, LLAMA, MARIAN, MBART, M2M100)
}
MODEL_TYPES = {**FAMILIES, "camembert": ROBERTA, "xlm-roberta": ROBERTA}
"""The family of each `model_type`."""
