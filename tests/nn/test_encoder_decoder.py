"""The encoder-decoder against PyTorch's and Marian's with copied weights; cache and padding change nothing."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from greffon.core.shape import Shape
from greffon.nn.attention import Attention, watching
from greffon.nn.blocks import CrossBlock
from greffon.nn.encoder_decoder import EncoderDecoder
from greffon.nn.masks import PADDING, square
from greffon.nn.positions import sinusoids

VOCABULARY = 60
TINY = Shape(layers=2, hidden_size=16, heads=2, intermediate_size=32, context=40)
PAPER = replace(TINY, positions="sinusoidal", norm_place="post", bias=True, activation="relu")
SHAPES = [
    TINY,
    PAPER,
    replace(TINY, positions="learned", norm="rms", activation="swiglu"),
    replace(PAPER, norm_place="pre", tie_embeddings=False),
]


def make(shape: Shape) -> EncoderDecoder:
    torch.manual_seed(0)
    body = EncoderDecoder(shape, VOCABULARY).eval()
    with torch.no_grad():
        for p in body.parameters():  # norms and biases too, so that a forgotten one shows
            p.add_(0.1 * torch.randn_like(p))
    return body


def rows(count: int, length: int) -> Tensor:
    return torch.randint(1, VOCABULARY, (count, length))


def copy_attention(ours: Attention, theirs: nn.MultiheadAttention) -> None:
    maps = (ours.query, ours.key, ours.value)
    theirs.in_proj_weight.copy_(torch.cat([m.weight for m in maps]))
    theirs.in_proj_bias.copy_(torch.cat([m.bias for m in maps]))
    theirs.out_proj.load_state_dict(ours.out.state_dict())


@torch.no_grad()
def copy_into_torch(body: EncoderDecoder, theirs: nn.Transformer) -> None:
    for mine, other in zip(body.encoder.blocks, theirs.encoder.layers, strict=True):
        copy_attention(mine.attention, other.self_attn)
        norms = [(mine.attention_norm, other.norm1), (mine.feed_forward_norm, other.norm2)]
        _copy_rest(mine, other, norms)
    for mine, other in zip(body.decoder.blocks, theirs.decoder.layers, strict=True):
        copy_attention(mine.attention, other.self_attn)
        copy_attention(mine.cross, other.multihead_attn)
        norms = [
            (mine.attention_norm, other.norm1),
            (mine.cross_norm, other.norm2),
            (mine.feed_forward_norm, other.norm3),
        ]
        _copy_rest(mine, other, norms)


def _copy_rest(mine: nn.Module, other: nn.Module, norms: list[tuple[nn.Module, nn.Module]]) -> None:
    other.linear1.load_state_dict(mine.feed_forward.up.state_dict())
    other.linear2.load_state_dict(mine.feed_forward.down.state_dict())
    for ours, theirs in norms:
        theirs.load_state_dict(ours.state_dict())


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("place", ["post", "pre"])
def test_equals_torch_transformer(place: str) -> None:
    body = make(replace(PAPER, norm_place=place))
    layers = {"num_encoder_layers": 2, "num_decoder_layers": 2, "dim_feedforward": 32}
    theirs = nn.Transformer(16, 2, **layers, dropout=0.0, batch_first=True, norm_first=place == "pre").eval()
    theirs.encoder.use_nested_tensor = False
    copy_into_torch(body, theirs)
    # Ours ends in a norm of its own only where the blocks do not.
    theirs.encoder.norm, theirs.decoder.norm = body.encoder.norm, body.decoder.norm
    source, target = rows(3, 12), rows(3, 9)
    documents = torch.ones_like(source)
    documents[1, 7:] = PADDING
    padding = documents == PADDING

    def embed(tokens: Tensor) -> Tensor:
        return body.embedding(tokens) * math.sqrt(16) + sinusoids(tokens.shape[1], 16)

    with torch.no_grad():
        found = theirs(
            embed(source),
            embed(target),
            tgt_mask=~square(9),
            src_key_padding_mask=padding,
            memory_key_padding_mask=padding,
        )
        torch.testing.assert_close(body(source, target, documents), found, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_batched_equals_alone(shape: Shape) -> None:
    body = make(shape)
    lengths = [(3, 9), (12, 4), (7, 7)]
    pairs = [(rows(1, s)[0], rows(1, t)[0]) for s, t in lengths]
    source, target = torch.zeros(3, 12, dtype=torch.long), torch.zeros(3, 9, dtype=torch.long)
    documents = torch.full((3, 12), PADDING)
    for row, (left, right) in enumerate(pairs):
        source[row, : len(left)], documents[row, : len(left)], target[row, : len(right)] = left, 1, right
    together = body(source, target, documents)
    for row, (left, right) in enumerate(pairs):
        alone = body(left.unsqueeze(0), right.unsqueeze(0))[0]
        torch.testing.assert_close(together[row, : len(right)], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_target_sees_all_of_the_source_and_nothing_of_its_future(shape: Shape) -> None:
    body = make(shape)
    source, target = rows(2, 8), rows(2, 9)
    whole = body(source, target)
    later = target.clone()
    later[:, 6:] = (later[:, 6:] + 1) % VOCABULARY
    torch.testing.assert_close(body(source, later)[:, :6], whole[:, :6], atol=1e-6, rtol=1e-6)
    last = source.clone()
    last[:, -1] = (last[:, -1] + 1) % VOCABULARY
    assert not torch.allclose(body(last, target)[:, 0], whole[:, 0], atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("shape", SHAPES)
def test_reading_on_equals_reading_at_once_with_beams_that_share_their_source(shape: Shape) -> None:
    body = make(shape)
    source = rows(2, 8)
    documents = torch.ones_like(source)
    documents[0, 5:] = PADDING
    targets = rows(6, 9)  # three beams for each of two sentences
    whole = body(source.repeat_interleave(3, dim=0), targets, documents.repeat_interleave(3, dim=0))
    cache = body.new_cache(body.encode(source, documents), beams=3, length=9)
    assert all(len(keys) == 2 for keys, _ in cache.source.layers), "the source is not copied for each beam"
    order = torch.tensor([2, 0, 1, 5, 3, 4])
    for step in range(9):
        if step == 4:  # beams change places, then the second sentence goes on alone
            cache.take_beams(order)
            targets, whole = targets[order], whole[order]
        if step == 6:
            cache.take_sentences(torch.tensor([1]), torch.tensor([3, 4, 5]))
            targets, whole = targets[3:], whole[3:]
        found = body.decode_step(targets[:, step : step + 1], cache)
        torch.testing.assert_close(found[:, 0], whole[:, step], atol=1e-5, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("shape", SHAPES)
def test_the_weights_seen_are_those_the_values_were_mixed_by(shape: Shape) -> None:
    body = make(shape)
    source, target = rows(2, 8), rows(2, 5)
    block = body.decoder.blocks[0]
    assert isinstance(block, CrossBlock)
    mixed = []
    block.cross.out.register_forward_pre_hook(lambda module, inputs: mixed.append(inputs[0]))
    with watching() as seen:
        body(source, target)
    assert len(seen) == 2 + 2 * 2
    weights = seen[block.cross]
    assert weights.shape == (2, 2, 5, 8)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 2, 5))
    _, values = body.encode(source).layers[0]
    torch.testing.assert_close((weights @ values).transpose(1, 2).flatten(2), mixed[0], atol=1e-5, rtol=1e-4)


def test_watching_ends_with_its_block() -> None:
    body = make(TINY)
    with watching() as seen:
        pass
    body(rows(1, 3), rows(1, 3))
    assert not seen


def test_one_embedding_serves_both_sides() -> None:
    body = make(TINY)
    names = [name for name, _ in body.named_parameters() if "embedding" in name]
    assert names == ["encoder.embedding.weight"]
