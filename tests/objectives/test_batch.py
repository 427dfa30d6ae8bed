"""A batch that several processes share: every row goes to one of them, with all that belongs to it."""

from dataclasses import fields, replace

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from greffon.core.rng import generator
from greffon.data.sentence_pairs import Pair
from greffon.objectives.batch import IGNORE, Batch
from greffon.objectives.classify import Classify
from greffon.objectives.masked import Masked, Roles
from greffon.objectives.seq2seq import Seq2Seq

LENGTH, VOCABULARY = 10, 30


def make(kind: str, rows: int, seed: int) -> Batch:
    random = generator(seed, "parts")
    texts = [random.integers(6, VOCABULARY, random.integers(4, LENGTH)) for _ in range(rows)]
    if kind == "classify":
        return Classify(0).batch(texts, random.integers(0, 2, rows).tolist())
    if kind == "seq2seq":
        return Seq2Seq(0, 1, 2, np.ones(VOCABULARY)).batch([(text, text[:-1]) for text in texts])
    masked = Masked(Roles(0, 1, 2, 3, 4, 5), np.arange(6, VOCABULARY), np.ones(VOCABULARY), LENGTH, 0.3)
    pairs = [[Pair(text[:2], text[2:4], bool(random.integers(2)))] * int(random.integers(1, 3)) for text in texts]
    return masked.pair_batch(pairs, random)


@given(st.sampled_from(["classify", "seq2seq", "masked"]), st.integers(1, 7), st.integers(1, 5), st.integers(0, 99))
def test_parts_make_up_the_batch(kind: str, rows: int, processes: int, seed: int) -> None:
    batch = make(kind, rows, seed)
    parts = [batch.part(i, processes) for i in range(processes)]
    assert all(len(part.tokens) >= 1 for part in parts)
    assert sum(part.count for part in parts) == batch.count
    idle = [rows * i // processes == rows * (i + 1) // processes for i in range(processes)]
    busy = [part for part, rests in zip(parts, idle, strict=True) if not rests]
    for part, rests in zip(parts, idle, strict=True):
        assert part.count == int((part.targets != IGNORE).sum())
        if rests:
            assert part.count == 0
            assert part.pairs is None or len(part.pairs.targets) == 0
    for name in (f.name for f in fields(batch)):
        whole = getattr(batch, name)
        if isinstance(whole, Tensor):
            assert torch.equal(torch.cat([getattr(part, name) for part in busy]), whole), name
    if batch.pairs is not None:
        assert torch.equal(torch.cat([part.pairs.targets for part in busy]), batch.pairs.targets)
        at_home = [part.tokens.flatten()[part.pairs.cls_positions] for part in busy]
        assert torch.equal(torch.cat(at_home), batch.tokens.flatten()[batch.pairs.cls_positions])
        assert bool((torch.cat(at_home) == 3).all())  # [CLS]


@given(st.sampled_from(["classify", "seq2seq", "masked"]), st.integers(1, 7), st.integers(1, 60), st.integers(0, 99))
def test_pieces_are_rows_of_the_batch_none_of_them_idle(kind: str, rows: int, most: int, seed: int) -> None:
    batch = make(kind, rows, seed)
    pieces = batch.pieces(most)
    assert len(pieces) <= max(1, min(rows, -(-batch.count // most)))
    assert torch.equal(torch.cat([piece.tokens for piece in pieces]), batch.tokens)
    assert torch.equal(torch.cat([piece.targets for piece in pieces]), batch.targets)
    assert sum(piece.count for piece in pieces) == batch.count


def test_an_idle_process_reads_one_row_and_counts_no_bytes() -> None:
    batch = replace(make("masked", 2, 0), bytes=50)
    parts = [batch.part(i, 3) for i in range(3)]
    assert [len(part.tokens) for part in parts] == [1, 1, 1]
    assert [part.bytes for part in parts] == [0, 0, 0]
    for part in parts:
        assert part.pairs is not None
        assert part.pairs.segments.shape == part.tokens.shape


def test_a_batch_is_cut_into_as_many_pieces_as_its_targets_need() -> None:
    batch = make("classify", 6, 0)
    assert [len(piece.tokens) for piece in batch.pieces(6)] == [6]
    assert [len(piece.tokens) for piece in batch.pieces(5)] == [3, 3]
    assert [len(piece.tokens) for piece in batch.pieces(2)] == [2, 2, 2]
    assert [len(piece.tokens) for piece in batch.pieces(1)] == [1] * 6


def test_pairs_move_to_a_device_with_their_batch() -> None:
    batch = make("masked", 2, 0)
    moved = batch.to(torch.device("meta"))
    assert moved.pairs is not None
    assert {moved.tokens.device.type, moved.pairs.segments.device.type, moved.pairs.targets.device.type} == {"meta"}
    assert batch.to(torch.device("cpu")) is batch
