import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greffon.core.errors import UserError
from greffon.core.rng import generator
from greffon.data.batching import Stream
from greffon.data.spans import SHORTEST, Spans, Views, two_views, without_shared
from greffon.data.token_store import TokenStore


def store(*sizes: int) -> TokenStore:
    """Documents whose tokens are all different, between start (1) and end (2)."""
    rows, fresh = [], 10
    for size in sizes:
        rows.append([1, *range(fresh, fresh + size), 2])
        fresh += size
    offsets = np.cumsum([0, *map(len, rows)])
    return TokenStore(np.concatenate(rows), offsets, "digest", 1)


@given(st.integers(2, 200), st.integers(1, 40), st.integers(0, 999))
def test_views_follow_the_rule(size: int, length: int, seed: int) -> None:
    tokens = np.arange(size)
    views = two_views(tokens, length, generator(seed, "test"))
    first, second = views.first, views.second
    assert len(first)
    assert len(second)
    assert (np.diff(first) > 0).all()
    assert (np.diff(second) > 0).all()
    if size >= 2 * length:
        assert len(first) == len(second) == length
    if size >= 2 * length or size >= 2 * SHORTEST:
        assert not set(first) & set(second)
        assert max(len(first), len(second)) <= max(length, 1)
        for view in (first, second):  # each is one piece of the text
            assert len(view) == view[-1] - view[0] + 1


def test_every_document_comes_once_a_pass_with_other_views_in_the_next() -> None:
    spans = Spans(Stream.whole(store(50, 30, 3, 80, 12)), length=8, seed=3)
    assert spans.count == 5
    assert sum(row.copies for row in spans.natural(0, spans.count)) == 2
    passes = [spans.rows(0, 5), spans.rows(5, 5)]
    for rows in passes:
        starts = sorted(min(row.first.min(), row.second.min()) for row in rows)
        assert [int(np.searchsorted([60, 90, 93, 173], start, side="right")) for start in starts] == [0, 1, 2, 3, 4]
    assert str(passes[0]) != str(passes[1])
    assert str(spans.rows(2, 1)) == str(passes[0][2:3])
    assert str(spans.natural(0, 5)) == str(spans.natural(0, 5))


def test_only_the_documents_of_a_stream_are_drawn() -> None:
    whole = store(20, 20, 20, 20)
    left = Spans(Stream.without(whole, np.array([1])), length=4, seed=0)
    kept = Spans(Stream.only(whole, np.array([1])), length=4, seed=0)
    assert left.documents.tolist() == [0, 2, 3]
    assert kept.documents.tolist() == [1]


def test_documents_without_two_views_are_left_out_and_none_is_an_error() -> None:
    assert Spans(Stream.whole(store(0, 1, 2)), length=4, seed=0).documents.tolist() == [2]
    with pytest.raises(UserError, match="no document has two tokens or more"):
        Spans(Stream.whole(store(1, 0)), length=4, seed=0)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.lists(st.integers(0, 9), min_size=1, max_size=12))
def test_rarer_tokens_stand_in_one_view_only(first: list[int], second: list[int]) -> None:
    common = np.arange(10) < 3
    made = without_shared(Views(np.array(first), np.array(second)), common, generator(0, "test"))
    assert len(made.first)
    assert len(made.second)
    lost = (set(first) - set(made.first)) | (set(second) - set(made.second))
    assert lost <= set(first) & set(second) - {0, 1, 2}
    spared = [{*one} - {*other} or {0, 1, 2} & {*one} for one, other in ((first, second), (second, first))]
    if all(spared):  # otherwise a view would be left without a token
        assert not {*made.first} & {*made.second} - {0, 1, 2}


def test_in_training_each_view_loses_a_share_of_its_tokens() -> None:
    stream = Stream.whole(store(*[300] * 40))
    whole, thinned = (Spans(stream, length=100, seed=3, token_dropout=share) for share in (0.0, 0.25))
    passes = [thinned.rows(0, 40), thinned.rows(40, 40)]
    for row, other in zip(whole.rows(0, 40), passes[0], strict=True):
        assert set(other.first) < set(row.first)
        assert set(other.second) < set(row.second)
        assert (np.diff(other.first) > 0).all(), "the order stays"
    kept = np.mean([len(row.first) for row in passes[0]])
    assert kept == pytest.approx(75, abs=3)
    assert str(thinned.natural(0, 40)) == str(whole.natural(0, 40)), "held-out documents are read whole"
    short = Spans(Stream.whole(store(10, 10)), length=100, seed=3, token_dropout=0.25)
    assert str(short.rows(0, 2)) == str(Spans(Stream.whole(store(10, 10)), 100, 3).rows(0, 2))
