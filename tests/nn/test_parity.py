"""Our body against PyTorch's own Transformer layers, weights copied across."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from greffon.config import Shape
from greffon.nn.body import Decoder
from greffon.nn.masks import square
from greffon.nn.positions import sinusoids
from greffon.recipes import lab


def copy_into_torch(body: Decoder, encoder: nn.TransformerEncoder) -> None:
    with torch.no_grad():
        for ours, theirs in zip(body.blocks, encoder.layers, strict=True):
            attention = ours.attention
            maps = (attention.query, attention.key, attention.value)
            theirs.self_attn.in_proj_weight.copy_(torch.cat([m.weight for m in maps]))
            theirs.self_attn.in_proj_bias.copy_(torch.cat([m.bias for m in maps]))
            theirs.self_attn.out_proj.load_state_dict(attention.out.state_dict())
            theirs.linear1.load_state_dict(ours.feed_forward.up.state_dict())
            theirs.linear2.load_state_dict(ours.feed_forward.down.state_dict())
            theirs.norm1.load_state_dict(ours.attention_norm.state_dict())
            theirs.norm2.load_state_dict(ours.feed_forward_norm.state_dict())


@pytest.mark.parametrize("place", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_equals_torch_transformer_encoder(place: str, activation: str) -> None:
    torch.manual_seed(0)
    shape = replace(lab().shape, norm_place=place, activation=activation, dropout=0.0)
    body = Decoder(shape, vocabulary=100).eval()
    with torch.no_grad():
        for p in body.parameters():  # norms and biases too, so that a forgotten one shows
            p.add_(0.1 * torch.randn_like(p))
    layer = nn.TransformerEncoderLayer(
        shape.width,
        shape.heads,
        shape.feed_forward,
        dropout=0.0,
        activation=activation,
        batch_first=True,
        norm_first=place == "pre",
    )
    final = body.norm if place == "pre" else None
    encoder = nn.TransformerEncoder(layer, shape.layers, norm=final, enable_nested_tensor=False).eval()
    copy_into_torch(body, encoder)
    tokens = torch.randint(100, (3, 40))
    x = body.embedding(tokens) * math.sqrt(shape.width) + sinusoids(40, shape.width)
    with torch.no_grad():
        theirs = encoder(x, mask=~square(40))
        torch.testing.assert_close(body(tokens), theirs, atol=1e-5, rtol=1e-5)


def test_rotary_attention_depends_on_distance_alone() -> None:
    torch.manual_seed(1)
    body = Decoder(Shape(layers=2, width=32, heads=2, feed_forward=64, context=64), vocabulary=50).eval()
    tokens = torch.randint(50, (2, 12))
    here = body(tokens)
    further = body(tokens, positions=torch.arange(12).unsqueeze(0) + 37)
    torch.testing.assert_close(here, further, atol=1e-5, rtol=1e-4)


def test_sinusoids_are_those_of_the_paper() -> None:
    table = sinusoids(50, 6)
    for position in (0, 1, 7, 49):
        for i in range(3):
            angle = position / 10_000 ** (2 * i / 6)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-5)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-5)
