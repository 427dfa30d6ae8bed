from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from greffon.core.answering import Sampling
from greffon.core.errors import UserError
from greffon.core.shape import Shape
from greffon.inference import sampling
from greffon.inference.sampling import COLD, GREEDY, Reader, candidates, draw, generate_tokens
from greffon.inference.vocabulary import Vocabulary
from greffon.nn import quantize
from greffon.nn.body import Decoder
from greffon.nn.heads import VocabularyHead
from greffon.nn.model import Model

SHAPE = Shape(layers=2, hidden_size=16, heads=2, intermediate_size=32, context=24)
WORDS = Vocabulary(padding=0, start=1, end=2, banned=(0, 1))
PROMPTS = [[1, 5, 6], [1], [1, 9, 8, 7, 6, 5, 4], [1, 20]]


def make(positions: str = "rotary") -> Model:
    torch.manual_seed(3)
    body = Decoder(replace(SHAPE, positions=positions), 40)
    return Model(body, VocabularyHead(16, 40, tied=body.embedding)).eval()


def generate(model: Model, prompts: list[list[int]], tokens: int, sampling: Sampling, seed: int = 0) -> list[list[int]]:
    steps = list(generate_tokens(model, prompts, tokens, sampling, seed=seed, vocabulary=WORDS))
    return [[step.tokens[row] for step in steps] for row in range(len(prompts))]


@pytest.mark.parametrize("prompts", [PROMPTS, PROMPTS[:1], [[1, 5, 6], [1, 9, 8]]])
@pytest.mark.parametrize("positions", ["rotary", "sinusoidal", "learned"])
def test_cached_logits_equal_uncached(positions: str, prompts: list[list[int]]) -> None:
    model = make(positions)
    reader = Reader(model, prompts, padding=0)
    with torch.no_grad():
        for _ in range(8):
            cached = reader.logits()
            for row, read in enumerate(reader.read):
                whole = model(torch.tensor([read]))[0, -1]
                torch.testing.assert_close(cached[row], whole, atol=1e-5, rtol=1e-4)
                read.append(int(whole.argmax()))


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(), Sampling(1.5, top_k=5), Sampling(1.0, top_p=0.5)])
def test_batched_equals_alone(sampling: Sampling) -> None:
    model = make()
    together = generate(model, PROMPTS, 15, sampling)
    for row, prompt in enumerate(PROMPTS):
        alone = generate(model, [prompt], 15, sampling)[0]
        assert together[row][: len(alone)] == alone
        assert set(together[row][len(alone) :]) <= {2}


def test_same_seed_same_tokens_other_seed_others() -> None:
    model = make()
    assert generate(model, PROMPTS, 15, Sampling(), 7) == generate(model, PROMPTS, 15, Sampling(), 7)
    assert generate(model, PROMPTS, 15, Sampling(), 7) != generate(model, PROMPTS, 15, Sampling(), 8)


def test_goes_on_beyond_the_context() -> None:
    for positions in ("rotary", "learned"):
        (found,) = generate(make(positions), [[1, 5]], 100, Sampling(temperature=2.0))
        assert len(found) > 24 or found[-1] == 2


def test_banned_tokens_never_come() -> None:
    found = generate(make(), [[1, 5]] * 4, 40, Sampling(temperature=5.0, top_p=1.0))
    assert not {0, 1} & {token for row in found for token in row}


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=12), st.floats(0.1, 3), st.integers(0, 12), st.floats(0.05, 1))
def test_only_the_likeliest_are_drawn_from(logits: list[float], temperature: float, top_k: int, top_p: float) -> None:
    row = torch.tensor([logits], dtype=torch.float64)
    tokens, shares = candidates(row, Sampling(temperature, top_k, top_p))
    found = torch.zeros_like(row).scatter_(1, tokens, shares)[0]
    chances = (row / temperature).softmax(dim=-1)[0]
    kept, dropped = chances[found > 0], chances[found == 0]
    assert kept.max() == chances.max()
    assert len(dropped) == 0 or kept.min() >= dropped.max()
    if top_k:
        assert len(kept) <= top_k
    if not 0 < top_k < len(logits):
        torch.testing.assert_close(found[found > 0], kept)  # shares of the whole
        assert found.sum() >= top_p - 1e-9
        assert found.sum() - found[found > 0].min() < top_p + 1e-9  # none too many


@given(st.integers(1, 60), st.floats(0.05, 1), st.integers(0, 2**32))
def test_the_cut_is_the_same_however_few_are_looked_at_first(several: int, top_p: float, seed: int) -> None:
    logits = 3 * torch.randn(3, 50, generator=torch.Generator().manual_seed(seed))
    found = []
    for first in (several, 50):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sampling, "SEVERAL", first)
            tokens, shares = candidates(logits, Sampling(1.0, 0, top_p))
            found.append(torch.zeros_like(logits).scatter_(1, tokens, shares))
    assert torch.equal(*found)


@pytest.mark.parametrize("sampling", [Sampling(1.0, 0, 1.0), Sampling(0.7, 0, 0.8), Sampling(1.3, 5, 1.0)])
def test_draws_come_as_often_as_their_shares_say(sampling: Sampling) -> None:
    torch.manual_seed(0)
    logits = torch.randn(12)
    logits[:3] = -torch.inf  # never
    tokens, shares = candidates(logits.unsqueeze(0), sampling)
    wanted = torch.zeros(12).scatter_(0, tokens[0], shares[0])
    random = torch.Generator().manual_seed(1)
    count = 20_000
    drawn = draw(logits.expand(count, 12), sampling, [random] * count)
    found = torch.bincount(torch.tensor(drawn), minlength=12) / count
    torch.testing.assert_close(found, wanted / wanted.sum(), atol=0.015, rtol=0.0)
    assert set(drawn) <= set((wanted > 0).nonzero().flatten().tolist())


@pytest.mark.parametrize("dice", [0.0, 1.0 - 2**-53, 1.0])
def test_the_ends_of_the_dice_point_at_real_tokens(dice: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "rand", lambda *size, **more: torch.full(size, dice, dtype=torch.float64))
    logits = torch.tensor([[-torch.inf, 1.0, 0.5, -torch.inf], [-torch.inf, -torch.inf, -torch.inf, 0.0]])
    for way in (Sampling(1.0, 0, 1.0), Sampling(1.0, 0, 0.9), Sampling(1.0, 2, 1.0)):
        first, second = draw(logits, way, [torch.Generator()] * 2)
        assert first in (1, 2)
        assert second == 3


@pytest.mark.parametrize("wrong", [{"temperature": -1}, {"top_k": -1}, {"top_p": 0}, {"top_p": 1.5}])
def test_impossible_sampling_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError):
        Sampling(**wrong)


def test_the_likeliest_token_is_what_a_sure_draw_gives() -> None:
    logits = torch.randn(5, 40)
    randoms = [torch.Generator().manual_seed(row) for row in range(5)]
    assert draw(logits, GREEDY, randoms) == logits.argmax(dim=-1).tolist()
    assert draw(logits, Sampling(COLD, 1), randoms) == logits.argmax(dim=-1).tolist()


@pytest.mark.parametrize("sampling", [GREEDY, Sampling()])
def test_a_packed_model_writes_the_same(sampling: Sampling, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantize, "LARGE", 1)
    model, other = make(), make()
    other.prepack()
    assert generate(other, PROMPTS, 20, sampling) == generate(model, PROMPTS, 20, sampling)
    assert generate(other, PROMPTS[:1], 20, sampling) == generate(model, PROMPTS[:1], 20, sampling)


def test_one_candidate_is_the_likeliest() -> None:
    logits = torch.tensor([[0.5, 2.0, 1.0], [3.0, 0.0, 1.0]])
    tokens, shares = candidates(logits, Sampling(1.0, top_k=1, top_p=1.0))
    assert tokens.tolist() == [[1], [0]]
    assert shares.tolist() == [[1.0], [1.0]]


def test_beyond_the_context_the_later_half_is_read_again() -> None:
    model = make()
    read = [1, *range(3, 3 + SHAPE.context)]  # one token more than the context holds
    reader = Reader(model, [read], padding=0)
    with torch.no_grad():
        expected = model(torch.tensor([read[-SHAPE.context // 2 :]]))[0, -1]
        torch.testing.assert_close(reader.logits()[0], expected, atol=1e-5, rtol=1e-4)
        whole = Reader(model, [read[:-1]], padding=0)
        torch.testing.assert_close(whole.logits()[0], model(torch.tensor([read[:-1]]))[0, -1], atol=1e-5, rtol=1e-4)
