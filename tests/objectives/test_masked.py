"""What is hidden, what is asked, and that no document sees another."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from greffon.core.errors import UserError
from greffon.core.recipe import Masking
from greffon.core.rng import generator
from greffon.core.shape import Shape
from greffon.data.batching import Stream, Windows
from greffon.data.segmentation import Sentences, Words
from greffon.data.sentence_pairs import Pair, SentencePairs
from greffon.data.tokenizer import Tokenizer
from greffon.nn.body import Encoder
from greffon.nn.heads import MaskedHead, PairHead, VocabularyHead
from greffon.nn.masks import PADDING
from greffon.nn.model import Model
from greffon.objectives.batch import IGNORE
from greffon.objectives.masked import Masked, Roles

NAMES = Roles(pad=0, start=1, end=2, cls=3, sep=4, mask=5)
VOCABULARY = 60
LENGTH = 24
SHAPE = Shape(layers=2, hidden_size=16, heads=2, intermediate_size=32, context=LENGTH, segments=2)


def masked(rate: float = 0.15, words: Words | None = None, length: int = LENGTH) -> Masked:
    return Masked(NAMES, np.arange(6, VOCABULARY), np.arange(VOCABULARY), length, rate, words)


def window(random: np.random.Generator, *lengths: int) -> np.ndarray:
    return np.concatenate([[1, *random.integers(6, VOCABULARY, n), 2] for n in lengths])


@given(st.lists(st.integers(0, 12), min_size=1, max_size=5), st.integers(0, 1000), st.sampled_from([0.15, 0.5, 0.9]))
def test_only_ordinary_tokens_are_chosen_and_the_rest_is_untouched(lengths: list[int], seed: int, rate: float) -> None:
    tokens = window(generator(seed, "text"), *lengths)[: LENGTH + 1]
    batch = masked(rate).batch([tokens], generator(seed, "mask"))
    shown, targets = batch.tokens[0].numpy(), batch.targets[0].numpy()
    kept = tokens[:LENGTH]
    expected = np.full(LENGTH, NAMES.pad)
    expected[: len(kept)] = np.where(kept == 1, NAMES.cls, np.where(kept == 2, NAMES.sep, kept))
    chosen = targets != IGNORE
    assert (targets[chosen] == expected[chosen]).all()
    assert (expected[chosen] >= 6).all()
    assert (shown[~chosen] == expected[~chosen]).all()
    assert not np.isin(shown, (NAMES.start, NAMES.end)).any()
    assert batch.count == chosen.sum()
    assert batch.bytes == targets[chosen].sum()  # byte_lengths is the identity here


def test_masking_follows_the_rates_and_is_drawn_anew() -> None:
    random = generator(0, "text")
    windows = [random.integers(6, VOCABULARY, 400) for _ in range(200)]
    objective = masked(0.15, length=400)
    batch = objective.batch(windows, generator(0, "mask", 0))
    chosen = batch.targets != IGNORE
    assert abs(chosen.float().mean().item() - 0.15) < 0.005
    shown, targets = batch.tokens[chosen], batch.targets[chosen]
    hidden, left = (shown == NAMES.mask).float().mean().item(), (shown == targets).float().mean().item()
    assert abs(hidden - 0.8) < 0.015
    assert abs(left - 0.1 - 0.1 / 54) < 0.012  # a random token may be the right one
    other = shown[(shown != NAMES.mask) & (shown != targets)]
    assert set(other.tolist()) == set(range(6, VOCABULARY))
    again, next_step = (objective.batch(windows, generator(0, "mask", step)) for step in (0, 1))
    assert torch.equal(again.tokens, batch.tokens)
    both = (next_step.targets != IGNORE) & chosen
    assert abs(both.float().mean().item() - 0.15**2) < 0.005


@pytest.fixture(scope="module")
def french() -> Tokenizer:
    words = "lire livres anticonstitutionnellement été aujourd'hui M. Hugo Zola écrit dort « Ah ? » dit-il fin"
    return Tokenizer.train([f"{words}. {words} !"] * 3, 300)


@given(
    st.lists(
        st.sampled_from(["lire", "livres", "été", "aujourd'hui", "c'est", "1984", ";", "zéro"]), min_size=1, max_size=12
    )
)
@settings(max_examples=40)
def test_words_are_hidden_whole(french: Tokenizer, words: list[str]) -> None:
    ids = np.array(french.encode(" ".join(words)))
    begins = Words(french).begins(ids)
    assert begins[0]
    parts = [french.decode(part) for part in np.split(ids, np.flatnonzero(begins)[1:])]
    assert "".join(parts) == " ".join(words)
    for part in parts:  # no piece is a torn word: letters never stand on both sides of a cut
        assert len(part.split()) == 1
    objective = Masked.over(french, 64, Masking(mask_rate=0.5, whole_word_masking=True))
    chosen = (objective.batch([ids], generator(0, "mask")).targets != IGNORE)[0, : len(ids)].numpy()
    for part in np.split(chosen[: min(len(ids), 64)], np.flatnonzero(begins[:64])[1:]):
        assert part.all() or not part.any()


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Zola écrit. Il dort !", ["Zola écrit.", " Il dort !"]),
        ("M. Hugo écrit. Fin.", ["M. Hugo écrit.", " Fin."]),
        ("« Ah ? » dit-il. Fin", ["« Ah ? » dit-il.", " Fin"]),
        ("Un livre\nsans point", ["Un livre\n", "sans point"]),
        ("le prix est 3.50 euros. oui", ["le prix est 3.50 euros. oui"]),
        ("", [""]),
    ],
)
def test_sentences_are_cut_by_a_simple_rule(french: Tokenizer, text: str, sentences: list[str]) -> None:
    ids = np.array(french.encode(text), dtype=np.int64)
    assert [french.decode(part) for part in np.split(ids, Sentences(french).cuts(ids))] == sentences


def documents_store(french: Tokenizer, texts: list[str]) -> SimpleNamespace:
    rows = [[french.start, *french.encode(text), french.end] for text in texts]
    offsets = np.cumsum([0, *map(len, rows)])
    return SimpleNamespace(tokens=np.concatenate(rows), offsets=offsets, __len__=lambda: len(rows))


def test_half_of_the_pairs_are_real_and_the_others_come_from_elsewhere(french: Tokenizer) -> None:
    # Every document writes one figure of its own, so a pair shows where its texts come from.
    figures = "0123456789"
    texts = [f"{d} lire. {d} livres. {d} dort ! {d} écrit." for d in figures]
    windows = Windows(Stream.whole(documents_store(french, texts)), 40, seed=0)
    pairs = SentencePairs(windows, windows, Sentences(french), (french.start, french.end), seed=0)
    found = [pair for row in pairs.rows(0, 400) for pair in row]
    told = [pair for pair in found if pair.follows is not None]
    assert len(told) > 400
    assert abs(np.mean([pair.follows for pair in told]) - 0.5) < 0.06
    for pair in told:
        first, second = (set(french.decode(part)) & set(figures) for part in (pair.first, pair.second))
        if not first or not second:  # a window's edge has cut the figure off
            continue
        assert (first == second) == pair.follows, (french.decode(pair.first), french.decode(pair.second))
    assert pairs.rows(7, 1)[0][0].first.tolist() == pairs.rows(0, 8)[7][0].first.tolist()  # any row without the others


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=4), st.integers(0, 99))
def test_pairs_are_laid_out_with_segments(sizes: list[tuple[int, int]], seed: int) -> None:
    random = generator(seed, "pairs")
    texts = [(random.integers(6, VOCABULARY, a), random.integers(6, VOCABULARY, b)) for a, b in sizes]
    row = [Pair(a, b, follows=bool(i % 2) if len(b) else None) for i, (a, b) in enumerate(texts)]
    batch = masked(0.15).pair_batch([row], generator(seed, "mask"))
    assert batch.pairs is not None
    whole, segments, numbers = [], [], []
    for number, (a, b) in enumerate(texts, start=1):
        second = [*b, NAMES.sep] if len(b) else []
        whole += [NAMES.cls, *a, NAMES.sep, *second]
        segments += [0] * (len(a) + 2) + [1] * len(second)
        numbers += [number] * (len(a) + 2 + len(second))
    expected = np.array(([*whole] + [NAMES.pad] * LENGTH)[:LENGTH])
    targets = batch.targets[0].numpy()
    plain = np.where(targets != IGNORE, targets, batch.tokens[0].numpy())
    assert plain.tolist() == expected.tolist()
    assert batch.document_ids[0].tolist() == ([*numbers] + [PADDING] * LENGTH)[:LENGTH]
    assert batch.pairs.segments[0].tolist() == ([*segments] + [0] * LENGTH)[:LENGTH]
    for place in batch.pairs.cls_positions.tolist():
        assert expected[place] == NAMES.cls
    assert len(batch.pairs.targets) == len(batch.pairs.cls_positions)


def model(pairs: bool = False) -> Model:
    torch.manual_seed(0)
    body = Encoder(SHAPE, VOCABULARY)
    head = VocabularyHead(16, VOCABULARY, tied=body.embedding)
    return Model(body, MaskedHead(head, PairHead(16)) if pairs else head).eval()


def test_the_loss_is_that_of_each_document_alone() -> None:
    random = generator(3, "text")
    net, objective = model(), masked(0.3)
    batch = objective.batch([window(random, 6, 9, 3)], random)
    score = objective.score(net, batch)
    total = 0.0
    for number in batch.document_ids.unique():
        inside = batch.document_ids[0] == number
        if number == PADDING or not inside.any():
            continue
        logits = net(batch.tokens[:, inside])[0]
        total += F.cross_entropy(logits, batch.targets[0, inside], ignore_index=IGNORE, reduction="sum").item()
    assert score.loss.item() == pytest.approx(total, rel=1e-5)
    assert score.count == batch.count


def test_pairs_add_a_loss_of_their_own() -> None:
    random = generator(4, "text")
    net, objective = model(pairs=True), masked(0.3)
    row = [Pair(random.integers(6, 60, 5), random.integers(6, 60, 4), follows) for follows in (True, False)]
    batch = objective.pair_batch([row], random)
    score = objective.score(net, batch)
    assert score.auxiliary is not None
    first = net.body(batch.tokens[:, :12], None, None, batch.pairs.segments[:, :12])[:, 0]
    second = net.body(batch.tokens[:, 12:], None, None, batch.pairs.segments[:, 12:])[:, 0]
    logits = net.head.pair(torch.cat((first, second)))
    wanted = F.cross_entropy(logits, torch.tensor([1, 0]), reduction="sum")
    torch.testing.assert_close(score.auxiliary.loss, wanted, atol=1e-5, rtol=1e-5)
    assert score.auxiliary.count == 2


@pytest.mark.parametrize("rate", [0.0, 1.0, -0.1])
def test_impossible_rates_are_refused(rate: float) -> None:
    with pytest.raises(UserError, match="mask_rate"):
        Masking(mask_rate=rate)


def test_an_absolute_position_counts_from_the_start_of_its_document() -> None:
    random = generator(3, "text")
    torch.manual_seed(0)
    body = Encoder(replace(SHAPE, positions="sinusoidal"), VOCABULARY)
    net, objective = Model(body, VocabularyHead(16, VOCABULARY)).eval(), masked(0.9)
    batch = objective.batch([window(random, 6, 9)], random)
    second = batch.document_ids[0] == batch.document_ids.max()
    assert second.sum() == 11  # its tokens between [CLS] and [SEP]
    alone = F.cross_entropy(
        net(batch.tokens[:, second])[0], batch.targets[0, second], ignore_index=IGNORE, reduction="sum"
    )
    first = replace(batch, targets=batch.targets.masked_fill(~second, IGNORE), count=1)
    torch.testing.assert_close(objective.score(net, first).loss, alone, atol=1e-4, rtol=1e-5)


def test_pairs_of_later_rows_are_found_where_they_stand() -> None:
    random = generator(6, "text")
    net, objective = model(pairs=True), masked(0.3)
    row = [Pair(random.integers(6, 60, 5), random.integers(6, 60, 4), True)]
    # Cut after the first [SEP], the second pair of a row has lost its second text and says nothing.
    cut = Pair(random.integers(6, 60, 7), row[0].second, True)
    full = [Pair(random.integers(6, 60, 9), random.integers(6, 60, 3), False), cut]
    batch = objective.pair_batch([row, row, full], random)
    assert batch.pairs is not None
    assert batch.pairs.cls_positions.tolist() == [0, LENGTH, 2 * LENGTH]
    assert batch.pairs.targets.tolist() == [1, 1, 0]
    score = objective.score(net, batch)
    assert score.auxiliary is not None
    assert score.auxiliary.names == ("token_loss", "pair_loss")
    with torch.no_grad():
        hidden = net.body(batch.tokens, batch.document_ids, batch.positions, batch.pairs.segments)
        guesses = net.head.pair(hidden[:, 0]).argmax(dim=1)
    assert score.auxiliary.right == int((guesses == batch.pairs.targets).sum())


def test_whole_words_only_where_asked_for() -> None:
    tokenizer = Tokenizer.train(["un petit texte pour apprendre des mots entiers"] * 3, 280)
    assert Masked.over(tokenizer, LENGTH, Masking()).whole_words is None
    assert Masked.over(tokenizer, LENGTH, Masking(whole_word_masking=True)).whole_words is not None
