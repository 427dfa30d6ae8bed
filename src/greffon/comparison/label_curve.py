"""The label curve: every arm with few labels, then more, over stratified draws that all arms share.

    OUT/
      arms/ARM/draw-K-size-N/   one task: a training, or the fit of a classical arm
      features/NAME.npz         features of the texts: by each frozen body, and TF-IDF

All choices of a task are made on its own labels. A smaller draw is part of a larger one with the same number.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from greffon.comparison.arms import chosen_epoch, make_run
from greffon.comparison.assemble import correctness
from greffon.comparison.curve_scores import Drawn, score_size
from greffon.comparison.ensemble import fit_ensemble
from greffon.comparison.fit import FIT, Fit, Fitted
from greffon.comparison.names import MAJORITY, TFIDF, ensemble_name, frozen_name
from greffon.comparison.results import TrainSize
from greffon.comparison.study import Study
from greffon.comparison.task import Task
from greffon.comparison.text_table import TextTable, write_table, write_vectors
from greffon.comparison.tfidf import tfidf_features
from greffon.core.rng import generator
from greffon.data.splits import load_draw, load_pool
from greffon.inference.metrics import Correct
from greffon.runs.run import Run

KNOWN_TEXTS = 5000
"""Training texts at most, labelled or not, from which TF-IDF takes its vocabulary and document frequencies."""


@dataclass(frozen=True)
class CurveTask:
    """The training or fit of one arm on one draw."""

    arm: str
    size: int
    draw: int
    task: Task


def make_tables(path: Path, study: Study, tell: Callable[[str], None]) -> None:
    """Compute what all draws share: vectors of all texts by each body, and TF-IDF of those that are drawn."""
    splits = study.splits
    for name, source in study.sources.items():
        if not table_file(path, name).is_file():
            tell(f"reading all texts with the body of {name}")
            texts = [example.text for part in (splits.train, splits.valid, splits.test) for example in part]
            write_vectors(table_file(path, name), source, texts, study.recipes[name])
    if study.plan.train_sizes:
        _write_tfidf(path, study)


def _write_tfidf(path: Path, study: Study) -> None:
    """Compute TF-IDF of the drawn texts and the test texts; with other sizes or draws it is computed anew."""
    pool = [example.text for example in load_pool(study.data)[0]]
    largest = study.plan.train_sizes[-1]
    drawn = {each.text for k in range(study.plan.seeds) for each in load_draw(study.drawn(largest, k))}
    wanted = sorted(drawn | {example.text for example in study.splits.test})
    file = table_file(path, TFIDF)
    if file.is_file() and TextTable.read(file).covers(wanted):
        return
    known = sorted(set(pool))
    if len(known) > KNOWN_TEXTS:
        known = [known[i] for i in sorted(generator(0, "tfidf").permutation(len(known))[:KNOWN_TEXTS])]
    write_table(file, wanted, tfidf_features(known, wanted))


def table_file(path: Path, name: str) -> Path:
    """Name the file with the features of the texts by an arm, in the directory of a comparison."""
    return (path / "features" / f"{name}.npz").resolve()


def make_curve(path: Path, study: Study) -> Iterator[CurveTask]:
    """Create the tasks of the curve in the directory of a comparison; those that exist already are kept."""
    for size in study.plan.train_sizes:
        for number in range(study.plan.seeds):
            yield from _tasks(path, study, size, number)


def _tasks(path: Path, study: Study, size: int, number: int) -> Iterator[CurveTask]:
    """Create the tasks of one draw."""
    data, labels = study.drawn(size, number), study.splits.labels

    def task(arm: str) -> CurveTask:
        folder = path / "arms" / arm / f"draw-{number}-size-{size}"
        return CurveTask(arm, size, number, Task(folder, f"{arm}, {size:,} labels, draw {number}"))

    fits = {TFIDF: Fit("tfidf", data, labels, str(table_file(path, TFIDF)))}
    for name, source in study.sources.items():
        epsilon = source.recipe.shape.norm_epsilon
        fits[frozen_name(name)] = Fit("frozen", data, labels, str(table_file(path, name)), epsilon)
    for name, fit in fits.items():
        made = task(name)
        if not (made.task.path / FIT).is_file():
            fit.write(made.task.path)
        yield made
    for name, source in study.bodies.items():
        made = task(name)
        make_run(study, name, source, data, number, made.task.path)
        yield made


def score_curve(study: Study, tasks: Sequence[CurveTask]) -> tuple[TrainSize, ...]:
    """Read what the finished tasks gave, add the ensembles and the majority, and score every arm and size."""
    gold = [example.label for example in study.splits.test]
    pairs = [*study.scratch.items(), *((ensemble_name(name), name) for name in study.sources)]
    pairs += [(name, frozen_name(name)) for name in study.sources]
    sizes = []
    for size in study.plan.train_sizes:
        found = {(each.arm, each.draw): each.task for each in tasks if each.size == size}
        arms = {name: _trained(study, name, found, gold) for name in study.bodies}
        for name in (*map(frozen_name, study.sources), TFIDF):
            arms[name] = _fitted(study, name, found, gold)
        for name in study.sources:
            arms[ensemble_name(name)] = _together(study, name, size, found, gold)
        arms[MAJORITY] = _majority(study, size, gold)
        sizes.append(score_size(size, arms, pairs))
    return tuple(sizes)


Found = Mapping[tuple[str, int], Task]
"""The task of each arm and draw, of one size."""


def _trained(study: Study, name: str, found: Found, gold: Sequence[str]) -> Drawn:
    tasks = [found[name, number] for number in range(study.plan.seeds)]
    runs = [Run.open(task.path) for task in tasks]
    epochs = tuple(chosen_epoch(run) for run in runs)
    return Drawn(_correct(study, tasks, gold), chosen_epoch=epochs)


def _fitted(study: Study, name: str, found: Found, gold: Sequence[str]) -> Drawn:
    tasks = [found[name, number] for number in range(study.plan.seeds)]
    strength = tuple(Fitted.read(task.path).strength for task in tasks)
    return Drawn(_correct(study, tasks, gold), strength=strength)


def _correct(study: Study, tasks: Sequence[Task], gold: Sequence[str]) -> Correct:
    labels = study.splits.labels
    answers = [np.asarray(task.probabilities["test"]).argmax(axis=1) for task in tasks]
    return correctness([[labels[i] for i in row] for row in answers], gold)


def _together(study: Study, name: str, size: int, found: Found, gold: Sequence[str]) -> Drawn:
    """Stack a body and TF-IDF on probabilities of the labelled texts by fits that have not seen them."""
    made = []
    for number in range(study.plan.seeds):
        train = load_draw(study.drawn(size, number))
        body, words = (found[arm, number].probabilities for arm in (name, TFIDF))
        # A head that stayed as it starts is the probe, and all texts have been judged by one without them.
        run = Run.open(found[name, number].path)
        probe = run.recipe.graft is not None and run.recipe.graft.head_init == "probe" and not study.plan.adapt
        if probe and (chosen_epoch(run) == 0 or not any(body["held_out"])):
            body = found[frozen_name(name), number].probabilities
        known = [i for i, rows in enumerate(zip(body["held_out"], words["held_out"], strict=True)) if all(rows)]
        held = tuple([part["held_out"][i] for i in known] for part in (body, words))
        made.append(
            fit_ensemble(
                study.splits.labels,
                (held[0], held[1]),
                [train[i].label for i in known],
                (body["test"], words["test"]),
            )
        )
    correct = correctness([each.predictions for each in made], gold)
    return Drawn(correct, weights=tuple(each.weights for each in made))


def _majority(study: Study, size: int, gold: Sequence[str]) -> Drawn:
    answers = []
    for number in range(study.plan.seeds):
        counts = Counter(example.label for example in load_draw(study.drawn(size, number)))
        answers.append([max(sorted(counts), key=counts.__getitem__)] * len(gold))
    return Drawn(correctness(answers, gold))
