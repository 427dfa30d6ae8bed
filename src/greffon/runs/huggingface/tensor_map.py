"""Which tensor of a checkpoint is which parameter of our models, by name. Knows no files.

A `Place` pairs one tensor of a checkpoint with one of our parameters, or with several that the checkpoint
stacks in one. Copying in both directions is exact: tensors are only split, stacked and transposed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from greffon.core.errors import UserError
from greffon.core.recipe import Recipe

Turn = Literal["none", "transposed", "flipped", "row"]


@dataclass(frozen=True)
class Place:
    """One tensor of a checkpoint and our parameters, which are stacked by rows if there are several."""

    theirs: str
    ours: tuple[str, ...]
    turn: Turn = "none"
    heads: int = 1  # within each of which the checkpoint stacks our parameters
    other_name: str = ""  # of the tensor in some checkpoints

    def fits(self, tensor: Tensor) -> bool:
        """Whether a tensor of a checkpoint can be split into our parameters."""
        parts = self.heads * len(self.ours)
        return parts == 1 or (tensor.ndim > 0 and tensor.numel() > 0 and self._turned(tensor).shape[0] % parts == 0)

    def taken(self, tensor: Tensor) -> dict[str, Tensor]:
        """Split a tensor of a checkpoint into our parameters."""
        tensor = self._turned(tensor)
        if len(self.ours) == 1:
            return {self.ours[0]: tensor.float().contiguous()}
        cut = tensor.reshape(self.heads, len(self.ours), -1, *tensor.shape[1:])  # (H, parts, rows of a head, …)
        return {name: part.flatten(0, 1).float() for name, part in zip(self.ours, cut.unbind(1), strict=True)}

    def _turned(self, tensor: Tensor) -> Tensor:
        if self.turn == "transposed" and tensor.ndim == 2:
            return tensor.T
        if self.turn == "flipped":
            return tensor.flip(0)
        return tensor.reshape(-1) if self.turn == "row" else tensor

    def given(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Combine our parameters into the tensor of a checkpoint."""
        tensor = tensors[self.ours[0]]
        if len(self.ours) > 1:
            parts = [tensors[name] for name in self.ours]
            cut = [part.reshape(self.heads, -1, *part.shape[1:]) for part in parts]  # (H, rows of a head, …) each
            tensor = torch.cat(cut, dim=1).flatten(0, 1)
        if self.turn == "transposed" and tensor.ndim == 2:
            tensor = tensor.T
        elif self.turn == "flipped":
            tensor = tensor.flip(0)
        elif self.turn == "row":
            tensor = tensor.reshape(1, -1)
        return tensor.contiguous()


def to_ours(tensors: Mapping[str, Tensor], places: Iterable[Place], where: str) -> dict[str, Tensor]:
    """Convert the tensors of a checkpoint to our parameters; raise a `UserError` if one is missing."""
    found: dict[str, Tensor] = {}
    for place in places:
        tensor = tensors.get(place.theirs, tensors.get(place.other_name))
        if tensor is None:
            raise UserError(f"{where} lacks the tensor {place.theirs}; it is incomplete, or of another architecture")
        if not place.fits(tensor):
            raise UserError(
                f"{where}: {place.theirs} is {tuple(tensor.shape)}, which cannot be cut into {len(place.ours)} parts "
                f"of {place.heads} heads; restore the files that belong together"
            )
        found |= place.taken(tensor)
    return found


def to_theirs(tensors: Mapping[str, Tensor], places: Iterable[Place]) -> dict[str, Tensor]:
    """Convert our parameters to the tensors of a checkpoint."""
    return {place.theirs: place.given(tensors) for place in places}


def places_of(kind: str, recipe: Recipe) -> list[Place]:
    """Return the places of all tensors in a checkpoint of a family, by its `kind`."""
    others = {"gpt2": _gpt2, "modernbert": _modernbert, "gpt_neox": _neox}
    others |= dict.fromkeys(("llama", "qwen2", "qwen3", "eurobert"), _llama)
    others |= dict.fromkeys(("marian", "mbart", "m2m_100"), _two_sides)
    return list(others[kind](recipe) if kind in others else _encoder(kind, recipe))


BOTH = ("weight", "bias")


def _modules(ours: str, theirs: str, names: Mapping[str, str], parts: Sequence[str] = BOTH) -> Iterator[Place]:
    """Pair the weights and biases of corresponding modules."""
    for own, other in names.items():
        for part in parts:
            yield Place(f"{theirs}{other}.{part}", (f"{ours}{own}.{part}",))


_BERT_LAYER = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.out": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feed_forward.up": "intermediate.dense",
    "feed_forward.down": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}
_DISTIL_LAYER = {
    "attention.query": "attention.q_lin",
    "attention.key": "attention.k_lin",
    "attention.value": "attention.v_lin",
    "attention.out": "attention.out_lin",
    "attention_norm": "sa_layer_norm",
    "feed_forward.up": "ffn.lin1",
    "feed_forward.down": "ffn.lin2",
    "feed_forward_norm": "output_layer_norm",
}
_TOKEN_HEADS = {  # transform, its norm, the matrix, the bias
    "bert": ("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm", "cls.predictions.decoder.weight",
             "cls.predictions.bias"),
    "roberta": ("lm_head.dense", "lm_head.layer_norm", "lm_head.decoder.weight", "lm_head.bias"),
    "distilbert": ("vocab_transform", "vocab_layer_norm", "vocab_projector.weight", "vocab_projector.bias"),
}  # fmt: skip
_CLASS_HEADS = {  # the hidden layer, and the output layer
    "bert": ("bert.pooler.dense", "classifier"),
    "roberta": ("classifier.dense", "classifier.out_proj"),
    "distilbert": ("pre_classifier", "classifier"),
}


def _encoder(kind: str, recipe: Recipe) -> Iterator[Place]:
    distilled = kind == "distilbert"
    embeddings = f"{kind}.embeddings."
    yield Place(embeddings + "word_embeddings.weight", ("body.embedding.weight",))
    yield Place(embeddings + "position_embeddings.weight", ("body.positions.table",))
    if not distilled:
        yield Place(embeddings + "token_type_embeddings.weight", ("body.segments.weight",))
    yield from _modules("body.", embeddings, {"embedding_norm": "LayerNorm"})
    layers = f"{kind}.transformer.layer." if distilled else f"{kind}.encoder.layer."
    for i in range(recipe.shape.layers):
        yield from _modules(f"body.blocks.{i}.", f"{layers}{i}.", _DISTIL_LAYER if distilled else _BERT_LAYER)
    if recipe.objective == "masked":
        yield from _token_head(kind, recipe)
    elif recipe.task == "tokens":
        yield from _modules("head.", "", {"out": "classifier"})
    elif recipe.objective == "classify":
        inner, out = _CLASS_HEADS[kind]
        yield from _modules("head.", "", {"inner": inner, "out": out})


def _token_head(kind: str, recipe: Recipe) -> Iterator[Place]:
    pairs = recipe.masking is not None and recipe.masking.next_sentence
    head = "head.vocabulary." if pairs else "head."
    inner, norm, matrix, bias = _TOKEN_HEADS[kind]
    yield from _modules(head, "", {"transform.inner": inner, "transform.norm": norm})
    yield Place(bias, (head + "bias",))
    if not recipe.shape.tie_embeddings:
        yield Place(matrix, (head + "weight",))
    if pairs:  # their first class is "follows", ours the second
        yield from _modules("head.pair.", "", {"inner": "bert.pooler.dense"})
        for part in ("weight", "bias"):
            yield Place(f"cls.seq_relationship.{part}", (f"head.pair.out.{part}",), "flipped")


def _gpt2(recipe: Recipe) -> Iterator[Place]:
    yield Place("transformer.wte.weight", ("body.embedding.weight",))
    yield Place("transformer.wpe.weight", ("body.positions.table",))
    for i in range(recipe.shape.layers):
        ours, theirs = f"body.blocks.{i}.", f"transformer.h.{i}."
        yield from _modules(ours, theirs, {"attention_norm": "ln_1", "feed_forward_norm": "ln_2"})
        # GPT-2 stores linear layers as inputs × outputs, and query, key and value in one.
        maps = {
            "attn.c_attn": ("attention.query", "attention.key", "attention.value"),
            "attn.c_proj": ("attention.out",),
            "mlp.c_fc": ("feed_forward.up",),
            "mlp.c_proj": ("feed_forward.down",),
        }
        for other, own in maps.items():
            for part in ("weight", "bias"):
                yield Place(f"{theirs}{other}.{part}", tuple(f"{ours}{name}.{part}" for name in own), "transposed")
    yield from _modules("body.", "transformer.", {"norm": "ln_f"})
    if recipe.task == "tokens":
        yield from _modules("head.", "", {"out": "classifier"})
    elif recipe.objective == "classify":
        yield Place("score.weight", ("head.out.weight",))


_LLAMA_LAYER = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.out": "self_attn.o_proj",
    "attention_norm": "input_layernorm",
    "feed_forward.gate": "mlp.gate_proj",
    "feed_forward.up": "mlp.up_proj",
    "feed_forward.down": "mlp.down_proj",
    "feed_forward_norm": "post_attention_layernorm",
}


def _llama(recipe: Recipe) -> Iterator[Place]:
    """Pair the tensors of a Llama or one of its relatives."""
    shape, weight = recipe.shape, ("weight",)
    yield Place("model.embed_tokens.weight", ("body.embedding.weight",))
    norms = {"attention.query_norm": "self_attn.q_norm", "attention.key_norm": "self_attn.k_norm"}
    layer = _LLAMA_LAYER | (norms if shape.qk_norm else {})
    biased = {name: _LLAMA_LAYER[name] for name in ("attention.query", "attention.key", "attention.value")}
    for i in range(shape.layers):
        yield from _modules(f"body.blocks.{i}.", f"model.layers.{i}.", layer, weight)
        if shape.qkv_bias:
            yield from _modules(f"body.blocks.{i}.", f"model.layers.{i}.", biased, ("bias",))
    yield from _modules("body.", "model.", {"norm": "norm"}, weight)
    if recipe.objective in ("causal", "masked") and not shape.tie_embeddings:
        yield Place("lm_head.weight", ("head.weight",))
    elif recipe.objective == "classify" and recipe.body == "encoder":
        yield from _modules("head.", "", {"out": "classifier"} if recipe.task == "tokens" else _EUROBERT_HEAD)
    elif recipe.objective == "classify":
        yield from _modules("head.", "", {"out": "score"}, BOTH if recipe.task == "tokens" else weight)


_EUROBERT_HEAD = {"inner": "dense", "out": "classifier"}
_NEOX_LAYER = {
    "attention.out": "attention.dense",
    "attention_norm": "input_layernorm",
    "feed_forward.up": "mlp.dense_h_to_4h",
    "feed_forward.down": "mlp.dense_4h_to_h",
    "feed_forward_norm": "post_attention_layernorm",
}


def _neox(recipe: Recipe) -> Iterator[Place]:
    """Pair the tensors of a GPT-NeoX, which stacks queries, keys and values head by head."""
    shape, stacked = recipe.shape, ("attention.query", "attention.key", "attention.value")
    yield Place("gpt_neox.embed_in.weight", ("body.embedding.weight",))
    for i in range(shape.layers):
        ours, theirs = f"body.blocks.{i}.", f"gpt_neox.layers.{i}."
        for part in BOTH:
            names = tuple(f"{ours}{name}.{part}" for name in stacked)
            yield Place(f"{theirs}attention.query_key_value.{part}", names, heads=shape.heads)
        yield from _modules(ours, theirs, _NEOX_LAYER)
    yield from _modules("body.", "gpt_neox.", {"norm": "final_layer_norm"})
    if recipe.objective == "causal" and not shape.tie_embeddings:
        yield Place("embed_out.weight", ("head.weight",), other_name="lm_head.weight")
    elif recipe.task == "tokens":
        yield from _modules("head.", "", {"out": "classifier"})
    elif recipe.objective == "classify":
        yield Place("score.weight", ("head.out.weight",))


def _modernbert(recipe: Recipe) -> Iterator[Place]:
    shape, weight = recipe.shape, ("weight",)
    yield Place("model.embeddings.tok_embeddings.weight", ("body.embedding.weight",))
    yield from _modules("body.", "model.", {"embedding_norm": "embeddings.norm", "norm": "final_norm"}, weight)
    for i in range(shape.layers):
        ours, theirs = f"body.blocks.{i}.", f"model.layers.{i}."
        stacked = {
            "attn.Wqkv": ("attention.query", "attention.key", "attention.value"),
            "attn.Wo": ("attention.out",),
            "mlp.Wi": ("feed_forward.gate", "feed_forward.up"),
            "mlp.Wo": ("feed_forward.down",),
            "mlp_norm": ("feed_forward_norm",),
        }
        if i:  # the embeddings' norm is the first one's
            stacked["attn_norm"] = ("attention_norm",)
        for other, own in stacked.items():
            yield Place(f"{theirs}{other}.weight", tuple(f"{ours}{name}.weight" for name in own))
    if recipe.objective == "masked":
        yield from _modules("head.transform.", "head.", {"inner": "dense", "norm": "norm"}, weight)
        yield Place("decoder.bias", ("head.bias",))
    elif recipe.graft is not None:
        parts = BOTH if recipe.graft.pooler_bias else weight
        yield from _modules("head.", "head.", {"inner": "dense"}, parts)
        yield from _modules("head.", "head.", {"norm": "norm"}, weight)
        yield from _modules("head.", "", {"out": "classifier"})


def _two_sides(recipe: Recipe) -> Iterator[Place]:
    shape = recipe.shape
    yield Place("model.shared.weight", ("body.encoder.embedding.weight",))
    layer = {"attention_norm": "self_attn_layer_norm", "feed_forward.up": "fc1", "feed_forward.down": "fc2",
             "feed_forward_norm": "final_layer_norm", "cross_norm": "encoder_attn_layer_norm"}  # fmt: skip
    for name, other in (("query", "q"), ("key", "k"), ("value", "v"), ("out", "out")):
        layer |= {f"attention.{name}": f"self_attn.{other}_proj", f"cross.{name}": f"encoder_attn.{other}_proj"}
    for side in ("encoder", "decoder"):
        read = {ours: theirs for ours, theirs in layer.items() if side == "decoder" or not ours.startswith("cross")}
        for i in range(shape.layers):
            yield from _modules(f"body.{side}.blocks.{i}.", f"model.{side}.layers.{i}.", read)
        if shape.positions == "learned":
            yield Place(f"model.{side}.embed_positions.weight", (f"body.{side}.positions.table",))
        around = {"embedding_norm": "layernorm_embedding"} if shape.embedding_norm else {}
        around |= {"norm": "layer_norm"} if shape.norm_place == "pre" else {}
        yield from _modules(f"body.{side}.", f"model.{side}.", around)
    if shape.head_bias:
        yield Place("final_logits_bias", ("head.bias",), "row")
    if not shape.tie_embeddings:
        yield Place("lm_head.weight", ("head.weight",))
