"""The files of each task: how they are recognized, read, divided and checked."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from greffon.core.errors import UserError
from greffon.core.recipe import Data
from greffon.data.corpora import Labelled
from greffon.data.splits import load_splits
from greffon.data.tasks import FORMS, guess_task, read_examples, with_task
from greffon.data.tasks.multilabel import split_labels
from greffon.data.tasks.tokens import Span, spans_of, spans_of_tags, tags_of_spans, words_of

FILES = {
    "classes": ("a.csv", "text,label\none,x\n"),
    "multilabel": ("a.csv", "text,labels\none,x|y\n"),
    "regression": ("a.tsv", "text\tscore\none\t3.5\n"),
    "pairs": ("a.csv", "text_a,text_b,label\none,two,same\n"),
    "tokens": ("a.conll", "Anna B-PER\nran O\n"),
}


def write(folder: Path, name: str, content: str) -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def read(task: str, path: Path, **given: object) -> list[Labelled]:
    return read_examples(path, Data(task=task, **given))


@pytest.mark.parametrize("task", FILES)
def test_a_file_shows_its_task(task: str, tmp_path: Path) -> None:
    found, sign = guess_task(write(tmp_path, *FILES[task]), Data())
    assert found == task
    assert sign


@pytest.mark.parametrize(
    ("name", "content", "task"),
    [
        ("a.csv", "text,food,price\none,0,1\n", "multilabel"),
        ("a.csv", "text,food,price\none,0,cheap\n", "classes"),
        ("a.csv", "text,label,score\none,good,3\n", "classes"),
        ("a.jsonl", '{"text": "Anna ran", "spans": [[0, 4, "PER"]]}\n', "tokens"),
        ("a.csv", "text_a,text_b,score\none,two,1\n", "pairs"),
        ("a.txt", "one\n", "classes"),
        ("a.csv", "", "classes"),
    ],
)
def test_other_forms_are_recognized(name: str, content: str, task: str, tmp_path: Path) -> None:
    assert guess_task(write(tmp_path, name, content), Data())[0] == task


@pytest.mark.parametrize("task", ["regression", "multilabel", "tokens"])
def test_a_column_called_label_is_read_where_the_usual_one_is_absent_or_it_is_named(task: str, tmp_path: Path) -> None:
    usual, cell = {"regression": ("score", 3), "multilabel": ("labels", "a|b"), "tokens": ("spans", [[0, 3, "A"]])}[
        task
    ]
    other = {"regression": 5, "multilabel": "c", "tokens": []}[task]
    row = {"text": "one", "label": cell}
    alone = write(tmp_path, "a.jsonl", json.dumps(row) + "\n")
    both = write(tmp_path, "b.jsonl", json.dumps({**row, usual: other}) + "\n")
    named = write(tmp_path, "c.jsonl", json.dumps({"text": "one", usual: cell, "label": other}) + "\n")
    (wanted,) = read(task, named)
    assert read(task, alone) == read(task, both, label_column="label") == [wanted]
    assert read(task, both) != [wanted]


def test_a_named_column_shows_its_task(tmp_path: Path) -> None:
    file = write(tmp_path, "a.jsonl", '{"text": "one", "label": "x", "labels": ["a"], "score": 3, "spans": []}\n')
    shown = {"label": "classes", "labels": "multilabel", "score": "regression", "spans": "tokens"}
    assert {name: guess_task(file, Data(label_column=name))[0] for name in shown} == shown
    assert guess_task(write(tmp_path, "b.csv", "text,label,other\none,1,0\n"), Data())[0] == "classes"


def test_a_regression_of_pairs_reads_their_labels_as_scores(tmp_path: Path) -> None:
    file = write(tmp_path, "a.csv", "text_a,text_b,label\none,two,3.5\nthree,four,1\n")
    plain, scored = (with_task(file, Data(), task) for task in (None, "regression"))
    assert (plain.task, scored.task) == ("pairs", "pairs")
    assert [pair.score for pair in read_examples(file, plain)] == [None, None]
    assert [pair.score for pair in read_examples(file, scored)] == [3.5, 1.0]
    (told,) = (f for f in FORMS["pairs"].lint({"train": read_examples(file, plain)}) if f.code == "number-labels")
    assert "the task regression reads them as scores" in told.message
    few = [Labelled("a", str(i % 2), i, "b") for i in range(9)]
    assert "number-labels" not in {finding.code for finding in FORMS["pairs"].lint({"train": few})}
    single = write(tmp_path, "b.csv", "text,text_a,text_b,label\nx,one,two,3.5\n")
    assert with_task(single, Data(), "regression").task == "regression"


def test_labels_in_one_column_in_several_or_in_a_list_are_the_same(tmp_path: Path) -> None:
    joined = read("multilabel", write(tmp_path, "a.csv", "text,labels\none,b | a\ntwo,\n"))
    others = read("multilabel", write(tmp_path, "b.csv", "text,labels\none,a;b\ntwo,\n"), label_separator=";")
    bits = read("multilabel", write(tmp_path, "c.csv", "text,a,b\none,1,1\ntwo,0,0\n"))
    listed = '{"text": "one", "labels": ["b", "a"]}\n{"text": "two", "labels": []}\n'
    assert joined == others == bits
    assert [e.label for e in read("multilabel", write(tmp_path, "d.jsonl", listed))] == ["a|b", ""]
    assert [split_labels(e.label) for e in joined] == [["a", "b"], []]
    assert FORMS["multilabel"].labels(joined) == ("a", "b")


@pytest.mark.parametrize(
    ("task", "name", "content", "message"),
    [
        ("regression", "a.csv", "text,score\none,3\ntwo,many\n", r"a\.csv:3: the score \(column 'score'\) is 'many'"),
        ("regression", "a.csv", "text,score\none,\n", r"a\.csv:2: the score .* is empty; write a number"),
        ("regression", "a.csv", "text,score\none,nan\n", r"a\.csv:2: the score"),
        ("multilabel", "a.csv", "text,a,b\none,1,0\ntwo,2,0\n", r"a\.csv:3: the column 'a' holds '2', neither 0 nor 1"),
        ("multilabel", "a.jsonl", '{"text": "x", "labels": ["a|b"]}\n', r"a\.jsonl:1: the label 'a|b' holds a '|'"),
        ("multilabel", "a.csv", "text,lables\none,a\n", "no column 'labels' .* did you mean 'lables'"),
        ("pairs", "a.csv", "text_a,label\none,a\n", "no column 'text_b' .*pair_columns"),
        ("tokens", "a.conll", "Anna B-PER\nran X-PER\n", r"a\.conll:2: the tag 'X-PER' is not IOB"),
        ("tokens", "a.conll", "Anna PER\n", r"a\.conll:1: the tag 'PER' is not IOB"),
        ("tokens", "a.conll", "Anna B-PER\nran\n", r"a\.conll:2: 'ran' is a word without a tag"),
        ("tokens", "a.jsonl", '{"text": "x", "spans": [[0, 2, "A"]]}\n', "does not lie in the text of 1 characters"),
        ("tokens", "a.jsonl", '{"text": "xyz", "spans": [[0, 2, "A"], [1, 3, "B"]]}\n', "overlap"),
        ("tokens", "a.jsonl", '{"text": "xyz", "spans": [[0, "A"]]}\n', r"must be \[\[start, end, label\]"),
        ("tokens", "a.conll", "", "there is no example in this file"),
    ],
)
def test_what_is_broken_is_named_with_its_line(
    task: str, name: str, content: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=message):
        read(task, write(tmp_path, name, content))


def test_a_conll_file_becomes_text_with_spans(tmp_path: Path) -> None:
    content = "-DOCSTART- -X- O\n\nAnna NNP I-PER\nSmith NNP I-PER\nleft VBD O\n\nParis NNP B-LOC\n"
    first, second = read("tokens", write(tmp_path, "a.conll", content))
    assert (first.text, first.line, spans_of(first.label)) == ("Anna Smith left", 3, [Span(0, 10, "PER")])
    assert (second.text, spans_of(second.label)) == ("Paris", [Span(0, 5, "LOC")])
    assert FORMS["tokens"].labels([first, second]) == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    (untagged,) = FORMS["tokens"].inputs(write(tmp_path, "b.conll", "Anna\nleft\n"), Data(task="tokens"))
    assert untagged.text == "Anna left"


@given(st.lists(st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B", "E-A", "S-B"]), max_size=9))
def test_tags_are_read_as_seqeval_reads_them(tags: list[str]) -> None:
    ours = [(span.label, span.start, span.end) for span in spans_of_tags([(i, i) for i in range(len(tags))], tags)]
    assert ours == get_entities(list(tags))


@given(st.text(alphabet="ab1é'-,. \ńि", max_size=30), st.data())
def test_spans_of_whole_words_survive_their_tags(text: str, data: st.DataObject) -> None:
    words = words_of(text)
    assert all(text[begin:end].strip() == text[begin:end] for begin, end in words)
    assert "".join(text.split()) == "".join(text[begin:end] for begin, end in words)
    labels = data.draw(st.lists(st.sampled_from(["", "A", "B"]), min_size=len(words), max_size=len(words)))
    spans = [Span(begin, end, label) for (begin, end), label in zip(words, labels, strict=True) if label]
    assert spans_of_tags(words, tags_of_spans(words, spans)) == spans


def test_pairs_have_classes_or_scores(tmp_path: Path) -> None:
    (pair,) = read("pairs", write(tmp_path, *FILES["pairs"]))
    assert (pair.text, pair.second, pair.label, pair.score) == ("one", "two", "same", None)
    (scored,) = read("pairs", write(tmp_path, "b.csv", "text_a,text_b,score\none,two,3\n"))
    assert (scored.score, FORMS["pairs"].labels([scored])) == (3.0, ())
    (named,) = read("pairs", write(tmp_path, "c.csv", "q,a,label\none,two,3.5\n"), pair_columns=("q", "a"))
    assert (named.score, FORMS["pairs"].labels([named])) == (None, ("3.5",))
    codes = {finding.code for finding in FORMS["pairs"].lint({"train": [scored], "valid": [pair]})}
    assert "two-kinds" in codes


def test_a_pair_with_one_side_empty_is_told(tmp_path: Path) -> None:
    pairs = read("pairs", write(tmp_path, "a.csv", "text_a,text_b,label\none,two,x\nthree,,y\n,,x\n"))
    (finding,) = (f for f in FORMS["pairs"].lint({"train": pairs}) if f.code == "one-side-empty")
    assert finding.message == "1 of the 3 pairs in train is empty on one side (a.csv line 3)."


@pytest.mark.parametrize(
    ("task", "content", "code"),
    [
        ("multilabel", "text,labels\none,\ntwo,\n", "no-labels"),
        ("multilabel", "text,labels\none,a\ntwo,a\n", "one-set"),
        ("multilabel", "text,labels\none,a\none,b\n", "conflicting-labels"),
        ("regression", "text,score\none,2\ntwo,2.0\n", "one-score"),
        ("regression", "text,score\none,2\none,3\n", "conflicting-labels"),
        ("pairs", "text_a,text_b,label\none,two,x\nthree,four,x\n", "one-class"),
    ],
)
def test_problems_of_each_task_are_found(task: str, content: str, code: str, tmp_path: Path) -> None:
    examples = read(task, write(tmp_path, "a.csv", content))
    assert code in {finding.code for finding in FORMS[task].lint({"train": examples})}


def test_labels_that_train_lacks_and_spans_inside_words_are_found() -> None:
    def marked(*spans: Span) -> Labelled:
        return Labelled("Anna left Paris", str([list(span) for span in spans]).replace("'", '"'), 2)

    train = [marked(Span(0, 4, "PER"))]
    findings = FORMS["tokens"].lint({"train": train, "valid": [marked(Span(10, 15, "LOC"))]})
    assert [f.code for f in findings if f.severity == "error"] == ["unseen-label"]
    assert "inside-word" in {f.code for f in FORMS["tokens"].lint({"train": [marked(Span(0, 3, "PER"))]})}
    unseen = FORMS["multilabel"].lint({"train": [Labelled("a", "x|y", 2)], "valid": [Labelled("b", "x|z", 7)]})
    assert any(f.code == "unseen-label" and "line 7" in f.message for f in unseen)


def test_the_fifth_that_is_held_out_has_its_share_of_rare_labels_and_of_high_scores(tmp_path: Path) -> None:
    rows = [f"text {i},{'common|rare' if i % 10 == 0 else 'common'}" for i in range(100)]
    path = write(tmp_path, "a.csv", "text,labels\n" + "\n".join(rows) + "\n")
    splits = load_splits(Data(train=(str(path),), task="multilabel"))
    assert sum("rare" in example.label for example in splits.valid) == 2
    assert splits.labels == ("common", "rare")
    path = write(tmp_path, "b.csv", "text,score\n" + "".join(f"text {i},{i}\n" for i in range(100)))
    held = [example.score for example in load_splits(Data(train=(str(path),), task="regression")).valid]
    assert [sum(low <= score < low + 20 for score in held) for low in range(0, 100, 20)] == [4] * 5
