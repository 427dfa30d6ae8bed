from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from greffon.core.shape import Shape
from greffon.nn import heads, quantize
from greffon.nn.body import Decoder
from greffon.nn.encoder_decoder import EncoderDecoder
from greffon.nn.heads import VocabularyHead
from greffon.nn.model import Model
from greffon.nn.quantize import (
    FEW,
    LARGE,
    VAST,
    Fp16Linear,
    Int8Linear,
    PrepackedLinear,
    can_prepack,
    can_quantize_int8,
    can_use_fp16,
    prepack_linears,
)

here = pytest.mark.skipif(not can_prepack(torch.zeros(LARGE, 1)), reason="this PyTorch comes without oneDNN")
halves = pytest.mark.skipif(
    not can_use_fp16(torch.zeros(VAST, 1)), reason="this PyTorch cannot read half precision fast"
)
rounds = pytest.mark.skipif(not can_quantize_int8(), reason="this PyTorch cannot multiply 8-bit integers")
MAPS = {
    "width": st.integers(1, 40),
    "outputs": st.integers(1, 300),
    "bias": st.booleans(),
    "seed": st.integers(0, 2**32),
}


@here
@given(rows=st.integers(1, 70), **MAPS)
def test_equals_linear(rows: int, width: int, outputs: int, bias: bool, seed: int) -> None:
    torch.manual_seed(seed)
    x, weight, added = torch.randn(rows, width), torch.randn(outputs, width), torch.randn(outputs) if bias else None
    found = PrepackedLinear(weight, added)(x)
    torch.testing.assert_close(found, F.linear(x, weight, added), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(PrepackedLinear(weight, added)(x.unsqueeze(0))[0], found)


@here
def test_only_large_maps_are_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantize, "LARGE", 200)
    maps = nn.Sequential(nn.Linear(10, 19), nn.Sequential(nn.Linear(10, 20)), nn.LayerNorm(300))
    prepack_linears(maps)
    assert [type(part) for part in (maps[0], maps[1][0], maps[2])] == [nn.Linear, PrepackedLinear, nn.LayerNorm]


def test_nothing_changes_where_the_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantize, "LARGE", 1)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    head = VocabularyHead(8, 30)
    head.prepack()
    assert head.packed is None
    assert not can_prepack(head.weight)


@here
@pytest.mark.parametrize("activation", ["relu", "swiglu"])
def test_a_packed_model_computes_the_same(activation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantize, "LARGE", 1)
    shape = Shape(layers=2, hidden_size=16, heads=2, intermediate_size=32, context=24, activation=activation)
    tokens = torch.randint(40, (3, 11))
    for kind in (Decoder, EncoderDecoder):
        torch.manual_seed(0)
        body = kind(shape, 40)
        model = Model(body, VocabularyHead(16, 40, tied=body.embedding)).eval()
        inputs = (tokens, tokens) if kind is EncoderDecoder else (tokens,)
        with torch.inference_mode():
            before = model.head(model.body(*inputs))
            model.prepack()
            after = model.head(model.body(*inputs))
        laid_out = model.head.panels if kind is EncoderDecoder else [model.head.packed]
        assert [type(part) for part in laid_out] == [PrepackedLinear]
        assert any(isinstance(part, PrepackedLinear) for part in model.body.modules())
        assert model.head.weight is model.body.embedding.weight  # lookups still read the plain matrix
        torch.testing.assert_close(after, before, atol=1e-5, rtol=1e-5)


@halves
@given(rows=st.integers(1, 6), **MAPS)
def test_the_highest_logits_of_half_a_matrix_are_exact(
    rows: int, width: int, outputs: int, bias: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    x, weight, added = torch.randn(rows, width), torch.randn(outputs, width), torch.randn(outputs) if bias else None
    found, wanted = Fp16Linear(weight, added)(x), F.linear(x, weight, added)
    torch.testing.assert_close(found, wanted, atol=0.02, rtol=0.002)
    # A token may only miss the highest ones where another is as high as half precision can tell.
    highest = wanted.topk(min(quantize.EXACT // 2, outputs)).indices
    torch.testing.assert_close(found.gather(1, highest), wanted.gather(1, highest), atol=1e-5, rtol=1e-5)


@halves
def test_a_vast_head_is_halved_for_a_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantize, "VAST", 8 * 300)
    small, vast = VocabularyHead(8, 299), VocabularyHead(8, 300)
    for head in (small, vast):
        head.prepack()
    assert small.halved is None
    assert vast.halved is not None
    monkeypatch.setattr(quantize, "EXACT", 1)
    x = torch.randn(FEW + 1, 8)
    exact = F.linear(x, vast.weight, vast.bias)
    assert not torch.allclose(vast(x[:FEW]), exact[:FEW], atol=1e-6, rtol=0)  # the others are rounded
    torch.testing.assert_close(vast(x[:FEW]).argmax(1), exact[:FEW].argmax(1))
    torch.testing.assert_close(vast(x), exact)  # too many for that


def test_nothing_is_halved_where_the_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantize, "VAST", 1)
    monkeypatch.setattr(quantize, "ENGINES", ())
    head = VocabularyHead(8, 30)
    head.prepack()
    assert head.halved is None


@rounds
@given(rows=st.integers(1, 70), **MAPS)
def test_whole_numbers_are_off_by_half_a_step_each(rows: int, width: int, outputs: int, bias: bool, seed: int) -> None:
    torch.manual_seed(seed)
    x, weight, added = torch.randn(rows, width), torch.randn(outputs, width), torch.randn(outputs) if bias else None
    x[0] = 0
    found = Int8Linear(weight, added)(x)
    largest = x.abs().amax(dim=1, keepdim=True) * weight.abs().amax(dim=1)
    off = (found - F.linear(x, weight, added)).abs()
    assert (off <= width * largest * (1 / 126 + 1 / 254 + 1 / (4 * 63 * 127)) + 1e-4).all()
    assert torch.equal(found[0], torch.zeros(outputs) if added is None else added)
    assert torch.equal(Int8Linear(weight, added)(x.unsqueeze(0))[0], found)
    assert torch.equal(Int8Linear(weight, added)(x[-1:])[0], found[-1])


@rounds
def test_a_body_in_whole_numbers_computes_nearly_the_same() -> None:
    torch.manual_seed(0)
    shape = Shape(layers=2, hidden_size=64, heads=2, intermediate_size=128, context=24)
    model = Model(Decoder(shape, 40), VocabularyHead(64, 40)).eval()
    tokens = torch.randint(40, (3, 11))
    with torch.no_grad():
        wanted = model(tokens)
        model.quantize_int8()
        found = model(tokens)
    assert not torch.equal(found, wanted)
    assert (found - wanted).norm() / wanted.norm() < 0.05


WAYS = {
    "plain": lambda head: None,
    "packed": partial(VocabularyHead.prepack, panels=True),
    "rounded": VocabularyHead.quantize_int8,
}


@pytest.mark.parametrize("way", ["plain", pytest.param("packed", marks=here), pytest.param("rounded", marks=rounds)])
@given(rows=st.integers(1, 5), vocabulary=st.integers(1, 40), count=st.integers(1, 9), data=st.data())
@settings(max_examples=40, deadline=None)
def test_the_highest_are_those_of_all_tokens(
    way: str, rows: int, vocabulary: int, count: int, data: st.DataObject
) -> None:
    banned = data.draw(st.lists(st.integers(0, vocabulary - 1), unique=True, max_size=max(0, vocabulary - count)))
    torch.manual_seed(data.draw(st.integers(0, 99)))
    head, x = VocabularyHead(8, vocabulary, bias=data.draw(st.booleans())), torch.randn(rows, 8)
    with pytest.MonkeyPatch.context() as patch, torch.inference_mode():
        patch.setattr(heads, "PANEL", 7)
        patch.setattr(quantize, "LARGE", 1)
        WAYS[way](head)
        assert len(head.panels) == (0 if way == "plain" else -(-vocabulary // 7))
        logits = head(x)
        values, tokens, total = head.highest(x, count, banned)
        torch.testing.assert_close(total, logits.logsumexp(dim=1, keepdim=True))
        logits[:, banned] = -torch.inf
        torch.testing.assert_close(values, logits.topk(min(count, vocabulary)).values)
        torch.testing.assert_close(values, logits.gather(1, tokens))


@halves
def test_the_highest_of_a_few_rows_are_read_in_half_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantize, "VAST", 1)
    monkeypatch.setattr(quantize, "LARGE", 1)
    monkeypatch.setattr(heads, "PANEL", 16)
    torch.manual_seed(0)
    head, x = VocabularyHead(8, 90), torch.randn(FEW + 1, 8)
    with torch.inference_mode():
        exact = F.linear(x, head.weight, head.bias)
        head.prepack(panels=True)
        for rows in (x, x[:FEW]):
            values, tokens, total = head.highest(rows, 3)
            torch.testing.assert_close(values, exact[: len(rows)].topk(3).values)
            assert torch.equal(tokens, exact[: len(rows)].topk(3).indices)
            off = (total - exact[: len(rows)].logsumexp(dim=1, keepdim=True)).abs()
            assert (off < (1e-3 if len(rows) <= FEW else 1e-5)).all()
        assert not torch.equal(head.highest(x[:FEW], 3)[2], head.highest(x, 3)[2][:FEW])  # the others are rounded
