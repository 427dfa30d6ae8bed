"""Our body against PyTorch's own Transformer layers, weights copied across."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from greffon.core.own_presets import lab
from greffon.core.shape import Shape
from greffon.nn.body import Body, Decoder, Encoder
from greffon.nn.masks import PADDING, square
from greffon.nn.positions import sinusoids


def copy_into_torch(body: Body, encoder: nn.TransformerEncoder) -> None:
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
    body = Decoder(shape, vocab_size=100).eval()
    with torch.no_grad():
        for p in body.parameters():  # norms and biases too, so that a forgotten one shows
            p.add_(0.1 * torch.randn_like(p))
    layer = nn.TransformerEncoderLayer(
        shape.hidden_size,
        shape.heads,
        shape.intermediate_size,
        dropout=0.0,
        activation=activation,
        batch_first=True,
        norm_first=place == "pre",
    )
    final = body.norm if place == "pre" else None
    encoder = nn.TransformerEncoder(layer, shape.layers, norm=final, enable_nested_tensor=False).eval()
    copy_into_torch(body, encoder)
    tokens = torch.randint(100, (3, 40))
    x = body.embedding(tokens) * math.sqrt(shape.hidden_size) + sinusoids(40, shape.hidden_size)
    with torch.no_grad():
        theirs = encoder(x, mask=~square(40))
        torch.testing.assert_close(body(tokens), theirs, atol=1e-5, rtol=1e-5)


def test_encoder_equals_torch_transformer_encoder_without_a_mask() -> None:
    torch.manual_seed(0)
    shape = replace(lab().shape, dropout=0.0)
    body = Encoder(shape, vocab_size=100).eval()
    layer = nn.TransformerEncoderLayer(
        shape.hidden_size, shape.heads, shape.intermediate_size, dropout=0.0, batch_first=True
    )
    encoder = nn.TransformerEncoder(layer, shape.layers, enable_nested_tensor=False).eval()
    copy_into_torch(body, encoder)
    tokens = torch.randint(100, (3, 40))
    documents = torch.ones_like(tokens)
    documents[1, 25:] = PADDING
    x = body.embedding(tokens) * math.sqrt(shape.hidden_size) + sinusoids(40, shape.hidden_size)
    with torch.no_grad():
        theirs = encoder(x, src_key_padding_mask=documents == PADDING)
        real = documents != PADDING
        torch.testing.assert_close(body(tokens, documents)[real], theirs[real], atol=1e-5, rtol=1e-5)


def test_encoder_equals_bert_layers() -> None:
    """BERT's stack of layers, segments and learned positions; its embedding norm is not ours."""
    import transformers

    torch.manual_seed(0)
    shape = Shape(
        layers=3, hidden_size=32, heads=4, intermediate_size=64, activation="gelu", norm_place="post",
        positions="learned", bias=True, tie_embeddings=False, context=24, segments=2,
    )  # fmt: skip
    body = Encoder(shape, vocab_size=50).eval()
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, max_position_embeddings=24, layer_norm_eps=1e-5,
    )  # fmt: skip
    bert = transformers.BertModel(config, add_pooling_layer=False).eval()
    embeddings = bert.embeddings
    with torch.no_grad():
        for p in bert.parameters():
            p.add_(0.1 * torch.randn_like(p))
        body.embedding.weight.copy_(embeddings.word_embeddings.weight / math.sqrt(32))
        body.segments.weight.copy_(embeddings.token_type_embeddings.weight)
        body.positions.table.copy_(embeddings.position_embeddings.weight)
        for ours, theirs in zip(body.blocks, bert.encoder.layer, strict=True):
            maps = theirs.attention.self
            ours.attention.query.load_state_dict(maps.query.state_dict())
            ours.attention.key.load_state_dict(maps.key.state_dict())
            ours.attention.value.load_state_dict(maps.value.state_dict())
            ours.attention.out.load_state_dict(theirs.attention.output.dense.state_dict())
            ours.attention_norm.load_state_dict(theirs.attention.output.LayerNorm.state_dict())
            ours.feed_forward.up.load_state_dict(theirs.intermediate.dense.state_dict())
            ours.feed_forward.down.load_state_dict(theirs.output.dense.state_dict())
            ours.feed_forward_norm.load_state_dict(theirs.output.LayerNorm.state_dict())
    embeddings.LayerNorm = nn.Identity()
    tokens, segments = torch.randint(50, (2, 20)), torch.randint(2, (2, 20))
    documents = torch.ones_like(tokens)
    documents[0, 13:] = PADDING
    with torch.no_grad():
        theirs = bert(tokens, attention_mask=(documents != PADDING).long(), token_type_ids=segments)
        ours = body(tokens, documents, segments=segments)
    real = documents != PADDING
    torch.testing.assert_close(ours[real], theirs.last_hidden_state[real], atol=1e-5, rtol=1e-5)


def test_rotary_attention_depends_on_distance_alone() -> None:
    torch.manual_seed(1)
    body = Decoder(Shape(layers=2, hidden_size=32, heads=2, intermediate_size=64, context=64), vocab_size=50).eval()
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
