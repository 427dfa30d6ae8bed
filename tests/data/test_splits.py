from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from greffon.core.errors import UserError
from greffon.core.recipe import Data
from greffon.data.corpora import Labelled
from greffon.data.splits import draw, folds, load_draw, load_pool, load_splits, stratified

examples = st.lists(st.sampled_from("aabbbc"), min_size=1, max_size=60).map(
    lambda labels: [Labelled(f"t{i}", label, i + 2) for i, label in enumerate(labels)]
)


@given(examples)
def test_a_stratified_fifth_of_each_class_is_held_out(texts: list[Labelled]) -> None:
    kept, held = stratified(texts, 0.2, "valid")
    assert sorted(e.text for e in kept + held) == sorted(e.text for e in texts)
    wanted = {label: round(0.2 * count) for label, count in Counter(e.label for e in texts).items()}
    assert Counter(e.label for e in held) == Counter({k: v for k, v in wanted.items() if v})
    assert stratified(texts, 0.2, "valid") == (kept, held)


@given(st.lists(st.tuples(st.sampled_from("pn"), st.integers(0, 9)), min_size=1, max_size=60))
def test_copies_of_a_text_are_never_parted(drawn: list[tuple[str, int]]) -> None:
    texts = [Labelled(f"Text  {i}" if label == "p" else f"text {i}", label, n) for n, (label, i) in enumerate(drawn)]
    kept, held = stratified(texts, 0.2, "valid")
    assert not {e.text.lower().replace("  ", " ") for e in kept} & {e.text.lower().replace("  ", " ") for e in held}
    assert len(kept) + len(held) == len(texts)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), min_size=1, max_size=40))
def test_no_class_loses_its_last_text_to_the_held_out_part(drawn: list[tuple[str, int]]) -> None:
    texts = [Labelled(f"t{i}", label, n) for n, (label, i) in enumerate(drawn)]
    kept, _ = stratified(texts, 0.5, "valid")
    assert {e.label for e in kept} == {e.label for e in texts}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=40))
def test_every_class_is_in_training_for_every_fold(drawn: list[tuple[int, int]]) -> None:
    labels, groups = np.array(drawn).T
    fold = folds(labels, groups)
    for number in range(5):
        assert set(labels[fold != number]) == set(labels)
    for group in set(groups):
        assert len({*fold[groups == group]}) == 1


def test_classes_of_two_texts_leave_a_plain_fifth_for_validation(tmp_path: Path) -> None:
    file = tmp_path / "train.csv"
    file.write_text("text,label\n" + "".join(f"{c} {i},c{c}\n" for c in range(18) for i in range(2)))
    splits = load_splits(Data(train=(str(file),)))
    assert (len(splits.train), len(splits.valid)) == (29, 7)
    assert {e.label for e in splits.train} == {f"c{c}" for c in range(18)}
    with pytest.raises(UserError, match=r"36 labelled texts are too few .* give a file with test"):
        load_pool(Data(train=(str(file),), hold_out_test=True))


@pytest.mark.parametrize(
    ("rows", "reason"),
    [(["same text,a", "Same  text,b"] * 6, "all texts are equal"), (["x,a", "y,a"], "a classifier needs two")],
)
def test_what_cannot_be_divided_is_named(rows: list[str], reason: str, tmp_path: Path) -> None:
    file = tmp_path / "train.csv"
    file.write_text("\n".join(["text,label", *rows]))
    with pytest.raises(UserError, match=reason):
        load_splits(Data(train=(str(file),), hold_out_test=True))


@given(examples, st.integers(1, 60), st.integers(0, 3))
def test_a_draw_has_every_class_and_keeps_the_proportion(texts: list[Labelled], size: int, number: int) -> None:
    counts = Counter(e.label for e in texts)
    if not len(counts) <= size <= len(texts):
        with pytest.raises(UserError, match="labels"):
            draw(texts, size, number)
        return
    drawn = draw(texts, size, number)
    taken = Counter(e.label for e in drawn)
    assert set(taken) == set(counts)
    for label, count in counts.items():
        assert abs(taken[label] - size / len(texts) * count) <= len(counts)
    assert {e.line for e in draw(texts, max(size - 1, len(counts)), number)} <= {e.line for e in drawn}
    assert len({e.line for e in drawn}) == size


def test_draws_of_other_numbers_are_others() -> None:
    texts = [Labelled(f"t{i}", "ab"[i % 2], i) for i in range(100)]
    drawn = [frozenset(e.line for e in draw(texts, 20, number)) for number in range(5)]
    assert len(set(drawn)) == 5


def write(path: Path, count: int) -> str:
    path.write_text("text,label\n" + "".join(f"{path.stem} {i},{'pn'[i % 2]}\n" for i in range(count)))
    return str(path)


def test_parts_never_share_a_text(tmp_path: Path) -> None:
    train = write(tmp_path / "train.csv", 100)
    splits = load_splits(Data(train=(train,), hold_out_test=True))
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (64, 16, 20)
    assert len({e.text for part in (splits.train, splits.valid, splits.test) for e in part}) == 100
    data = Data(train=(train,), hold_out_test=True, limit=10)
    few, fewer, other = (load_draw(replace(data, limit=n, draw=k)) for n, k in ((10, 0), (4, 0), (10, 1)))
    pool, test = load_pool(data)
    assert {e.text for e in fewer} < {e.text for e in few} < {e.text for e in pool}
    assert {e.text for e in few} != {e.text for e in other}
    assert test == splits.test
    assert not load_splits(data).test, "the test texts are read once, at the end"
    with pytest.raises(UserError, match="only 80 texts are there"):
        load_draw(replace(data, limit=81))
