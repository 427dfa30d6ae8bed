"""Texts longer than the context, read in windows: against each window read alone and NumPy's weighted mean."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny import TinyRuns

import greffon
from greffon.core.rng import generator
from greffon.data.corpora import Labelled
from greffon.inference.classify import probabilities
from greffon.inference.loading import load
from greffon.nn.heads import pool
from greffon.nn.windows import TextWindows
from greffon.objectives.classify import class_probabilities
from greffon.objectives.labelled_texts import MOST_WINDOWS, SCORING_TOKENS, Encoded, LabelledTexts


def long_texts(tiny: TinyRuns) -> list[str]:
    lines = tiny.long.read_text(encoding="utf-8").splitlines()
    return ["le chat dort", *lines, "", lines[0][:400]]


def prepared(tiny: TinyRuns, long_texts: str = "windows") -> LabelledTexts:
    run = tiny.classifier
    return LabelledTexts(run.recipe, run.tokenizer, long_texts)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(0, 3))
def test_mean_is_numpys_weighted_mean(counts: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    texts = np.repeat(np.arange(len(counts)), counts)
    weights, vectors = random.integers(1, 50, len(texts)), random.normal(size=(len(texts), 7))
    windows = TextWindows(torch.from_numpy(texts), torch.from_numpy(weights).double())
    expected = [np.average(vectors[texts == i], axis=0, weights=weights[texts == i]) for i in range(len(counts))]
    assert np.allclose(windows.mean(torch.from_numpy(vectors)).numpy(), expected)


def test_a_text_of_one_window_keeps_its_vector_to_the_last_bit() -> None:
    vectors = torch.randn(3, 5)
    windows = TextWindows(torch.tensor([0, 1, 1]), torch.tensor([17.0, 2.0, 3.0]))
    assert torch.equal(windows.mean(vectors)[0], vectors[0])


@given(st.integers(0, 400))
def test_windows_hold_the_whole_text_in_nearly_equal_parts(size: int) -> None:
    class Room(LabelledTexts):
        def __init__(self) -> None:
            self.room, self.windows = 46, True

    parts = Room().parts(np.arange(size))
    assert np.concatenate(parts).tolist() == list(range(size))
    lengths = [len(part) for part in parts]
    assert len(parts) == max(1, -(-size // 46))
    assert max(lengths) <= 46
    assert max(lengths) - min(lengths) <= 1


@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_embed_is_the_weighted_mean_of_the_windows_alone(tiny: TinyRuns, pooling: str) -> None:
    run, texts = tiny.causal, long_texts(tiny)
    found = greffon.embed(run, texts, pooling=pooling)
    model = load(run)
    for text, vector in zip(texts, found, strict=True):
        ids = run.tokenizer.encode(text)
        parts = np.array_split(ids, max(1, -(-len(ids) // 47)))
        rows = [torch.tensor([[run.tokenizer.start, *map(int, part)]]) for part in parts]
        with torch.no_grad():
            alone = [pool(model.body(row), None, pooling)[0].numpy() for row in rows]
        expected = np.average(alone, axis=0, weights=[max(1, len(part)) for part in parts])
        assert np.allclose(vector, expected, atol=1e-5)


def test_truncate_reads_the_beginning_and_says_so(tiny: TinyRuns) -> None:
    text = long_texts(tiny)[1]
    other = text[:300] + "chat " * 100
    with pytest.warns(UserWarning, match="only their beginning"):
        cut = greffon.embed(tiny.causal, [text, other], long_texts="truncate")
    assert np.allclose(cut[0], cut[1], atol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = greffon.embed(tiny.causal, [text, other])
    assert not np.allclose(whole[0], whole[1], atol=1e-2)
    with pytest.raises(greffon.UserError, match="windows or truncate"):
        greffon.embed(tiny.causal, [text], long_texts="window")


def test_scoring_is_what_training_computes(tiny: TinyRuns) -> None:
    texts, model = prepared(tiny), load(tiny.classifier)
    encoded = [text for text in texts.encode([Labelled(t, "poil", 0) for t in long_texts(tiny)]) if len(text.rows) < 9]
    assert max(len(text.rows) for text in encoded) > 1
    scored = class_probabilities(model, texts.for_scoring(encoded))
    batch = texts.batch(encoded)
    with torch.no_grad():
        loss = texts.objective.score(model, batch).loss
    expected = -scored[torch.arange(len(encoded)), batch.targets].log().sum()
    assert torch.allclose(loss, expected, atol=1e-4)
    assert batch.count == len(encoded)


def test_scoring_does_not_depend_on_the_other_texts(tiny: TinyRuns) -> None:
    examples = [Labelled(text, "", 0) for text in long_texts(tiny)]
    together = probabilities(tiny.classifier, examples)
    alone = np.concatenate([probabilities(tiny.classifier, [example]) for example in examples])
    assert np.allclose(together, alone, atol=1e-5)


def test_scoring_batches_are_bounded_however_long_a_text_is(tiny: TinyRuns) -> None:
    texts = prepared(tiny)
    scored = texts.for_scoring([texts.encoded(np.full(100_000, 7), 1), texts.encoded(np.arange(5), 0)])
    assert len(scored.batches) > 10
    assert max(batch.num_positions for batch in scored.batches) <= SCORING_TOKENS
    assert len(scored.targets) == 2


def test_rows_that_texts_share_are_computed_once(tiny: TinyRuns) -> None:
    texts = prepared(tiny)
    text = texts.encoded(np.arange(5, 200))
    scored = texts.for_scoring([text] * 3)
    assert sum(len(batch.tokens) for batch in scored.batches) == len(text.rows)
    found = class_probabilities(load(tiny.classifier), scored)
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("processes", [2, 3, 5])
def test_parts_of_a_batch_keep_the_windows_of_a_text_together(tiny: TinyRuns, processes: int) -> None:
    texts, model = prepared(tiny), load(tiny.classifier)
    batch = texts.batch([texts.encoded(np.arange(size), size % 2) for size in (100, 3, 150, 47)])
    parts = [batch.part(i, processes) for i in range(processes)]
    with torch.no_grad():
        losses = [texts.objective.score(model, part).loss.item() for part in parts]
        whole = texts.objective.score(model, batch).loss.item()
    assert sum(losses) == pytest.approx(whole, abs=1e-4)
    assert sum(part.count for part in parts) == 4
    for part in parts:
        assert part.windows is not None
        assert int(part.windows.texts[-1]) + 1 == len(part.targets)
        assert len(part.windows.texts) == len(part.tokens)


def test_a_step_reads_a_bounded_number_of_windows_and_all_in_time(tiny: TinyRuns) -> None:
    texts = prepared(tiny)
    text = texts.encoded(np.arange(47 * 20))
    seen = {int(row[1]) for step in range(40) for row in text.some(generator(0, "windows", step)).rows}
    assert len(text.some(generator(0, "windows", 1)).rows) == MOST_WINDOWS
    assert len(seen) == 20
    again = [text.some(generator(0, "windows", 5)) for _ in range(2)]
    assert all(a is b for a, b in zip(again[0].rows, again[1].rows, strict=True))
    short = replace(text, rows=text.rows[:8], weights=text.weights[:8])
    assert short.some(generator(0)) is short


def test_adversarial_training_reads_windows(tiny: TinyRuns) -> None:
    texts, model = prepared(tiny), tiny.classifier.load_model().train()
    batch = texts.batch([texts.encoded(np.arange(100), 1), texts.encoded(np.arange(9), 0)])
    loss = replace(texts.objective, adversarial_epsilon=0.5).score(model, batch).loss
    loss.backward()
    assert loss.item() > texts.objective.score(model, batch).loss.item()


def test_occlusion_agrees_with_the_whole_text_and_with_each_word_left_out(tiny: TinyRuns) -> None:
    run, text = tiny.classifier, "le chat mange la vache " * 9
    found = greffon.occlude(run, text)
    assert "".join(word.word for word in found.words) == text
    assert found.unread == ""
    whole = greffon.classify(run, text)[0]
    assert found.label == whole.label
    assert found.probabilities[found.label] == pytest.approx(whole.probabilities[whole.label], abs=1e-5)
    # Leave the first word out of its window by hand.
    texts, model = prepared(tiny), load(run)
    ids = run.tokenizer.encode(text)
    parts = texts.parts(ids)
    word = len(run.tokenizer.encode(found.words[0].word))
    rows = tuple(texts.lay_out(part) for part in (parts[0][word:], *parts[1:]))
    left = Encoded(rows, tuple(len(part) for part in parts))
    expected = class_probabilities(model, texts.for_scoring([left]))[0]
    without = found.probabilities[found.label] - found.words[0].influence
    assert without == pytest.approx(float(expected[run.recipe.labels.index(found.label)]), abs=1e-5)
