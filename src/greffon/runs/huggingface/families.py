"""`config.json` of BERT, RoBERTa, DistilBERT, GPT-2 and Marian, read into a shape and written from one.

What a family fixes, and our bodies leave open, stands in one table; a shape fits a family when it
agrees with it. What our bodies do not have is refused by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from greffon.core.config import Activation, Graft, Masking, Recipe, Shape
from greffon.core.errors import UserError
from greffon.core.presets import PRESETS
from greffon.data.tokenizer import Tokenizer

ACTIVATIONS: dict[str, Activation] = {
    "gelu": "gelu",
    "gelu_new": "gelu-tanh",
    "gelu_fast": "gelu-tanh",
    "gelu_pytorch_tanh": "gelu-tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
"""Names of our activations in config.json."""

THEIR_ACTIVATION = {"gelu": "gelu", "gelu-tanh": "gelu_new", "relu": "relu", "silu": "silu"}


@dataclass(frozen=True)
class Family:
    """A kind of checkpoint: the names in its configuration, and the settings that all its models share."""

    kind: str
    title: str
    preset: str  # how an imported one is fine-tuned
    offered: str  # what to train here so that it fits
    names: Mapping[str, str]  # of our shape's fields in config.json
    fixed: Mapping[str, Any]  # fields of our shape
    head: Mapping[str, Any]  # fields of our shape that only the head over the vocabulary needs
    graft: Mapping[str, Any]  # how a class head must be made
    settings: Mapping[str, tuple[Any, ...]]  # settings of config.json, each with the values we can follow
    architectures: Mapping[str, str]  # class of theirs → what its head is for
    prefix: str  # of the body's tensors

    def architecture(self, use: str) -> str:
        """Return the `transformers` class for an objective."""
        return next(name for name, known in self.architectures.items() if known == use)


_ENCODER = {
    "norm": "layer", "norm_place": "post", "positions": "learned", "bias": True, "scale_embeddings": False,
    "embedding_norm": True,
}  # fmt: skip
_BERT_NAMES = {
    "layers": "num_hidden_layers", "hidden_size": "hidden_size", "heads": "num_attention_heads",
    "intermediate_size": "intermediate_size", "activation": "hidden_act", "dropout": "hidden_dropout_prob",
    "context": "max_position_embeddings", "segments": "type_vocab_size", "norm_epsilon": "layer_norm_eps",
}  # fmt: skip
_BERT_SETTINGS: dict[str, tuple[Any, ...]] = {
    "is_decoder": (False,), "add_cross_attention": (False,), "position_embedding_type": ("absolute", None),
    "pruned_heads": ({}, None), "quantization_config": (None,), "embedding_size": (None,),
}  # fmt: skip
_BERT_HEAD = {"head_transform": True, "head_bias": True}


def _uses(prefix: str, **uses: str) -> dict[str, str]:
    return {prefix + suffix: use for suffix, use in uses.items()}


BERT = Family(
    kind="bert",
    title="BERT",
    preset="bert",
    offered="bert-mini",
    names=_BERT_NAMES,
    fixed={**_ENCODER, "position_offset": 0},
    head=_BERT_HEAD,
    graft={"pooling": "cls", "concat_embeddings": False, "pooler_activation": "tanh", "class_bias": True},
    settings=_BERT_SETTINGS,
    architectures=_uses(
        "Bert", ForMaskedLM="masked", ForPreTraining="pairs", ForSequenceClassification="classify", Model="body"
    ),
    prefix="bert.",
)
ROBERTA = replace(
    BERT,
    kind="roberta",
    title="RoBERTa",
    fixed=_ENCODER,
    architectures={
        name: use
        for prefix in ("Roberta", "Camembert", "XLMRoberta")
        for name, use in _uses(prefix, ForMaskedLM="masked", ForSequenceClassification="classify", Model="body").items()
    },
    prefix="roberta.",
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
    graft={**BERT.graft, "pooler_activation": "relu"},
    settings={"quantization_config": (None,), "pruned_heads": ({}, None)},
    architectures=_uses("DistilBert", ForMaskedLM="masked", ForSequenceClassification="classify", Model="body"),
    prefix="distilbert.",
)  # fmt: skip
GPT2 = Family(
    kind="gpt2",
    title="GPT-2",
    preset="gpt2",
    offered="gpt2-mini",
    names={
        "layers": "n_layer", "hidden_size": "n_embd", "heads": "n_head", "intermediate_size": "n_inner",
        "activation": "activation_function", "dropout": "resid_pdrop", "context": "n_positions",
        "norm_epsilon": "layer_norm_epsilon",
    },
    fixed={
        "norm": "layer", "norm_place": "pre", "positions": "learned", "bias": True, "scale_embeddings": False,
        "embedding_norm": False, "position_offset": 0, "segments": 0,
    },
    head={"head_transform": False, "head_bias": False, "tie_embeddings": True},
    graft={"pooling": "last", "concat_embeddings": False, "pooler_activation": "none", "class_bias": False},
    settings={
        "scale_attn_weights": (True,), "scale_attn_by_inverse_layer_idx": (False,), "add_cross_attention": (False,),
        "tie_word_embeddings": (True,), "quantization_config": (None,), "pruned_heads": ({}, None),
    },
    architectures=_uses("GPT2", LMHeadModel="causal", ForSequenceClassification="classify", Model="body"),
    prefix="transformer.",
)  # fmt: skip
MARIAN = Family(
    kind="marian",
    title="Marian",
    preset="marian",
    offered="marian-small",
    names={
        "layers": "encoder_layers", "hidden_size": "d_model", "heads": "encoder_attention_heads",
        "intermediate_size": "encoder_ffn_dim", "activation": "activation_function", "dropout": "dropout",
        "context": "max_position_embeddings", "scale_embeddings": "scale_embedding",
    },
    fixed={
        "norm": "layer", "norm_place": "post", "positions": "sinusoidal-halves", "bias": True, "embedding_norm": False,
        "segments": 0, "norm_epsilon": 1e-5,
    },
    head={"head_transform": False, "head_bias": True},
    graft={},
    settings={
        "share_encoder_decoder_embeddings": (True,), "normalize_embedding": (False,), "normalize_before": (False,),
        "add_final_layer_norm": (False,), "static_position_embeddings": (True,), "quantization_config": (None,),
    },
    architectures=_uses("Marian", MTModel="seq2seq"),
    prefix="model.",
)  # fmt: skip

FAMILIES = {family.kind: family for family in (BERT, ROBERTA, DISTILBERT, GPT2, MARIAN)}
MODEL_TYPES = {**FAMILIES, "camembert": ROBERTA, "xlm-roberta": ROBERTA}
"""The family of each `model_type`."""

_DEFAULTS: dict[str, dict[str, Any]] = {
    "roberta": {"hidden_act": "gelu", "hidden_dropout_prob": 0.1, "layer_norm_eps": 1e-12, "type_vocab_size": 2},
    "gpt2": {"activation_function": "gelu_new", "resid_pdrop": 0.1, "layer_norm_epsilon": 1e-5, "n_inner": None},
    "distilbert": {"activation": "gelu", "dropout": 0.1},
    "marian": {"activation_function": "gelu", "dropout": 0.1, "scale_embedding": False},
}
_DEFAULTS["bert"] = _DEFAULTS["roberta"]
"""Settings that an older config.json may lack, with their defaults."""


# -- reading -----------------------------------------------------------------------------------


def family_of(config: Mapping[str, Any], where: str) -> Family:
    """Return the family of a checkpoint; raise a `UserError` for settings that are not supported."""
    named = config.get("model_type")
    if named not in MODEL_TYPES:
        raise UserError(f"{where}: model_type {named!r} is not supported; known are {', '.join(MODEL_TYPES)}")
    family = MODEL_TYPES[named]
    if "auto_map" in config:
        raise UserError(f"{where}: auto_map asks for code of the checkpoint's own, which is never run")
    for name, known in family.settings.items():
        if name in config and config[name] not in known:
            raise UserError(f"{where}: {name} is {config[name]!r}, which is not supported (only {known[0]!r} is)")
    if family is MARIAN:
        for name, other in (("layers", "layers"), ("attention_heads", "attention_heads"), ("ffn_dim", "ffn_dim")):
            if config.get(f"encoder_{name}") != config.get(f"decoder_{other}"):
                raise UserError(
                    f"{where}: encoder_{name} is {config.get(f'encoder_{name}')} and decoder_{name} "
                    f"{config.get(f'decoder_{name}')}; only equal sides are supported"
                )
        if config.get("decoder_vocab_size") not in (None, config.get("vocab_size")):
            raise UserError(f"{where}: decoder_vocab_size differs from vocab_size; only one vocabulary is supported")
    return family


def use_of(family: Family, config: Mapping[str, Any], where: str) -> str:
    """Return the objective of the head of a checkpoint."""
    named = (config.get("architectures") or [None])[0]
    if named not in family.architectures:
        raise UserError(
            f"{where}: the architecture {named!r} is not supported; known are {', '.join(family.architectures)}"
        )
    use = family.architectures[named]
    if use == "classify" and config.get("problem_type") not in (None, "single_label_classification"):
        raise UserError(f"{where}: problem_type {config['problem_type']!r} is not supported; one label a text is")
    return use


def shape_of(family: Family, config: Mapping[str, Any], where: str) -> Shape:
    """Read the shape of a body."""
    known = {**_DEFAULTS[family.kind], **config}
    read: dict[str, Any] = {}
    for ours, theirs in family.names.items():
        if theirs not in known:
            raise UserError(f"{where}: the setting {theirs!r} is missing; restore the file from a copy")
        read[ours] = known[theirs]
    if read["activation"] not in ACTIVATIONS:
        raise UserError(
            f"{where}: {family.names['activation']} {read['activation']!r} is not supported; "
            f"known are {', '.join(ACTIVATIONS)}"
        )
    read["activation"] = ACTIVATIONS[read["activation"]]
    if family is ROBERTA and read["activation"] != "gelu":
        raise UserError(f"{where}: RoBERTa's head is made for gelu, and hidden_act is {known['hidden_act']!r}")
    tied = known.get("tie_word_embeddings", True)
    try:
        if family is GPT2 and read["intermediate_size"] is None:
            read["intermediate_size"] = 4 * read["hidden_size"]
        if family is ROBERTA:
            read["position_offset"] = known.get("pad_token_id", 1) + 1
            read["context"] -= read["position_offset"]
        return replace(
            PRESETS[family.preset]().shape, **{**family.fixed, **family.head, "tie_embeddings": tied, **read}
        )
    except TypeError as problem:
        raise UserError(f"{where}: a setting is of the wrong kind ({problem}); restore the file from a copy") from None
    except UserError as problem:
        raise UserError(f"{where}: {problem}") from None


def labels_of(config: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Read the names of the classes, in order."""
    table = config.get("id2label") or {str(i): f"LABEL_{i}" for i in range(2)}  # what they leave out
    places = [str(i) for i in range(len(table))]
    labels = tuple(str(table[i]) for i in places) if {*table} == {*places} else ()
    if len(labels) < 2 or len({*labels}) < len(labels):
        raise UserError(f"{where}: id2label must name two or more classes, each once, from 0 on")
    return labels


def graft_of(family: Family, config: Mapping[str, Any]) -> Graft:
    """Describe the class head of a checkpoint."""
    dropout = config.get("seq_classif_dropout" if family is DISTILBERT else "classifier_dropout")
    return Graft(**family.graft, head_dropout=dropout or 0.0)


# -- writing -----------------------------------------------------------------------------------


def fitting_family(recipe: Recipe) -> Family:
    """Return the family that matches a body."""
    if recipe.body == "encoder-decoder":
        return MARIAN
    if recipe.body == "decoder":
        return GPT2
    if recipe.shape.position_offset:
        return ROBERTA
    return BERT if recipe.shape.segments else DISTILBERT


def misfits(family: Family, recipe: Recipe, tokenizer: Tokenizer) -> list[str]:
    """Return the settings of a model that the family does not have; none if it fits exactly."""
    shape, found = recipe.shape, []
    fixed = dict(family.fixed)
    if recipe.objective in ("masked", "causal", "seq2seq"):
        fixed |= family.head
        if not shape.tie_embeddings and "tie_embeddings" not in family.head:
            fixed["head_bias"] = shape.head_bias  # an untied head has the bias of all maps
    for name, wanted in fixed.items():
        if getattr(shape, name) != wanted:
            found.append(f"{name} {_told(getattr(shape, name))} ({family.title}: {_told(wanted)})")
    if shape.activation not in THEIR_ACTIVATION:
        found.append(f"activation {shape.activation} ({family.title}: {', '.join(THEIR_ACTIVATION)})")
    if family is ROBERTA and tokenizer.pad != shape.position_offset - 1:
        found.append(f"padding id {tokenizer.pad} (RoBERTa: {shape.position_offset - 1})")
    if family is ROBERTA and shape.activation != "gelu":
        found.append(f"activation {shape.activation} (RoBERTa: gelu)")
    if recipe.graft is not None:
        for name, wanted in family.graft.items():
            if getattr(recipe.graft, name) != wanted:
                found.append(f"{name} {_told(getattr(recipe.graft, name))} ({family.title}: {_told(wanted)})")
    if recipe.masking is not None and recipe.masking.next_sentence and family is not BERT:
        found.append("next-sentence prediction (BERT alone has it)")
    if recipe.masking is not None and recipe.masking.gist:
        found.append("a gist head (none of the families has one; pretrain without --gist)")
    return found


def _told(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def config_of(family: Family, recipe: Recipe, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the config.json of a model that fits a family."""
    shape = recipe.shape
    pairs = recipe.masking is not None and recipe.masking.next_sentence
    config: dict[str, Any] = {
        "architectures": [family.architecture("pairs" if pairs else recipe.objective)],
        "model_type": family.kind,
        "vocab_size": recipe.vocab_size,
        "pad_token_id": tokenizer.pad,
        "tie_word_embeddings": shape.tie_embeddings,
    }
    config |= {theirs: getattr(shape, ours) for ours, theirs in family.names.items()}
    config[family.names["activation"]] = THEIR_ACTIVATION[shape.activation]
    config[family.names["context"]] = shape.context + shape.position_offset
    # Ours hide no attention weights.
    none = {"bert": "attention_probs_dropout_prob", "roberta": "attention_probs_dropout_prob", "gpt2": "attn_pdrop"}
    config[none.get(family.kind, "attention_dropout")] = 0.0
    if family is GPT2:
        config |= {"bos_token_id": tokenizer.start, "eos_token_id": tokenizer.end, "embd_pdrop": shape.dropout}
    elif family is MARIAN:
        config |= {name.replace("encoder", "decoder"): config[name] for name in config if name.startswith("encoder_")}
        config |= {"decoder_vocab_size": recipe.vocab_size, "activation_dropout": shape.dropout}
        config |= {"eos_token_id": tokenizer.end, "bos_token_id": None, "decoder_start_token_id": tokenizer.start}
        config |= {"forced_eos_token_id": None, "is_encoder_decoder": True}
    elif family is ROBERTA:
        config |= {"bos_token_id": tokenizer.cls, "eos_token_id": tokenizer.sep}
    if recipe.labels:
        config["id2label"] = {str(i): label for i, label in enumerate(recipe.labels)}
        config["label2id"] = {label: i for i, label in enumerate(recipe.labels)}
        config["problem_type"] = "single_label_classification"
        dropout = recipe.graft.head_dropout if recipe.graft is not None else 0.0
        if family is not GPT2:
            config["seq_classif_dropout" if family is DISTILBERT else "classifier_dropout"] = dropout
    return config


def masking_of(use: str) -> Masking | None:
    """Return the masking settings of an imported masked model."""
    return {"masked": Masking(), "pairs": Masking(next_sentence=True)}.get(use)
