"""Ranking texts by a query: against scikit-learn's nearest neighbours, and against what the run says of each pair."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn.neighbors import NearestNeighbors
from tiny import TinyRuns

import greffon
from greffon.cli import run as command
from greffon.core.errors import UserError
from greffon.inference import nearest as module
from greffon.inference import rank as ranking

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
    assert embedded == [1, 1, 7]
    assert [one.index for one in greffon.nearest(tiny.masked, "le chat", TEXTS, top_k=2)] == [
        one.index for one in first
    ]
    assert embedded == [1, 1, 7, 1]
    greffon.rank(tiny.masked, "le chat", TEXTS, pooling="cls")
    assert embedded == [1, 1, 7, 1, 1, 6]


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
    with pytest.raises(UserError, match="compares as it has learned to; pooling has no effect, leave it out"):
        greffon.rank(run, "le chat", TEXTS, label="same", pooling="mean")


@pytest.mark.parametrize("column", ["label", "score"])
def test_a_run_that_reads_pairs_together_scores_them_and_refuses_too_many(
    column: str, tiny: TinyRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pairs.csv"
    rows = [
        f"le chat {i},{text},{len(text) if column == 'score' else len(text) % 2}" for i in range(4) for text in TEXTS
    ]
    file.write_text(f"text_a,text_b,{column}\n" + "\n".join(row for row in rows if ",," not in row) + "\n")
    settings = {"pair_reading": "cross", "epochs": 1, "quiet": True}
    run = greffon.finetune(tiny.causal, train=file, out=tmp_path / "run", **settings)
    found = greffon.rank(run, "le chat", TEXTS, label="1" if column == "label" else None)
    assert len(found) == 5
    for one in found:
        (pair,) = greffon.classify(run, [("le chat", one.text)])
        assert one.score == pytest.approx(pair.probabilities["1"] if column == "label" else pair.score, abs=1e-5)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    monkeypatch.setattr(ranking, "MOST_READ", 4)
    with pytest.raises(UserError, match=r"6 texts would be read anew .* give up to 4, .* pair_reading=towers"):
        greffon.rank(run, "le chat", TEXTS, label="1" if column == "label" else None)
    if column == "score":
        with pytest.raises(UserError, match="gives scores, so it ranks by no label"):
            greffon.rank(run, "le chat", TEXTS, label="1")


def test_pooling_is_the_bodys_own_unless_another_is_asked_for(tiny: TinyRuns, tmp_path: Path) -> None:
    body = shutil.copytree(tiny.masked.path, tmp_path / "body")
    recipe = json.loads((body / "recipe.json").read_text())
    recipe["embedding"] = {"pooling": "cls", "max_length": 48, "normalize": True}
    (body / "recipe.json").write_text(json.dumps(recipe))
    own = greffon.rank(body, "le chat", TEXTS)
    assert own == greffon.rank(body, "le chat", TEXTS, pooling="cls")
    assert [one.score for one in own] != [one.score for one in greffon.rank(body, "le chat", TEXTS, pooling="mean")]


def test_rank_and_embed_from_the_command_line(
    tiny: TinyRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, body = tmp_path / "texts.txt", str(tiny.causal.path)
    file.write_text("\n".join(text for text in TEXTS if text) + "\n")
    texts = [text for text in TEXTS if text]
    assert command(["rank", body, "le chat", "--file", str(file), "--threads", "1", "--device", "cpu", "--json"]) == 0
    ranked = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert ranked == [one.to_json() for one in greffon.rank(body, "le chat", texts)]
    monkeypatch.setattr(module, "embed", only_the_query(module.embed))
    assert command(["embed", body, "--file", str(file), "--nearest", "le chat", "--top-k", "2", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["text"], one["index"]) for one in lines] == [(one["text"], one["index"]) for one in ranked[:2]]
    assert [one["cosine"] for one in lines] == pytest.approx([one["score"] for one in ranked[:2]])
    out = tmp_path / "vectors.npy"
    words = ["embed", body, "--file", str(file), "--nearest", "le chat", "--json", "--out", str(out)]
    assert command(words) == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 5
    assert "5 vectors of 32 numbers" in printed.err
    np.testing.assert_array_equal(np.load(out), greffon.embed(body, texts))
    assert command(["embed", body, "--file", str(file), "--out", str(out), "--json"]) == 1
    assert "--json" in capsys.readouterr().err


def only_the_query(compute: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Embed a single text, and nothing that should be in the cache."""

    def embed(run: object, texts: list[str], **more: object) -> np.ndarray:
        assert len(texts) == 1
        return compute(run, texts, **more)

    return embed
