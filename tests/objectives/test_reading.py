"""What a classifier reads beside its classes: the pretraining objective, on the same texts."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from greffon.config import Shape
from greffon.nn.body import Body, Decoder, Encoder
from greffon.nn.heads import ClassHead, GistHead, MaskedHead, VocabularyHead, pool
from greffon.nn.model import Model
from greffon.objectives.batch import IGNORE, Batch
from greffon.objectives.classify import Classify
from greffon.objectives.masked import Masked, Roles
from greffon.objectives.reading import Reading
from greffon.randomness import generator

VOCABULARY = 40
TEXTS = [np.array(text) for text in ([3, 7, 8, 9, 4], [3, 10, 11, 12, 13, 14, 15, 16, 17, 4], [3, 8, 7, 4])]
LABELS = [0, 1, 1]


def classifier(kind: type[Body], gist: bool = False, words: bool = False) -> Model:
    torch.manual_seed(0)
    body = kind(Shape(layers=2, width=16, heads=2, feed_forward=32, context=16), VOCABULARY)
    model = Model(body, ClassHead(16, 2, pooling="mean", words=words))
    vocabulary = VocabularyHead(16, VOCABULARY, tied=body.embedding)
    model.head.reading = MaskedHead(vocabulary, gist=GistHead(16, VOCABULARY)) if gist else vocabulary
    return model.train()


def masked(rate: float = 0.5) -> Masked:
    roles = Roles(pad=0, start=1, end=2, cls=3, sep=4, mask=5)
    return Masked(roles, np.arange(6, VOCABULARY), np.arange(VOCABULARY), 16, rate)


def texts(reading: Reading, members: slice = slice(None)) -> Batch:
    return reading.prepare(Classify(0).batch(TEXTS[members], LABELS[members]), generator(0, "reading"))


@pytest.mark.parametrize("words", [True, False])
def test_a_body_that_reads_forward_tells_what_comes_next(words: bool) -> None:
    reading, model = Reading(0.3, None), classifier(Decoder, words=words)
    batch = texts(reading)
    assert torch.equal(batch.tokens, Classify(0).batch(TEXTS, LABELS).tokens)
    score = Classify(0, reading=reading).score(model, batch)
    expected, count = torch.zeros(()), 0
    for text in TEXTS:
        tokens = torch.from_numpy(text).unsqueeze(0)
        logits = F.linear(model.body(tokens), model.body.embedding.weight)[0, :-1]
        expected = expected + F.cross_entropy(logits, tokens[0, 1:], reduction="sum")
        count += len(text) - 1
    torch.testing.assert_close(score.beside.loss, 0.3 * expected, atol=1e-4, rtol=1e-5)
    assert (score.beside.count, batch.beside) == (count, count)
    torch.testing.assert_close(score.loss, Classify(0).score(model, batch).loss)


@pytest.mark.parametrize("gist", [True, False])
def test_from_a_body_that_looks_both_ways_tokens_are_hidden(gist: bool) -> None:
    reading, model = Reading(0.5, masked()), classifier(Encoder, gist)
    batch, plain = texts(reading), Classify(0).batch(TEXTS, LABELS)
    told = batch.reading != IGNORE
    assert 0 < int(told.sum()) < int((plain.tokens >= 6).sum())
    assert torch.equal(batch.reading[told], plain.tokens[told])
    assert torch.equal(batch.tokens[~told], plain.tokens[~told])
    assert torch.equal(batch.targets, plain.targets)
    score = Classify(0, reading=reading).score(model, batch)
    expected, head = torch.zeros(()), model.head.reading
    for row, text in enumerate(TEXTS):
        states = model.body(batch.tokens[row : row + 1, : len(text)])
        wanted = batch.reading[row, : len(text)]
        logits = F.linear(states[0], model.body.embedding.weight)
        expected = expected + F.cross_entropy(logits, wanted, ignore_index=IGNORE, reduction="sum")
        if gist:
            of_all = head.gist(pool(states, None, "mean"), model.body.embedding.weight).expand(len(text), -1)
            expected = expected + F.cross_entropy(of_all, wanted, ignore_index=IGNORE, reduction="sum")
    torch.testing.assert_close(score.beside.loss, 0.5 * expected, atol=1e-4, rtol=1e-5)
    assert score.beside.count == int(told.sum())


def test_parts_of_a_batch_add_up_and_an_idle_one_reads_nothing() -> None:
    reading, model = Reading(0.5, masked()), classifier(Encoder, gist=True)
    objective = Classify(0, reading=reading)
    batch = texts(reading)
    whole = objective.score(model, batch)
    parts = [objective.score(model, batch.part(i, 4)) for i in range(4)]  # three rows: one idles
    torch.testing.assert_close(sum(part.beside.loss for part in parts), whole.beside.loss)
    assert sorted(part.count for part in parts) == [0, 1, 1, 1]
    assert sum(part.beside.count for part in parts) == whole.beside.count


def test_pushed_texts_are_read_once_and_every_weight_learns() -> None:
    reading, model = Reading(0.5, masked()), classifier(Encoder, gist=True)
    batch = texts(reading)
    score, pushed = (Classify(0, size, reading).score(model, batch) for size in (0.0, 0.5))
    torch.testing.assert_close(score.beside.loss, pushed.beside.loss)
    (pushed.loss + pushed.beside.loss).backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


def test_texts_that_are_only_scored_are_not_read() -> None:
    reading, model = Reading(0.5, masked()), classifier(Encoder)
    assert Classify(0, reading=reading).score(model.eval(), Classify(0).batch(TEXTS, LABELS)).beside is None
