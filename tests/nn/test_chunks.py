"""Local attention chunk by chunk equals the dense mask, forward and backward, and costs less in long rows."""

import time
from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from greffon.core.shape import Shape
from greffon.nn.attention import Attention, watching
from greffon.nn.body import Body, Decoder, Encoder
from greffon.nn.chunks import FROM, LEAST, Chunks, pays
from greffon.nn.masks import same_document, window

SHAPE = Shape(layers=3, hidden_size=16, heads=4, intermediate_size=16, context=32, local_attention=6)


@given(
    length=st.integers(1, 40), size=st.integers(1, 12), least=st.integers(1, 6), causal=st.booleans(),
    groups=st.sampled_from([1, 2, 4]), seed=st.integers(0, 1000),
)  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_chunks_equal_the_dense_mask(length: int, size: int, least: int, causal: bool, groups: int, seed: int) -> None:
    torch.manual_seed(seed)
    attention = Attention(replace(SHAPE, key_value_heads=groups))
    documents = torch.randint(0, 3, (2, length)).sort(dim=1).values  # padding among them
    dense = same_document(documents, documents) & window(length, length, size, causal=causal)
    x, wanted = torch.randn(2, length, 16, requires_grad=True), torch.randn(2, length, 16)
    with patch("greffon.nn.chunks.LEAST", least):
        chunks = Chunks(documents, size, causal=causal)
    assert chunks.mask.any(dim=-1).all()  # no softmax over nothing
    found = []
    for mask in (dense, chunks):
        out = attention(x, mask, None)
        found.append((out, *torch.autograd.grad((out * wanted).sum(), [x, *attention.parameters()])))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", [Encoder, Decoder])
@pytest.mark.parametrize("packed", [False, True])
def test_a_body_reads_long_rows_as_it_reads_short_ones(kind: type[Body], packed: bool) -> None:
    torch.manual_seed(0)
    body, length = kind(SHAPE, 50).eval(), FROM * LEAST + 7
    tokens = torch.randint(50, (2, length))
    documents = (torch.arange(length) * 3 // length + 1).expand(2, -1) if packed else None
    assert pays(length, SHAPE.local_attention)
    found = body(tokens, documents)
    with patch("greffon.nn.body.pays", lambda length, size: False):
        torch.testing.assert_close(found, body(tokens, documents), atol=1e-5, rtol=1e-5)
    with watching() as seen:  # figures show whole rows
        torch.testing.assert_close(found, body(tokens, documents), atol=1e-5, rtol=1e-5)
    assert [weights.shape[-1] for weights in seen.values()] == [length] * 3


def test_a_local_layer_costs_less_than_a_global_one() -> None:
    def seconds(local: int) -> float:
        shape = replace(SHAPE, layers=2, hidden_size=64, local_attention=local, global_attention_every=1000)
        body, tokens = Encoder(shape, 50).eval(), torch.zeros(1, 4096, dtype=torch.long)
        times = []
        for _ in range(3):
            started = time.process_time()
            with torch.no_grad():
                body(tokens)
            times.append(time.process_time() - started)
        return min(times)

    assert seconds(64) < seconds(0)
