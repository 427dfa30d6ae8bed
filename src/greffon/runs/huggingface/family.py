"""A family of Hugging Face checkpoints: what its configuration is called there, and what it fixes of our bodies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from greffon.core.choices import Activation, BodyKind
from greffon.core.recipe import Recipe
from greffon.data.tokenizer import Tokenizer

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


def uses(prefix: str, **objectives: str) -> dict[str, str]:
    """Name the classes of a family: prefix and suffix, and what the head of each is for."""
    return {prefix + suffix: objective for suffix, objective in objectives.items()}


TOKENS = {"ForTokenClassification": "tokens"}


def token_graft(family: Family) -> Mapping[str, tuple[Any, ...]]:
    """Describe the heads over tokens of a family: one linear layer, or ModernBERT's dense layer and norm before it."""
    plain: dict[str, tuple[Any, ...]] = {
        "pooler_activation": ("none",), "pooler_norm": (False,), "pooler_bias": (True,), "class_bias": (True,),
    }  # fmt: skip
    dense = {name: values for name, values in family.graft.items() if name in plain}
    return dense if family.graft.get("pooler_norm") == (True,) else plain


def class_graft(**fields: Any) -> dict[str, tuple[Any, ...]]:
    """Describe the class heads of a family; each field has one value, or several in a tuple."""
    plain: dict[str, Any] = {
        "concat_embeddings": False, "pooler_activation": "none", "pooler_norm": False, "class_bias": True,
    }  # fmt: skip
    return {name: value if isinstance(value, tuple) else (value,) for name, value in {**plain, **fields}.items()}


PLAIN = {
    "qkv_bias": False, "qk_norm": False, "local_attention": 0, "parallel_residual": False, "first_norm": True,
    "key_value_heads": 0, "head_dim": 0,
}  # fmt: skip
"""What only newer families have."""


def write_decoder(recipe: Recipe, tokenizer: Tokenizer) -> dict[str, Any]:
    """Write the special tokens of a decoder."""
    return {"bos_token_id": tokenizer.start, "eos_token_id": tokenizer.end}
