"""The tasks of a label curve, carried out in this process, and the scores that are read from them."""

import csv
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from tiny import TinyRuns

from greffon.comparison.fit import FIT, Fit
from greffon.comparison.label_curve import CurveTask, make_curve, make_tables, score_curve, table_file
from greffon.comparison.results import TrainSize
from greffon.comparison.study import Plan, Study, make_study
from greffon.comparison.task import execute
from greffon.comparison.text_table import TextTable
from greffon.core.recipe import Data
from greffon.data.splits import load_draw
from greffon.runs.run import Run
from greffon.training.finetune import labelled_data

SIZES, DRAWS = (6, 20), 2


@dataclass(frozen=True)
class Curve:
    path: Path
    study: Study
    tasks: list[CurveTask]
    sizes: tuple[TrainSize, ...]
    gold: list[str]

    def scores(self, arm: str, size: int) -> list[float]:
        """The accuracy of each draw, from what the tasks wrote and the test file alone."""
        found = []
        for draw in range(DRAWS):
            file = self.path / "arms" / arm / f"draw-{draw}-size-{size}" / "probabilities.json"
            judged = np.array(json.loads(file.read_text(encoding="utf-8"))["test"]).argmax(axis=1)
            labels = sorted(set(self.gold))
            found.append(float(np.mean([labels[i] == wanted for i, wanted in zip(judged, self.gold, strict=True)])))
        return found


@pytest.fixture(scope="module")
def curve(tiny: TinyRuns, tmp_path_factory: pytest.TempPathFactory) -> Curve:
    path = tmp_path_factory.mktemp("curve")
    with tiny.table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    # Uneven classes, so that the commonest is known; every third text is for the test.
    parts = {"train": [row for i, row in enumerate(rows) if i % 3 and (row["label"] == "poil" or i % 4 == 1)]}
    parts["test"] = rows[::3]
    for name, some in parts.items():
        with (path / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ["text", "label"])
            writer.writeheader()
            writer.writerows(some)
    data = labelled_data(path / "train.csv", None, path / "test.csv", "text", "label")
    study = make_study([tiny.causal], data, Plan(seeds=DRAWS, epochs=1, train_sizes=SIZES), lambda told: None)
    make_tables(path, study, lambda told: None)
    tasks = list(make_curve(path, study))
    for each in tasks:
        execute(each.task.path, threads=1)
    return Curve(path, study, tasks, score_curve(study, tasks), [row["label"] for row in parts["test"]])


def data_of(task: CurveTask) -> Data:
    """What a task reads, as it stands in its directory."""
    return Fit.read(task.task.path).data if (task.task.path / FIT).is_file() else Run.open(task.task.path).recipe.data


def lines(data: Data) -> set[int]:
    return {example.line for example in load_draw(data)}


def test_each_arm_has_a_task_for_each_size_and_draw(curve: Curve) -> None:
    found = [(each.arm, each.size, each.draw) for each in curve.tasks]
    arms = ("tfidf", "frozen", "scratch", "pretrained")
    assert sorted(found) == sorted((arm, size, draw) for arm in arms for size in SIZES for draw in range(DRAWS))


def test_draws_are_shared_by_all_arms_nested_and_different(curve: Curve) -> None:
    drawn: dict[tuple[int, int], set[frozenset[int]]] = {}
    for each in curve.tasks:
        data = data_of(each)
        assert not data.valid, "all choices are made with the drawn labels"
        drawn.setdefault((each.size, each.draw), set()).add(frozenset(lines(data)))
    only = {key: next(iter(some)) for key, some in drawn.items() if len(some) == 1}
    assert only.keys() == drawn.keys(), "every arm has the same labels"
    assert all(len(only[size, draw]) == size for size, draw in only)
    assert all(only[SIZES[0], draw] < only[SIZES[1], draw] for draw in range(DRAWS))
    assert only[SIZES[1], 0] != only[SIZES[1], 1]


def test_scores_are_those_of_the_answers(curve: Curve) -> None:
    assert [entry.size for entry in curve.sizes] == list(SIZES)
    for entry in curve.sizes:
        for arm in ("tfidf", "frozen", "scratch", "pretrained"):
            assert entry.arms[arm].by_draw == pytest.approx(curve.scores(arm, entry.size))
            assert entry.arms[arm].mean == pytest.approx(np.mean(curve.scores(arm, entry.size)))
            assert entry.arms[arm].interval[0] <= entry.arms[arm].mean <= entry.arms[arm].interval[1]
        assert len(entry.arms["ensemble"].weights) == DRAWS
        assert entry.difference("ensemble", "pretrained") is not None


def test_the_majority_is_that_of_the_drawn_labels(curve: Curve) -> None:
    for entry in curve.sizes:
        wanted = []
        for draw in range(DRAWS):
            counts = Counter(example.label for example in load_draw(curve.study.drawn(entry.size, draw)))
            ((label, most), (_, less)) = counts.most_common()
            assert most > less
            wanted.append(curve.gold.count(label) / len(curve.gold))
        assert entry.arms["majority"].by_draw == pytest.approx(wanted)


def test_tasks_are_made_once(curve: Curve) -> None:
    def files() -> Sequence[tuple[Path, int]]:
        return sorted((file, file.stat().st_mtime_ns) for file in curve.path.rglob("*") if file.is_file())

    before = files()
    make_tables(curve.path, curve.study, lambda told: pytest.fail(told))
    again = list(make_curve(curve.path, curve.study))
    assert again == curve.tasks
    assert all(each.task.finished for each in again)
    assert files() == before


def test_more_labels_make_the_table_of_tfidf_anew(curve: Curve, tmp_path: Path) -> None:
    told: list[str] = []
    few = replace(curve.study, plan=replace(curve.study.plan, train_sizes=(2,)))
    make_tables(tmp_path, few, told.append)
    texts = [example.text for example in load_draw(curve.study.drawn(20, 0))]
    assert not TextTable.read(table_file(tmp_path, "tfidf")).covers(texts)
    make_tables(tmp_path, curve.study, told.append)
    assert TextTable.read(table_file(tmp_path, "tfidf")).covers(texts)
    assert told == ["reading all texts with the body of pretrained"], "vectors of all texts are there from the first"
