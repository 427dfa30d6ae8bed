"""Ranking texts by a query: against scikit-learn's nearest neighbours, and against what the run says of each pair."""

import time
from pathlib import Path

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors
from tiny import TinyRuns

import greffon
from greffon.core.errors import UserError
from greffon.inference import rank as module

TEXTS = ["le chat dort", "le chien court", "", "la vache mange", "le chat mange", "un oiseau chante"]


def test_the_nearest_by_cosine_come_first_and_blank_texts_never(tiny: TinyRuns) -> None:
    found = greffon.rank(tiny.causal, "le chat", TEXTS)
    shown = [text for text in TEXTS if text]
    vectors = greffon.embed(tiny.causal, shown)
    distances, order = (
        NearestNeighbors(n_neighbors=5, metric="cosine").fit(vectors).kneighbors(greffon.embed(tiny.causal, "le chat"))
    )
    assert [one.text for one in found] == [shown[i] for i in order[0]]
    assert [one.score for one in found] == pytest.approx(1 - distances[0], abs=1e-5)
    assert [TEXTS[one.index] for one in found] == [one.text for one in found]


def test_vectors_are_kept_until_texts_or_weights_change(tiny: TinyRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    first = greffon.rank(tiny.masked, "le chat", TEXTS, top_k=2)
    embedded: list[int] = []
    compute = module.embed
    monkeypatch.setattr(
        module, "embed", lambda run, texts, **more: embedded.append(len(texts)) or compute(run, texts, **more)
    )
    assert greffon.rank(tiny.masked, "le chat", TEXTS, top_k=2) == first
    assert embedded == [1]  # the query alone
    greffon.rank(tiny.masked, "le chat", [*TEXTS, "de plus"])
    assert embedded == [1, 7, 1]


def test_a_hundred_thousand_texts_take_less_than_a_second(tiny: TinyRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"texte {i}" for i in range(100_000)]
    vectors = np.random.default_rng(0).normal(size=(len(texts), 32)).astype(np.float32)
    compute = module.embed
    monkeypatch.setattr(
        module, "embed", lambda run, asked, **more: vectors if len(asked) > 1 else compute(run, asked, **more)
    )
    greffon.rank(tiny.causal, "un chat", texts)
    began = time.process_time()
    found = greffon.rank(tiny.causal, "un chat", texts)
    assert time.process_time() - began < 1.0
    assert len(found) == 10


def test_a_run_for_pairs_ranks_by_its_own_probabilities(tiny: TinyRuns, tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    rows = [f"le chat {i},{text},{'same' if 'chat' in text else 'other'}" for i in range(4) for text in TEXTS if text]
    file.write_text("text_a,text_b,label\n" + "\n".join(rows) + "\n")
    run = greffon.finetune(tiny.causal, train=file, out=tmp_path / "run", epochs=1, quiet=True)
    found = greffon.rank(run, "le chat", TEXTS, label="same")
    for one in found:
        (pair,) = greffon.classify(run, [("le chat", one.text)])
        assert one.score == pytest.approx(pair.probabilities["same"], abs=1e-5)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    with pytest.raises(UserError, match="has several labels; choose one of other, same with label"):
        greffon.rank(run, "le chat", TEXTS)
    with pytest.raises(UserError, match="ranks by no label"):
        greffon.rank(tiny.causal, "le chat", TEXTS, label="same")
