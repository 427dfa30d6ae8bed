"""A session on the disk: begun, killed, gone on with, exported, fine-tuned; from Python as from the page."""

import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tiny import TinyRuns

import greffon
from greffon.core.errors import UserError
from greffon.data.corpora import labelled
from greffon.labelling.log import Log
from greffon.labelling.strategy import Choosing

ANIMALS = {"chat": "poil", "chien": "poil", "vache": "autre", "oiseau": "autre"}


def true_label(text: str) -> str:
    return next(label for animal, label in ANIMALS.items() if animal in text)


@pytest.fixture(scope="module")
def heap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("heap") / "heap.txt"
    verbs = ("mange", "dort", "court", "chante", "regarde")
    lines = [f"le {animal} {verb} {i}" for i in range(6) for animal in ANIMALS for verb in verbs]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def begin(tiny: TinyRuns, heap: Path, tmp_path: Path) -> Callable[..., greffon.Session]:
    def begun(**given: object) -> greffon.Session:
        settings = {"body": tiny.causal, "labels": "poil,autre", "quiet": True, "out": tmp_path / "session", **given}
        return greffon.label(heap, **settings)

    return begun


def label_some(session: greffon.Session, n: int) -> None:
    for _ in range(n):
        (text,) = session.next_texts(1)
        session.add(text, true_label(text))


def test_from_texts_to_a_classifier(begin: Callable[..., greffon.Session], tmp_path: Path) -> None:
    with begin(aim=0.95) as session:
        label_some(session, 60)
        progress = session.progress()
        assert (progress.labels, progress.aside) == (54, 6)
        assert sum(progress.by_label.values()) == 60
        assert progress.score.labels == progress.tfidf.labels == 54
        assert [point.labels for point in progress.curve] == [10, 14, 20, 28, 40, 54]
        assert progress.curve[-1] == progress.score
        assert progress.score.n == 6
        session.export()
        train = labelled(session.path / "labels.csv")
        aside = labelled(session.path / "aside.csv")
    assert {len(train), len(aside)} == {54, 6}
    assert not {one.text for one in train} & {one.text for one in aside}
    assert all(one.label == true_label(one.text) for one in [*train, *aside])
    run = greffon.finetune(
        session.settings.body, train=session.path / "labels.csv", out=tmp_path / "run", epochs=1, quiet=True
    )
    assert greffon.evaluate(run, session.path / "aside.csv").n == 6


def test_the_score_is_that_of_a_probe_on_the_labels_of_training_alone(begin: Callable[..., greffon.Session]) -> None:
    """By hand: scikit-learn on the frozen vectors, centred and of one length."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    with begin() as session:
        label_some(session, 60)
        score = session.progress().score
    vectors = np.load(session.path / "vectors.npy").astype(np.float64)
    texts = session.desk.heap.texts
    train, aside = (labelled(session.path / f"{name}.csv") for name in ("labels", "aside"))
    rows = StandardScaler().fit_transform((vectors - vectors.mean(axis=0)).T).T / np.sqrt(vectors.shape[1])
    parts = [rows[[texts.index(one.text) for one in part]] for part in (train, aside)]
    model = LogisticRegression(C=3.0, max_iter=1000).fit(parts[0], [one.label for one in train])
    assert score.value == pytest.approx(np.mean(model.predict(parts[1]) == [one.label for one in aside]))


def test_what_was_labelled_is_there_after_kill_9(begin: Callable[..., greffon.Session], heap: Path) -> None:
    session = begin()
    path = session.path
    session.close()
    code = (
        "import sys, greffon; session = greffon.label(out=sys.argv[1])\n"
        "while True:\n"
        "    text, = session.next_texts(); session.add(text, 'poil' if 'ch' in text.split()[1] else 'autre')\n"
        "    print(text, flush=True)"
    )
    told: list[str] = []
    for turn in range(2):
        with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) as process:
            for _ in range(9 + turn):
                told.append(process.stdout.readline().strip())
            os.kill(process.pid, signal.SIGKILL)
            told += [line.strip() for line in process.stdout]
    with greffon.label(out=path) as session:
        found = session.labels()
        # A label may be on the disk although the kill came before it was told.
        assert [text for text in told if text not in found] == []
        assert len(found) <= len(told) + 2
        assert len(told) == len(set(told)) >= 19  # no text was asked twice
        texts = session.next_texts(3)
    assert not set(texts) & found.keys()
    with (path / "labels.csv").open(encoding="utf-8") as file:
        assert all(found[row["text"]] == row["label"] for row in csv.DictReader(file))


def test_another_process_is_refused_and_the_same_one_takes_over(begin: Callable[..., greffon.Session]) -> None:
    session = begin()
    code = "import sys, greffon; greffon.label(out=sys.argv[1])"
    command = [sys.executable, "-c", code, str(session.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"is in use by process {os.getpid()}" in done.stderr
    assert "is in use" in done.stderr.splitlines()[-1]
    again = greffon.label(out=session.path)
    with pytest.raises(UserError, match="is closed"):
        session.next_texts()
    again.close()
    again.close()


def test_many_threads_at_once(begin: Callable[..., greffon.Session]) -> None:
    with begin() as session:

        def work(client: str) -> None:
            for number in range(8):
                with session.lock:
                    question = session.desk.next(client)
                key = f"{client} {number}"
                for _ in range(2):  # a client that has not heard the answer asks again
                    session.mark("label", question.index, label="poil", source=question.source, client=client, key=key)

        threads = [threading.Thread(target=work, args=(f"tab {number}",)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(session.labels()) == 48
    log = Log(session.path / "log.jsonl")
    assert len(log.marks) == 48
    assert len({mark.text for mark in log.marks}) == 48


def test_undo_skip_flag_and_authors(begin: Callable[..., greffon.Session]) -> None:
    with begin(author="Zoé") as session:
        first, second, third = session.next_texts(3)
        session.add(first, "poil")
        session.skip(second)
        session.flag(third)
        assert session.labels() == {first: "poil"}
        progress = session.progress()
        assert (progress.skipped, progress.flagged) == (1, 1)
        assert session.undo().text == third
        assert session.progress().flagged == 0
        assert session.next_texts(9).count(third) == 1
        assert {mark.author for mark in session.desk.marks.all} == {"Zoé"}
        assert all(mark.time.startswith("20") for mark in session.desk.marks.all)
        session.undo()
        session.undo()
        assert session.undo() is None
        assert session.labels() == {}


def test_labels_to_look_at_again(begin: Callable[..., greffon.Session]) -> None:
    with begin() as session:
        label_some(session, 50)
        wrong = next(iter(session.desk.training()))
        text = session.desk.heap.texts[wrong]
        session.add(text, "autre" if true_label(text) == "poil" else "poil")
        doubts = session.progress().doubts
        assert [doubt.probability for doubt in doubts] == sorted(doubt.probability for doubt in doubts)
        assert all(doubt.suggested != doubt.label for doubt in doubts)


def test_going_on_checks_what_is_asked(begin: Callable[..., greffon.Session], heap: Path, tmp_path: Path) -> None:
    with begin() as session:
        label_some(session, 3)
    with greffon.label(out=session.path, labels="poil,autre,rien", strategy="random", quiet=True) as more:
        assert more.desk.answers.labels == ("poil", "autre", "rien")
        assert len(more.labels()) == 3
    with pytest.raises(UserError, match="leaves out 'rien'"):
        greffon.label(out=session.path, labels="poil,autre")
    other = tmp_path / "other.txt"
    other.write_text("un\ndeux\ntrois\nquatre\ncinq\n")
    with pytest.raises(UserError, match=r"other settings \(sources\)"):
        greffon.label(other, body=session.settings.body, labels="poil,autre,rien", out=session.path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"labels": "one"}, "there is one label, 'one'"),
        ({"labels": "a,,b"}, "a label is ''"),
        ({"labels": "a,a"}, "the label 'a' is there twice"),
        ({"labels": ""}, "labels is missing"),
        ({"body": None}, "body is missing"),
        ({"aim": 90.0}, "aim is 90.0"),
        ({"aside_share": 0.9}, "aside_share is 0.9"),
    ],
)
def test_mistakes_are_told_before_anything_is_written(
    begin: Callable[..., greffon.Session], tmp_path: Path, given: dict, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        begin(**given)
    assert not (tmp_path / "session").exists()


def test_mistakes_while_labelling(begin: Callable[..., greffon.Session]) -> None:
    with begin() as session:
        (text,) = session.next_texts()
        with pytest.raises(UserError, match="unknown label 'poils'; did you mean 'poil'"):
            session.add(text, "poils")
        with pytest.raises(UserError, match="is not among the texts"):
            session.add("un texte inconnu", "poil")
        with pytest.raises(UserError, match="the author"):
            session.add(text, "poil", author="a\nb")
        assert session.labels() == {}
    with pytest.raises(UserError, match="there is no session to go on with"):
        greffon.label(out=session.path / "none")


def test_a_kill_while_a_session_begins_leaves_one_that_goes_on(
    begin: Callable[..., greffon.Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    from greffon.labelling import storage

    with monkeypatch.context() as patch:
        patch.setattr(storage, "cluster", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            begin()
    with begin() as session:
        label_some(session, 2)
        assert len(session.labels()) == 2


def test_the_fit_keeps_up_in_the_background(begin: Callable[..., greffon.Session]) -> None:
    with begin() as session:
        label_some(session, 40)
        session.progress()
        assert session.desk.fit.labels == 36
        assert session._worker.seconds < 2
        deadline = time.monotonic() + 30
        label_some(session, 1)
        while session.desk.fit.labels == 36 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert session.desk.fit.labels == 37


def test_settings_that_are_given_when_going_on(
    begin: Callable[..., greffon.Session], heap: Path, tmp_path: Path
) -> None:
    begin(aside_share=0.3, seed=4, strategy="uncertainty", aim=0.8).close()
    out, body = tmp_path / "session", tmp_path / "session" / "session.json"
    with greffon.label(out=out, strategy="random", random_share=0.2, quiet=True) as session:
        assert session.desk.choosing == Choosing("random", random_share=0.2, aside_share=0.3)
    with begin() as session:  # the same texts, without the options again
        assert session.desk.choosing == Choosing("random", random_share=0.2, aside_share=0.3)
        assert (session.settings.seed, session.settings.aim) == (4, 0.8)
    with greffon.label(out=out, seed=4, aside_share=0.3, text_column="text", aim=0.9, quiet=True) as session:
        assert session.settings.aim == 0.9
    before = body.read_bytes()
    for given, message in (
        ({"seed": 5}, r"other settings \(seed\)"),
        ({"text_column": "review"}, r"other settings \(text_column\)"),
        ({"aside_share": 0.1}, "keeps 0.3 of its texts aside"),
    ):
        with pytest.raises(UserError, match=message):
            greffon.label(out=out, **given)
    assert body.read_bytes() == before


def test_a_column_that_is_not_there_leaves_nothing_behind(tiny: TinyRuns, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("review,id\n" + "".join(f"le chat dort {i},{i}\n" for i in range(30)))
    given = {"body": tiny.causal, "labels": "a,b", "out": tmp_path / "new", "quiet": True}
    with pytest.raises(UserError, match="text"):
        greffon.label(table, **given)
    with greffon.label(table, **given, text_column="review") as session:
        assert session.next_texts()[0].startswith("le chat")


ODD = [
    "a\rb",
    "a\r\nb c",
    "a\nb d",
    "tab\tx",
    'quote " x, y',
    "=1+1",
    "x\u2028y",
    "x\x0by\x0cz",
    "  lead trail  ",
    "e\u0301",
]


def test_odd_texts_come_back_from_the_table(tiny: TinyRuns, tmp_path: Path) -> None:
    heap = tmp_path / "odd.jsonl"
    heap.write_text("".join(json.dumps({"text": text}) + "\n" for text in [*ODD, "null\0byte"]))
    out = tmp_path / "odd"
    with greffon.label(heap, body=tiny.causal, labels=["a", "b"], out=out, aside_share=0, quiet=True) as session:
        for number, text in enumerate(list(session.desk.heap.texts)):
            session.add(text, "ab"[number % 2])
        found = {one.text: one.label for one in labelled(session.export())}
        assert found.keys() == {text.strip() for text in ODD} | {"null\ufffdbyte"} or found == session.labels()
        assert len(found) == 11


def test_equal_texts_with_different_labels_do_not_end_the_background(tiny: TinyRuns, tmp_path: Path) -> None:
    heap = tmp_path / "heap.txt"
    heap.write_text("le chat dort\n" * 2 + "".join(f"le chien {i} dort\n" for i in range(38)))
    with greffon.label(heap, body=tiny.causal, labels="a,b", out=tmp_path / "session", quiet=True) as session:
        for text, label in ((0, "a"), (1, "b")):
            session.mark("label", text, label=label)
        session.mark("label", int(session.desk.aside_order[0]), label="a", source="aside")
        progress = session.progress()
        assert (progress.labels, progress.aside, progress.score) == (2, 1, None)
        assert len(progress.conflicts) == 1


def test_a_problem_of_the_background_is_told_and_passes(
    begin: Callable[..., greffon.Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    from greffon.labelling import worker

    with begin() as session:
        label_some(session, 12)
        session.progress()
        with monkeypatch.context() as patch:
            patch.setattr(worker, "fit", lambda *_: {}["a bug"])
            label_some(session, 1)
            with pytest.raises(KeyError):
                session.progress()
            told = session.progress(wait=False)
            assert "a bug" in told.problem
            assert told.labels + told.aside == 13
        label_some(session, 1)
        progress = session.progress()
        assert (progress.problem, progress.labels + progress.aside) == ("", 14)


def test_whoever_labels_does_not_wait_for_the_tables(
    begin: Callable[..., greffon.Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    from greffon.labelling import tables

    writes, go_on, write = threading.Event(), threading.Event(), tables.write_atomically
    with begin() as session:
        with monkeypatch.context() as patch:
            patch.setattr(tables, "write_atomically", lambda *what: (writes.set(), go_on.wait(30), write(*what)))
            label_some(session, 1)
            assert writes.wait(30)
            label_some(session, 3)
            assert len(session.labels()) == 4
            assert session.tables()["labels.csv"].count(b"\n") + session.tables()["aside.csv"].count(b"\n") == 6
            go_on.set()
            session.progress()
        assert (session.path / "labels.csv").read_bytes() == session.tables()["labels.csv"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"kind":"label","text":999,"label":"poil"}', "there is no text 999"),
        ('{"kind":"undo","text":5}', "there is no mark 5 to take back"),
        ('{"kind":"undo","text":-1}', "there is no mark -1 to take back"),
        ('{"kind":"label","text":1,"label":"zzz"}', "unknown label 'zzz'"),
    ],
)
def test_a_mark_that_cannot_be_is_told_with_its_line(
    begin: Callable[..., greffon.Session], line: str, message: str
) -> None:
    with begin() as session:
        label_some(session, 1)
    with (session.path / "log.jsonl").open("a") as log:
        log.write(line + "\n")
    with pytest.raises(UserError, match=rf"log\.jsonl:2: .*{message}"):
        greffon.label(out=session.path)


def test_tf_idf_knows_the_words_of_the_whole_heap(begin: Callable[..., greffon.Session]) -> None:
    """By hand, with the features that `compare` has; the strength is that of `compare`, too."""
    from sklearn.linear_model import LogisticRegression

    from greffon.comparison.tfidf import STRENGTH, tfidf_features

    with begin(aside_share=0.3) as session:
        label_some(session, 40)
        found = session.progress().tfidf
        texts, parts = session.desk.heap.texts, (session.desk.training(), session.desk.aside())
    train, judge = (tfidf_features(texts, [texts[index] for index in part]) for part in parts)
    model = LogisticRegression(C=STRENGTH, max_iter=1000).fit(train, list(parts[0].values()))
    assert found.value == pytest.approx(np.mean(model.predict(judge) == list(parts[1].values())))


def test_what_is_kept_aside_is_said() -> None:
    assert Choosing(aside_share=0.3).kept_aside.startswith("30 % of the texts are drawn at random")
    assert Choosing(aside_share=0).kept_aside.startswith("No text is kept aside")
