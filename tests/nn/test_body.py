"""Padding, packing and cache never change a result."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from greffon.core.presets import PRESETS
from greffon.core.shape import Shape
from greffon.nn.attention import KVCache
from greffon.nn.body import Body, Decoder, Encoder
from greffon.nn.masks import PADDING

VOCABULARY = 60
TINY = Shape(layers=2, hidden_size=16, heads=2, intermediate_size=32, context=32)
SHAPES = [
    TINY,
    replace(TINY, positions="learned", norm="rms", activation="swiglu"),
    replace(TINY, positions="sinusoidal", norm_place="post", bias=True, activation="relu"),
    replace(TINY, positions="none", activation="gelu-tanh"),
]


KINDS = (Decoder, Encoder)


def make(shape: Shape, kind: type[Body] = Decoder) -> Body:
    torch.manual_seed(0)
    return kind(replace(shape, dropout=0.0), VOCABULARY).eval()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", PRESETS)
def test_presets_batched_equals_alone(name: str, kind: type[Body]) -> None:
    body = make(PRESETS[name]().shape, kind)
    texts = [torch.randint(VOCABULARY, (length,)) for length in (3, 17, 30)]
    tokens = torch.zeros(3, 30, dtype=torch.long)
    documents = torch.full((3, 30), PADDING)
    for row, text in enumerate(texts):
        tokens[row, : len(text)], documents[row, : len(text)] = text, 1
    together = body(tokens, documents)
    for row, text in enumerate(texts):
        alone = body(text.unsqueeze(0))[0]
        torch.testing.assert_close(together[row, : len(text)], alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("length", [5, 33, 130])
def test_right_padding_needs_no_mask(shape: Shape, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    body = make(replace(shape, context=length))
    tokens = torch.randint(VOCABULARY, (4, length))
    documents = (torch.arange(length) < torch.tensor([[length], [1], [length // 2], [length - 1]])).long()

    def outcome() -> list[torch.Tensor]:
        body.zero_grad()
        read = body(tokens, documents)[documents != PADDING]
        read.square().sum().backward()
        return [read, *(p.grad for p in body.parameters())]

    without = outcome()
    monkeypatch.setattr("greffon.nn.body.right_padded", lambda documents: False)
    for mine, other in zip(without, outcome(), strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
@given(lengths=st.lists(st.integers(1, 10), min_size=1, max_size=3))
@settings(max_examples=10, deadline=None)
def test_a_packed_document_never_sees_another(shape: Shape, kind: type[Body], lengths: list[int]) -> None:
    body = make(shape, kind)
    texts = [torch.randint(VOCABULARY, (length,)) for length in lengths]
    tokens = torch.cat(texts).unsqueeze(0)
    documents = torch.cat([torch.full((n,), i + 1) for i, n in enumerate(lengths)]).unsqueeze(0)
    positions = torch.cat([torch.arange(n) for n in lengths]).unsqueeze(0)
    packed = body(tokens, documents, positions)[0].split(lengths)
    for text, found in zip(texts, packed, strict=True):
        torch.testing.assert_close(found, body(text.unsqueeze(0))[0], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_future_is_invisible(shape: Shape) -> None:
    body = make(shape)
    tokens = torch.randint(VOCABULARY, (2, 20))
    changed = tokens.clone()
    changed[:, 11:] = (changed[:, 11:] + 1) % VOCABULARY
    before, after = body(tokens), body(changed)
    torch.testing.assert_close(before[:, :11], after[:, :11], atol=1e-6, rtol=1e-6)
    assert not torch.allclose(before[:, 11:], after[:, 11:], atol=1e-3)


@pytest.mark.parametrize("shape", SHAPES)
def test_an_encoder_sees_both_ways(shape: Shape) -> None:
    body = make(shape, Encoder)
    tokens = torch.randint(VOCABULARY, (2, 20))
    for place in (0, 19):
        changed = tokens.clone()
        changed[:, place] = (changed[:, place] + 1) % VOCABULARY
        moved = (body(tokens) - body(changed)).abs().amax(dim=(0, 2))
        assert (moved > 1e-6).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_reading_on_equals_reading_at_once(shape: Shape) -> None:
    body = make(shape)
    tokens = torch.randint(VOCABULARY, (2, 20))
    whole = body(tokens)
    cache = body.new_cache(rows=2, length=20)
    pieces, start = [], 0
    for size in (7, 1, 1, 4, 7):
        part = tokens[:, start : start + size]
        positions = torch.arange(start, start + size).unsqueeze(0).expand(2, -1)
        pieces.append(body.decode_step(part, cache, torch.ones_like(part), positions))
        start += size
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, atol=1e-5, rtol=1e-4)


def test_heads_cost_nothing() -> None:
    counts = {sum(p.numel() for p in Decoder(replace(TINY, heads=h), VOCABULARY).parameters()) for h in (1, 2, 4, 8)}
    assert len(counts) == 1


@given(st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), max_size=6))
def test_what_is_remembered_moves_with_its_row(moves: list[list[int]]) -> None:
    cache = KVCache(rows=6, heads=2, length=8, head_width=3, device=torch.device("cpu"))
    keys, values = torch.zeros(6, 2, 0, 3), torch.zeros(6, 2, 0, 3)
    for chosen in [[0, 1, 2, 3, 4, 5], *moves]:
        rows = torch.tensor([row % len(keys) for row in chosen][: len(keys)])
        cache.take(rows)
        new = torch.randn(2, len(rows), 2, 1, 3)
        keys, values = (torch.cat((old[rows], some), dim=2) for old, some in ((keys, new[0]), (values, new[1])))
        found = cache.append(new[0], new[1])
        assert torch.equal(found[0], keys)
        assert torch.equal(found[1], values)
