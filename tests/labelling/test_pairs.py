"""Pairs of texts: vectors, equal pairs, tables, and a session and a study from end to end."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from tiny import TinyRuns

import greffon
from greffon.core.errors import UserError
from greffon.core.recipe import Data
from greffon.data.tasks import read_examples
from greffon.labelling.heap import Heap

ANIMALS = ("chat", "chien", "vache", "oiseau")
VERBS = ("mange", "dort", "court")


def true_label(a: str, b: str) -> str:
    return "same" if a.split()[1] == b.split()[1] else "other"


@pytest.fixture(scope="module")
def heap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("heap") / "pairs.csv"
    texts = [f"le {animal} {verb}" for animal in ANIMALS for verb in VERBS]
    path.write_text("\n".join(["text_a,text_b", *(f"{a},{b}" for a, b in itertools.combinations(texts, 2))]) + "\n")
    return path


def test_from_pairs_to_a_run(tiny: TinyRuns, heap: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    with greffon.label(heap, body=tiny.causal, labels="same,other", out=tmp_path / "s", aside_share=0.3) as session:
        assert "task: pairs, by the columns 'text_a' and 'text_b'" in capsys.readouterr().err
        for _ in range(40):
            (pair,) = session.next_texts()
            session.add(pair, true_label(*pair))
        progress = session.progress()
        assert (progress.metric, progress.labels, progress.aside) == ("accuracy", 28, 12)
        assert progress.tfidf is not None
        session.add([*pair], true_label(*pair))  # as JSON has it
        assert session.labels() == {pair: true_label(*pair) for pair in session.labels()}
        with pytest.raises(UserError, match="is not among the texts"):
            session.add(("le chat dort", "le chat"), "same")
    labelled = read_examples(session.path / "labels.csv", Data(task="pairs"))
    assert all(one.label == true_label(one.text, one.second) for one in labelled)
    run = greffon.finetune(tiny.causal, train=session.path / "labels.csv", out=tmp_path / "run", epochs=1, quiet=True)
    assert run.recipe.task == "pairs"
    assert greffon.evaluate(run, session.path / "aside.csv").n == 12
    with greffon.label(out=session.path) as again:
        assert again.labels() == {(one.text, one.second): one.label for one in labelled} | {
            (one.text, one.second): one.label for one in read_examples(session.path / "aside.csv", Data(task="pairs"))
        }


def test_the_vector_of_a_pair(tiny: TinyRuns, heap: Path, tmp_path: Path) -> None:
    """By hand: |u - v| and u · v of both vectors, less the mean, of length one; the product in the same scale."""
    with greffon.label(heap, body=tiny.causal, labels="a,b", out=tmp_path / "s", quiet=True) as session:
        pairs = session.desk.heap.texts
    u, v = (greffon.embed(tiny.causal, [pair[side] for pair in pairs]) for side in (0, 1))
    middle = np.concatenate((u, v)).mean(axis=0)
    u, v = ((part - middle) / np.linalg.norm(part - middle, axis=1, keepdims=True) for part in (u, v))
    expected = np.concatenate((np.abs(u - v), np.sqrt(32) * u * v), axis=1)
    np.testing.assert_allclose(np.load(session.path / "vectors.npy"), expected, atol=1e-4)


def test_pairs_that_say_the_same_are_one_and_blank_ones_none() -> None:
    texts = [("A b!", "c"), ("a B", "C."), ("a", "b c"), ("!", ""), (" ", ""), ("", "c")]
    assert Heap(texts, np.zeros((6, 2)), ()).groups.tolist() == [0, 0, 2, 3, -1, 5]


def test_other_columns_and_mistakes(tiny: TinyRuns, heap: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text(heap.read_text().replace("text_a,text_b", "question,answer"))
    given = {"body": tiny.causal, "labels": "a,b", "out": tmp_path / "s", "quiet": True}
    with pytest.raises(UserError, match="pair_columns is for pairs of texts, and this is for multilabel"):
        greffon.label(other, task="multilabel", pair_columns=("question", "answer"), **given)
    assert not (tmp_path / "s").exists()
    with greffon.label(other, pair_columns=("question", "answer"), **given) as session:
        assert session.settings.task == "pairs"
    with pytest.raises(UserError, match=r"other settings \(pair_columns\)"):
        greffon.label(other, pair_columns=("answer", "question"), **given)


def test_a_study_of_pairs(tiny: TinyRuns, heap: Path, tmp_path: Path) -> None:
    answers = tmp_path / "answers.csv"
    header, *lines = heap.read_text().splitlines()
    answers.write_text("\n".join([f"{header},label", *(f"{x},{true_label(*x.split(','))}" for x in lines)]) + "\n")
    given = {"body": tiny.causal, "simulate": answers, "train_sizes": (10,), "seeds": 2, "quiet": True}
    found = greffon.label_study(heap, **given, out=tmp_path / "study")
    assert (found.texts, found.metric) == (66, "accuracy")
    scored = tmp_path / "scored.csv"
    scored.write_text("\n".join([f"{header},score", *(f"{x},{len(x)}" for x in lines)]) + "\n")
    with pytest.raises(UserError, match="these pairs have scores"):
        greffon.label_study(**{**given, "simulate": scored}, out=tmp_path / "other")
