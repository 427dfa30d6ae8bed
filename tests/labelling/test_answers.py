"""Several labels a text: spelling, thresholds, scores and doubts, beside scikit-learn; a session from end to end."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.preprocessing import StandardScaler
from tiny import TinyRuns

import greffon
from greffon.core.errors import UserError
from greffon.core.recipe import Data
from greffon.core.rng import generator
from greffon.data.tasks import guess_task, read_examples
from greffon.inference.probe import STRENGTH
from greffon.labelling.answers import answers_of
from greffon.labelling.clusters import cluster
from greffon.labelling.desk import Desk
from greffon.labelling.fit import judge_of, probe_of
from greffon.labelling.heap import Heap
from greffon.labelling.log import Mark
from greffon.labelling.review import doubts
from greffon.labelling.strategy import Choosing

ANSWERS = answers_of("multilabel", ["food", "price", "rare"])


def heap_of(n: int = 240) -> tuple[Heap, dict[int, str]]:
    """Each of the first directions of the vectors is a label, the third a rare one."""
    vectors = generator(0, "several").normal(size=(n, 8)).astype(np.float32)
    bits = vectors[:, :3] > [0, 0.3, 1.3]
    labels = {text: "|".join(np.array(ANSWERS.labels)[row]) for text, row in enumerate(bits)}
    return Heap([f"text {text}" for text in range(n)], vectors, cluster(vectors, 0)), labels


def test_labels_are_spelled_in_one_way() -> None:
    assert ANSWERS.spelled(["price", "food", "price"]) == ANSWERS.spelled("price|food") == "food|price"
    assert ANSWERS.spelled([]) == ANSWERS.spelled("") == ""
    with pytest.raises(UserError, match="unknown label 'foods'; did you mean 'food'"):
        ANSWERS.spelled(["foods"])
    with pytest.raises(UserError, match="one label in this session, not a list of 2"):
        answers_of("classes", ["a", "b"]).spelled(["a", "b"])


def test_the_probe_is_one_logistic_regression_a_label() -> None:
    heap, labels = heap_of()
    some = {text: labels[text] for text in range(80)}
    rows = StandardScaler().fit_transform((heap.vectors - heap.vectors.mean(axis=0)).astype(float).T).T / np.sqrt(8)
    found = probe_of(heap, some, ANSWERS).probabilities(heap.vectors)
    for place, name in enumerate(ANSWERS.labels):
        own = [name in label.split("|") for label in some.values()]
        model = LogisticRegression(C=STRENGTH, max_iter=1000).fit(rows[:80], own)
        np.testing.assert_allclose(found[:, place], model.predict_proba(rows)[:, 1], atol=1e-3)


def test_what_is_given_and_its_f1() -> None:
    heap, labels = heap_of()
    judge = judge_of(heap, {text: labels[text] for text in range(160)}, ANSWERS)
    given, gold = judge.given(heap.vectors[160:]), [labels[text] for text in range(160, 240)]
    over, under = ANSWERS.parts(gold, given)
    bits = [[[name in label.split("|") for name in ANSWERS.labels] for label in side] for side in (gold, given)]
    f1 = f1_score(*bits, average="micro")
    assert over.sum() / under.sum() == pytest.approx(f1)
    assert f1 > 0.75
    assert any("rare" in label for label in given)  # by its threshold: its probability hardly reaches a half


def test_a_label_that_few_or_no_texts_have_is_no_problem() -> None:
    heap, labels = heap_of()
    some = {text: labels[text].replace("|rare", "") for text in range(40) if labels[text] != "rare"}
    assert not any("rare" in label for label in judge_of(heap, some, ANSWERS).given(heap.vectors))
    some[0] = "rare"
    assert np.isfinite(judge_of(heap, some, ANSWERS).probe.probabilities(heap.vectors)).all()
    assert judge_of(heap, dict.fromkeys(range(40), "food"), ANSWERS) is None


def test_a_label_that_was_forgotten_is_doubted() -> None:
    heap, labels = heap_of()
    clear = max((text for text in range(200) if labels[text] == "food|price"), key=lambda text: heap.vectors[text, 1])
    found = doubts(heap, {text: labels[text] for text in range(200)} | {clear: "food"}, ANSWERS)
    doubt = found[0]
    assert doubt.index == clear
    assert (doubt.label, doubt.suggested) == ("food", "food|price")
    assert doubt.probability < 0.3


def test_uncertain_is_who_hesitates_about_one_label() -> None:
    heap, labels = heap_of()
    desk = Desk(heap, ANSWERS, Choosing("uncertainty", random_share=0, aside_share=0))
    for text in range(100):
        desk.add(Mark("label", text, labels[text]))
    desk.fit = desk.refit()
    apart = np.abs(desk.fit.probe.probabilities(heap.vectors) - 0.5).min(axis=1)
    np.testing.assert_allclose(desk.fit.margins, 2 * apart, atol=1e-6)
    assert apart[desk.next().index] <= np.sort(apart[100:])[7]


def true_labels(text: str) -> list[str]:
    return [name for name, words in (("poil", ("chat", "chien")), ("dort", ("dort",))) if any(w in text for w in words)]


@pytest.fixture(scope="module")
def heap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("heap") / "heap.txt"
    animals, verbs = ("chat", "chien", "vache", "oiseau"), ("mange", "dort", "court")
    path.write_text("".join(f"le {animal} {verb} {i}\n" for i in range(6) for animal in animals for verb in verbs))
    return path


def test_from_texts_to_a_run_of_several_labels(tiny: TinyRuns, heap: Path, tmp_path: Path) -> None:
    given = {"body": tiny.causal, "task": "multilabel", "labels": "poil,dort", "out": tmp_path / "s", "quiet": True}
    with greffon.label(heap, **given, aside_share=0.2, aim=0.9) as session:
        for _ in range(50):
            (text,) = session.next_texts()
            session.add(text, true_labels(text))
        progress, labels = session.progress(), session.labels()
    assert (progress.metric, progress.labels, progress.aside) == ("micro_f1", 40, 10)
    told = [name for label in labels.values() for name in label.split("|")]
    assert progress.by_label == {name: told.count(name) for name in ("poil", "dort")}
    assert progress.score.interval[0] <= progress.score.value <= progress.score.interval[1]
    assert progress.tfidf.value > 0.8
    assert progress.forecast is not None
    table = session.path / "labels.csv"
    assert guess_task(table, Data())[0] == "multilabel"
    labelled = read_examples(table, Data(task="multilabel"))
    assert all(one.label.split("|") == (sorted(true_labels(one.text)) or [""]) for one in labelled)
    run = greffon.finetune(tiny.causal, train=table, out=tmp_path / "run", epochs=1, quiet=True)
    assert run.recipe.task == "multilabel"
    assert greffon.evaluate(run, session.path / "aside.csv").n == 10
    with greffon.label(out=session.path, quiet=True) as again:
        assert len(again.labels()) == 50
    with pytest.raises(UserError, match=r"other settings \(task\)"):
        greffon.label(out=session.path, task="classes")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"task": "multilabel", "labels": ["a|b", "c"]}, "the label 'a|b' holds a"),
        ({"task": "regression"}, "regression is no task to label; choose a task of classes, multilabel"),
    ],
)
def test_mistakes(tiny: TinyRuns, heap: Path, tmp_path: Path, given: dict, message: str) -> None:
    with pytest.raises(UserError, match=message.replace("|", r"\|")):
        greffon.label(heap, **{"body": tiny.causal, "labels": "a,b", "out": tmp_path / "s", **given})
    assert not (tmp_path / "s").exists()


def test_a_study_of_several_labels(tiny: TinyRuns, heap: Path, tmp_path: Path) -> None:
    table = tmp_path / "answers.csv"
    rows = [f"{text},{'|'.join(true_labels(text))}" for text in heap.read_text().splitlines()]
    table.write_text("\n".join(["text,labels", *rows]) + "\n")
    given = {"body": tiny.causal, "simulate": table, "train_sizes": (12, 24), "seeds": 2, "quiet": True}
    found = greffon.label_study(**given, out=tmp_path / "study")
    assert found.metric == "micro_f1"
    assert [point.classes.mean for point in found.arms["mixed"]] == [2, 2]
    assert all(0 < value <= 1 for point in found.arms["mixed"] for value in point.score.by_seed)
