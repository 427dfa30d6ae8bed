"""The log: synced, appended, cut where a kill has left half a line; and what its marks amount to."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from greffon.core.errors import UserError
from greffon.labelling.answers import answers_of
from greffon.labelling.log import Log, Mark
from greffon.labelling.marks import Marks, cohen_kappa


def written(path: Path, *marks: Mark) -> None:
    log = Log(path)
    for mark in marks:
        log.append(mark)
    log.close()


HOW = ("chosen", "again")
MARKS = (Mark("label", 3, "a"), Mark("skip", 1), Mark("label", 2, "b", "random", "Zoé", "2026-01-01", "tab", "key"))


def test_marks_come_back(tmp_path: Path) -> None:
    written(tmp_path / "log.jsonl", *MARKS)
    assert tuple(Log(tmp_path / "log.jsonl").marks) == MARKS


def test_each_mark_is_synced_before_it_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, synced, sync = tmp_path / "log.jsonl", [], os.fsync
    log = Log(path)
    monkeypatch.setattr(os, "fsync", lambda file: synced.append((path.read_bytes(), sync(file))))
    log.append(MARKS[0])
    (content, _), *_ = synced
    assert json.loads(content)["text"] == 3  # it was written when it was synced


def test_a_line_cut_anywhere_is_a_mark_that_never_was(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    written(path, *MARKS)
    whole = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == 10]
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        log = Log(path)
        assert tuple(log.marks) == MARKS[: sum(end <= cut for end in ends)]
        log.append(Mark("flag", 9))
        log.close()
        assert Log(path).marks[-1] == Mark("flag", 9)


def test_a_full_disk_takes_the_label_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(tmp_path / "log.jsonl")
    log.append(MARKS[0])
    write = os.write
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda file, line: write(file, line[:10]))
        with pytest.raises(UserError, match="No space left on device"):
            log.append(MARKS[1])
    log.append(MARKS[2])
    assert tuple(Log(log.path).marks) == (MARKS[0], MARKS[2])


@pytest.mark.parametrize("line", ["{", "[]", '{"kind": "label", "text": "x"}', '{"kind": "label"}', "\\0"])
def test_damage_before_the_end_is_told_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "log.jsonl"
    written(path, *MARKS)
    path.write_text(path.read_text() + line + "\n" + path.read_text().splitlines()[0] + "\n")
    with pytest.raises(UserError, match=r"log\.jsonl:4: "):
        Log(path)


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["a", "b", "skip", "flag", "undo"]))))
def test_undo_is_as_if_it_had_not_been(actions: list[tuple[int, str]]) -> None:
    marks, kept = Marks(), []
    for text, action in actions:
        if action == "undo":
            number = marks.last_of("")
            if number is None:
                assert not kept
                continue
            kept.pop()
            marks.add(Mark("undo", number))
        else:
            mark = Mark("label", text, action) if action in "ab" else Mark(action, text)
            kept.append(mark)
            marks.add(mark)
    plain = Marks.of(kept)
    assert marks.labels() == plain.labels()
    assert {kind: sorted(marks.of_kind(kind)) for kind in ("skip", "flag")} == {
        kind: sorted(plain.of_kind(kind)) for kind in ("skip", "flag")
    }


def test_a_client_takes_back_its_own_marks() -> None:
    marks = Marks.of([Mark("label", 0, "a", client="x"), Mark("label", 1, "a", client="y")])
    assert (marks.last_of("x"), marks.last_of("y"), marks.last_of("z")) == (0, 1, None)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=2))
def test_kappa_is_that_of_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    firsts, seconds = zip(*pairs, strict=True)
    mine = cohen_kappa(pairs)
    if len({*firsts, *seconds}) == 1:
        assert mine is None
    else:
        assert mine == pytest.approx(cohen_kappa_score(firsts, seconds))


def test_agreement_about_several_labels_is_that_of_all_decisions() -> None:
    answers = answers_of("multilabel", ["a", "b"])
    given = [("a", "a|b"), ("", ""), ("b", "b"), ("a|b", "b")]
    marks = Marks.of(
        Mark("label", text, one, how) for text, two in enumerate(given) for one, how in zip(two, HOW, strict=True)
    )
    found = marks.agreement(answers.decisions)
    assert (found.n, found.agreed) == (4, 2)
    first, second = ([name in label.split("|") for label in side for name in "ab"] for side in zip(*given, strict=True))
    assert found.kappa == pytest.approx(cohen_kappa_score(first, second))


def test_only_blind_second_judgements_count_as_agreement() -> None:
    marks = Marks.of(
        [
            Mark("label", 0, "a"),
            Mark("label", 0, "b"),  # changed on purpose
            Mark("label", 1, "a"),
            Mark("label", 1, "a", "again"),
            Mark("label", 2, "b"),
            Mark("label", 2, "a", "again"),
        ]
    )
    found = marks.agreement(lambda label: [label])
    assert (found.n, found.agreed) == (2, 1)
    assert marks.judged_twice() == {1: ("a", "a"), 2: ("b", "a")}
