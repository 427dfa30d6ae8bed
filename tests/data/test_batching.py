from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from greffon.core.rng import shuffled
from greffon.data.batching import Mixture, Stream, Windows, held_out, length_buckets

START, END = 1, 2
document_lengths = st.lists(st.integers(1, 9), min_size=2, max_size=12)


def store(lengths: list[int]) -> SimpleNamespace:
    documents = [[START, *range(10 * i + 10, 10 * i + 10 + n), END] for i, n in enumerate(lengths)]
    flat = [token for document in documents for token in document]
    offsets = np.cumsum([0, *map(len, documents)])
    return SimpleNamespace(tokens=np.array(flat), offsets=offsets, documents=documents)


@given(st.integers(1, 3000), st.integers(0, 2**63 - 1))
def test_shuffled_is_a_permutation(n: int, key: int) -> None:
    assert sorted(shuffled(np.arange(n), n, key).tolist()) == list(range(n))


def test_shuffled_differs_by_key_and_looks_random() -> None:
    first, second = (shuffled(np.arange(1000), 1000, key) for key in (1, 2))
    assert (first == second).mean() < 0.02
    assert (first == np.arange(1000)).mean() < 0.02
    assert abs(np.corrcoef(first, np.arange(1000))[0, 1]) < 0.1


@given(document_lengths, st.data())
def test_streams_hold_exactly_their_documents(lengths: list[int], data: st.DataObject) -> None:
    text = store(lengths)
    chosen = held_out(len(lengths), data.draw(st.floats(0.01, 0.9)), data.draw(st.integers(0, 99)))
    assert 1 <= len(chosen) < len(lengths)
    kept = [d for i, d in enumerate(text.documents) if i not in chosen]
    for stream, wanted in (
        (Stream.without(text, chosen), kept),
        (Stream.only(text, chosen), [text.documents[i] for i in chosen]),
        (Stream.whole(text), text.documents),
    ):
        flat = [token for document in wanted for token in document]
        assert len(stream) == len(flat)
        start, length = data.draw(st.integers(0, len(flat))), data.draw(st.integers(0, 40))
        assert stream.read(start, length).tolist() == flat[start : start + length]


@given(document_lengths, st.integers(1, 20), st.integers(0, 3))
def test_a_pass_shows_every_window_once(lengths: list[int], length: int, seed: int) -> None:
    windows = Windows(Stream.whole(store(lengths)), length, seed)
    for pass_ in (0, 1, 5):
        rows = windows.rows(pass_ * windows.count, windows.count)
        starts = [row.tolist()[:3] for row in rows]
        assert len(rows) == windows.count
        assert all(1 < len(row) <= length + 1 for row in rows)
        assert len({tuple(row.tolist()) for row in rows}) == windows.count or length < 3, starts


def test_any_row_can_be_looked_up_alone() -> None:
    windows = Windows(Stream.whole(store([5, 9, 3, 8, 7] * 5)), 6, seed=0)
    together = windows.rows(0, 60)
    for number in (0, 17, 41, 59):
        assert windows.rows(number, 1)[0].tolist() == together[number].tolist()


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(0, 5))
def test_a_mixture_keeps_its_proportion_and_each_part_its_order(weights: list[int], cycles: int) -> None:
    parts = [Windows(Stream.whole(store([3 + i, 5, 4] * 6)), 5, seed=i) for i in range(len(weights))]
    mixed = Mixture(parts, weights, seed=1).rows(0, cycles * sum(weights))
    alone = [part.rows(0, cycles * weight) for part, weight in zip(parts, weights, strict=True)]
    wanted = sorted(row.tolist() for rows in alone for row in rows)
    assert sorted(row.tolist() for row in mixed) == wanted


@given(st.lists(st.integers(1, 300), min_size=1, max_size=200), st.integers(1, 16), st.integers(0, 3))
def test_buckets_hold_every_example_once(lengths: list[int], rows: int, pass_: int) -> None:
    batches = length_buckets(lengths, rows, seed=0, pass_=pass_)
    assert sorted(i for batch in batches for i in batch) == list(range(len(lengths)))
    assert len(batches) == -(-len(lengths) // rows)
    assert all(len(batch) <= rows for batch in batches)


def test_buckets_pad_little() -> None:
    lengths = np.random.default_rng(0).integers(5, 400, 1000).tolist()
    batches = length_buckets(lengths, 16, seed=0, pass_=0)
    padded = sum(max(lengths[i] for i in batch) * len(batch) for batch in batches)
    assert sum(lengths) / padded > 0.93
    assert [b.tolist() for b in batches] != [b.tolist() for b in length_buckets(lengths, 16, seed=0, pass_=1)]
