"""A session on the disk: begun, killed, gone on with, exported, fine-tuned; from Python as from the page."""

import csv
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
    assert score.accuracy == pytest.approx(np.mean(model.predict(parts[1]) == [one.label for one in aside]))


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
        assert more.desk.labels == ["poil", "autre", "rien"]
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
