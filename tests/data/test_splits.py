from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greffon.core.config import Data
from greffon.core.errors import UserError
from greffon.data.corpora import Labelled
from greffon.data.splits import balanced_order, load_splits, stratified

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


@given(examples, st.integers(1, 60))
def test_fewer_labels_keep_the_proportion(texts: list[Labelled], size: int) -> None:
    taken = Counter(e.label for e in balanced_order(texts)[:size])
    share = min(1, size / len(texts))
    for label, count in Counter(e.label for e in texts).items():
        assert abs(taken[label] - share * count) <= 2


def write(path: Path, count: int) -> str:
    path.write_text("text,label\n" + "".join(f"{path.stem} {i},{'pn'[i % 2]}\n" for i in range(count)))
    return str(path)


def test_parts_never_share_a_text(tmp_path: Path) -> None:
    train = write(tmp_path / "train.csv", 100)
    splits = load_splits(Data(train=(train,), hold_out_test=True))
    assert (len(splits.train), len(splits.valid), len(splits.test)) == (64, 16, 20)
    assert len({e.text for part in (splits.train, splits.valid, splits.test) for e in part}) == 100
    few = load_splits(Data(train=(train,), hold_out_test=True, limit=10))
    fewer = load_splits(Data(train=(train,), hold_out_test=True, limit=4))
    assert few.valid == splits.valid
    assert {e.text for e in fewer.train} < {e.text for e in few.train} < {e.text for e in splits.train}
    with pytest.raises(UserError, match="only 64 texts are left"):
        load_splits(Data(train=(train,), hold_out_test=True, limit=65))
