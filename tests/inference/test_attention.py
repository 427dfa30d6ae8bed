"""Where heads look: the weights of real runs, and what is said of them."""

import math
import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import TinyRuns

import greffon
from greffon.core.errors import UserError
from greffon.inference.attention import AttentionWeights


def test_a_causal_body_looks_back_a_masked_one_both_ways(tiny: TinyRuns) -> None:
    back = greffon.attention(tiny.causal, "le chat mange")
    assert back.kind == "self"
    assert "".join(back.queries) == "".join(back.keys) == "<s>le chat mange"
    assert back.weights.shape == (2, 2, len(back.queries), len(back.queries))
    assert not np.triu(back.weights, k=1).any()
    both = greffon.attention(tiny.masked, "le chat mange")
    assert "".join(both.keys) == "[CLS]le chat mange[SEP]"
    assert (both.weights > 0).all()
    for found in (back, both):
        np.testing.assert_allclose(found.weights.sum(axis=-1), 1, atol=1e-5)


def test_the_weights_are_torchs_own(tiny: TinyRuns) -> None:
    """The first layer of a pre-norm body without bias, held against torch's multi-head attention."""
    found = greffon.attention(tiny.masked, "le chat mange")
    model, tokenizer = tiny.masked.load_model(), tiny.masked.tokenizer
    block, shape = model.body.blocks[0], tiny.masked.recipe.shape
    theirs = torch.nn.MultiheadAttention(shape.hidden_size, shape.heads, bias=False, batch_first=True)
    own = block.attention
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([own.query.weight, own.key.weight, own.value.weight]))
        row = torch.tensor([[tokenizer.cls, *tokenizer.encode("le chat mange"), tokenizer.sep]])
        x = block.attention_norm(model.body.embed(row, torch.arange(row.shape[1]).unsqueeze(0)))
        _, weights = theirs(x, x, x, average_attn_weights=False)
    np.testing.assert_allclose(found.weights[0], weights[0].numpy(), atol=1e-5)


def test_a_classifier_is_looked_at_through_its_body(tiny: TinyRuns) -> None:
    assert greffon.attention(tiny.classifier, "le chat").queries[0] == "<s>"


def test_a_translator_has_three(tiny: TinyRuns) -> None:
    across = greffon.attention(tiny.translator, "two red dog", "deux rouge")
    assert across.kind == "cross"
    assert "".join(across.keys) == "two red dog</s>"
    assert "".join(across.queries) == "deux rouge</s>"
    source = greffon.attention(tiny.translator, "two red dog", "deux rouge", kind="source")
    target = greffon.attention(tiny.translator, "two red dog", "deux rouge", kind="target")
    assert source.keys == source.queries == across.keys
    assert "".join(target.keys) == "<s>deux rouge"
    assert (source.weights > 0).all()
    assert not np.triu(target.weights, k=1).any()
    for found in (across, source, target):
        np.testing.assert_allclose(found.weights.sum(axis=-1), 1, atol=1e-5)
    own = greffon.translate(tiny.translator, "two red dog")[0].translation
    assert "".join(greffon.attention(tiny.translator, "two red dog").queries) == own + "</s>"


def test_two_threads_do_not_mix(tiny: TinyRuns) -> None:
    texts = ["le chat", "le chien mange un os et dort"] * 4
    alone = {text: greffon.attention(tiny.causal, text).weights for text in texts[:2]}
    found: dict[int, np.ndarray] = {}

    def look(i: int) -> None:
        found[i] = greffon.attention(tiny.causal, texts[i]).weights

    threads = [threading.Thread(target=look, args=(i,)) for i in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, text_ in enumerate(texts):
        np.testing.assert_allclose(found[i], alone[text_], atol=1e-6)


def made(weights: np.ndarray, kind: str = "self") -> AttentionWeights:
    names = [[str(i) for i in range(n)] for n in weights.shape]
    return AttentionWeights(kind, names[0], names[1], weights[None, None])


def test_habits_of_heads_that_are_plain_to_see() -> None:
    n = 6
    (previous,) = made(np.eye(n, k=-1) + np.eye(n) * (np.arange(n) == 0)).habits()
    assert (previous.distance, previous.previous, previous.itself, previous.entropy) == (1, 1, 0, 0)
    (itself,) = made(np.eye(n)).habits()
    assert (itself.distance, itself.previous, itself.itself) == (0, 0, 1)
    (first,) = made(np.eye(n)[np.zeros(n, dtype=int)]).habits()
    assert (first.first, first.distance) == (1, 3)
    (even,) = made(np.full((n, n), 1 / n)).habits()
    assert even.entropy == pytest.approx(math.log2(n))
    (across,) = made(np.full((3, 4), 0.25), "cross").habits()
    assert (across.distance, across.previous, across.itself) == (None, None, None)
    assert (across.entropy, across.first) == (pytest.approx(2), 0.25)


@given(st.integers(2, 9), st.integers(0, 99))
def test_habits_keep_within_their_bounds(n: int, seed: int) -> None:
    weights = np.random.default_rng(seed).dirichlet(np.ones(n), size=n)
    (one,) = made(weights).habits()
    assert 0 <= one.entropy <= math.log2(n) + 1e-9
    assert 0 <= one.distance <= n - 1
    assert 0 <= one.previous + one.itself <= 1 + 1e-9
    assert 0 <= one.first <= 1


def test_what_is_not_there_is_said_with_the_valid_range(tiny: TinyRuns) -> None:
    found = greffon.attention(tiny.causal, "le chat")
    assert found.of(2, 1).shape == (len(found.queries), len(found.keys))
    for wrong, said in (((3, 1), r"no layer 3; choose from 1 to 2"), ((1, 0), r"no head 0; choose from 1 to 2")):
        with pytest.raises(UserError, match=said):
            found.of(*wrong)
    with pytest.raises(UserError, match=r"is a causal run without cross attention; choose self"):
        greffon.attention(tiny.causal, "le chat", kind="cross")
    with pytest.raises(UserError, match=r"without self attention; choose source, target or cross"):
        greffon.attention(tiny.translator, "two", kind="self")
    with pytest.raises(UserError, match=r"leave out the translation"):
        greffon.attention(tiny.causal, "le chat", "the cat")
    with pytest.raises(UserError, match=r"the text has \d+ tokens, and .* reads 1 to 47; shorten it"):
        greffon.attention(tiny.causal, "le chat " * 60)
    with pytest.raises(UserError, match=r"the translation has \d+ tokens, and .* reads 1 to 31"):
        greffon.attention(tiny.translator, "two", "deux " * 60)
    with pytest.raises(UserError, match="the text is empty"):
        greffon.attention(tiny.causal, " ")
