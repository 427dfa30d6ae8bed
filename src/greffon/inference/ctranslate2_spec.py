"""The weights of a translator where CTranslate2 looks for them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from greffon.nn.attention import Attention
from greffon.nn.blocks import Block, CrossBlock
from greffon.nn.body import Encoder
from greffon.nn.encoder_decoder import EncoderDecoder, TargetDecoder
from greffon.nn.heads import VocabularyHead
from greffon.nn.model import Model

ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "gelu-tanh": "GELUTanh", "silu": "SWISH", "swiglu": "SWISH"}


def specification(model: Model, specs: Any) -> Any:
    """Place every weight of the model where the library looks for it."""
    body, head = model.body, model.head
    assert isinstance(body, EncoderDecoder)
    assert isinstance(head, VocabularyHead)
    shape = body.shape
    spec = specs.TransformerSpec.from_config(
        shape.layers,
        shape.heads,
        pre_norm=shape.norm_place == "pre",
        activation=specs.Activation[ACTIVATIONS[shape.activation]],
        ffn_glu=shape.activation == "swiglu",
        rms_norm=shape.norm == "rms",
        layernorm_embedding=shape.embedding_norm,
    )
    spec.config.layer_norm_epsilon = shape.norm_epsilon
    spec.encoder.scale_embeddings = spec.decoder.scale_embeddings = shape.scale_embeddings
    embedding = _array(body.embedding.weight)
    spec.encoder.embeddings[0].weight = spec.decoder.embeddings.weight = embedding
    spec.decoder.projection.weight = embedding if head.weight is body.embedding.weight else _array(head.weight)
    if head.bias is not None:
        spec.decoder.projection.bias = _array(head.bias)
    sides: list[tuple[Encoder | TargetDecoder, Any]] = [(body.encoder, spec.encoder), (body.decoder, spec.decoder)]
    for side, its in sides:
        its.position_encodings.encodings = _position_table(side, shape.context, shape.hidden_size)
        if shape.embedding_norm:
            _place_norm(side.embedding_norm, its.layernorm_embedding)
        if hasattr(its, "layer_norm"):
            _place_norm(side.norm, its.layer_norm)
        for block, layer in zip(side.blocks, its.layer, strict=True):
            assert isinstance(block, Block)
            _place_block(block, layer)
    return spec


def _position_table(side: Encoder | TargetDecoder, context: int, width: int) -> np.ndarray:
    """Return what is added to the embedding at each position; a source is all of the first segment."""
    zeros = torch.zeros(1, context, width)
    if isinstance(side, Encoder) and side.segments is not None:
        zeros = zeros + side.segments.weight[0]
    return _array(side.positions.add(zeros, torch.arange(context).unsqueeze(0))[0])


def _place_block(block: Block, layer: Any) -> None:
    _place_attention(block.attention, layer.self_attention, ("query", "key", "value"), ())
    _place_norm(block.attention_norm, layer.self_attention.layer_norm)
    if isinstance(block, CrossBlock):
        _place_attention(block.cross, layer.attention, ("query",), ("key", "value"))
        _place_norm(block.cross_norm, layer.attention.layer_norm)
    inner = block.feed_forward
    if inner.gate is None:
        _place_linears([inner.up], layer.ffn.linear_0)
    else:  # the library applies the activation to its first layer and multiplies by the second
        _place_linears([inner.gate], layer.ffn.linear_0)
        _place_linears([inner.up], layer.ffn.linear_0_noact)
    _place_linears([inner.down], layer.ffn.linear_1)
    _place_norm(block.feed_forward_norm, layer.ffn.layer_norm)


def _place_attention(attention: Attention, spec: Any, *fused: Sequence[str]) -> None:
    """Place the four linear layers; those with the same input are one matrix there."""
    groups = [[getattr(attention, name) for name in names] for names in fused if names]
    for linears, its in zip([*groups, [attention.out]], spec.linear, strict=True):
        _place_linears(linears, its)


def _place_linears(linears: Sequence[nn.Linear], spec: Any) -> None:
    spec.weight = np.concatenate([_array(linear.weight) for linear in linears])
    if linears[0].bias is not None:
        spec.bias = np.concatenate([_array(linear.bias) for linear in linears])


def _place_norm(norm: nn.Module, spec: Any) -> None:
    assert isinstance(norm, nn.LayerNorm | nn.RMSNorm)
    spec.gamma = _array(norm.weight)
    if isinstance(norm, nn.LayerNorm):
        spec.beta = np.zeros_like(spec.gamma) if norm.bias is None else _array(norm.bias)


def _array(tensor: Tensor) -> np.ndarray:
    """Copy a tensor: the library quantizes in place."""
    return tensor.detach().float().numpy().copy()
