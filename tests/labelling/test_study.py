"""The study: its numbers are those of the desk, and on data where choosing pays it says so."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from tiny import TinyRuns

import greffon
from greffon.core.errors import UserError
from greffon.core.rng import generator
from greffon.labelling.answers import OneClass
from greffon.labelling.clusters import cluster
from greffon.labelling.heap import Heap
from greffon.labelling.simulate import simulate
from greffon.labelling.strategy import Choosing
from greffon.labelling.study import RANDOM, _drawn, spread

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def study(tiny: TinyRuns, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out: Path = tmp_path_factory.mktemp("study") / "out"
    greffon.label_study(
        tiny.table, body=tiny.causal, simulate=tiny.table, train_sizes=(8, 16), seeds=3, out=out, quiet=True
    )
    return out


def test_results_and_figure(study: Path) -> None:
    found = json.loads((study / "results.json").read_text())
    assert {name: [point["labels"] for point in points] for name, points in found["arms"].items()} == {
        "mixed": [8, 16],
        "random": [8, 11, 16, 22],
    }
    assert [(gain["chosen"], gain["random"]) for gain in found["gains"]] == [(8, 8), (8, 11), (16, 16), (16, 22)]
    mixed, random = (found["arms"][name][0]["score"]["by_seed"] for name in ("mixed", "random"))
    assert found["gains"][0]["difference"]["by_seed"] == pytest.approx(np.subtract(mixed, random))
    assert (found["texts"], found["judges"], found["seeds"]) == (96, 20, 3)
    assert (study / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_same_study_gives_the_same_results(study: Path, tiny: TinyRuns, tmp_path: Path) -> None:
    given = {"body": tiny.causal, "simulate": tiny.table, "train_sizes": (8, 16), "seeds": 3, "quiet": True}
    greffon.label_study(tiny.table, out=tmp_path / "out", **given)
    assert (tmp_path / "out" / "results.json").read_bytes() == (study / "results.json").read_bytes()
    with pytest.raises(UserError, match="has a study; choose another out, or force to replace it"):
        greffon.label_study(tiny.table, out=study, **given)


def test_intervals_are_students() -> None:
    values = [0.5, 0.6, 0.7, 0.9]
    low, high = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert spread(values).interval == pytest.approx((low, high))


def test_choosing_finds_rare_classes() -> None:
    """Forty classes of very unequal size: clusters find more of them than chance."""
    random = generator(0, "classes")
    sizes = np.linspace(3, 60, 40).astype(int)
    classes = np.repeat(np.arange(40), sizes)
    vectors = (
        4 * generator(1, "centres").normal(size=(40, 16))[classes] + random.normal(size=(len(classes), 16))
    ).astype(np.float32)
    names = [f"class {number:02}" for number in range(40)]
    answers = [names[number] for number in classes]
    seen = {}
    for strategy in ("mixed", RANDOM):
        heap = Heap([f"text {index}" for index in range(len(classes))], vectors, cluster(vectors, 0))
        (point,) = simulate(heap, answers, (vectors, answers), [60], Choosing(strategy), OneClass(tuple(names)))
        seen[strategy] = point.classes
    assert seen["mixed"] >= seen[RANDOM] + 3


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"strategy": "random"}, "choose another strategy"),
        ({"seeds": 1}, "seeds of 2 or more"),
        ({"train_sizes": (1,)}, "train_sizes of 2 or more"),
        ({"train_sizes": (70,)}, "70 labels need 98 texts, 76 are there"),
    ],
)
def test_mistakes(tiny: TinyRuns, tmp_path: Path, given: dict, message: str) -> None:
    with pytest.raises(UserError, match=message):
        greffon.label_study(tiny.table, body=tiny.causal, simulate=tiny.table, out=tmp_path / "out", **given)
    assert not (tmp_path / "out").exists()


def test_texts_without_an_answer_are_left_out(tiny: TinyRuns, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    some = tmp_path / "some.txt"
    some.write_text("\n".join(tiny.table.read_text().splitlines()[1:41]).replace(",poil", "").replace(",autre", ""))
    found = greffon.label_study(
        some, body=tiny.causal, simulate=tiny.table, test=tiny.table, train_sizes=(6,), seeds=2, out=tmp_path / "out"
    )
    assert found.texts == 40
    assert "40 texts have an answer" in capsys.readouterr().err


def test_equal_texts_are_on_one_side() -> None:
    texts = [f"Text {index % 40}{'!' * (index // 40)}" for index in range(100)]
    for seed in range(5):
        asked, rest = _drawn(texts, 0.8, seed)
        assert sorted([*asked, *rest]) == list(range(100))
        assert 76 <= len(asked) <= 80
        sides = [{texts[index].strip("!") for index in side} for side in (asked, rest)]
        assert not sides[0] & sides[1]


def test_a_test_file_that_shares_texts_is_told(study: Path, tiny: TinyRuns, tmp_path: Path, capsys: Capture) -> None:
    given = {"body": tiny.causal, "simulate": tiny.table, "train_sizes": (6,), "seeds": 2, "quiet": True}
    found = greffon.label_study(test=tiny.table, out=tmp_path / "out", **given)
    assert found.overlap == 96
    assert "WARNING: 96 of the 96 texts" in capsys.readouterr().err
    assert json.loads((study / "results.json").read_text())["overlap"] == 0
