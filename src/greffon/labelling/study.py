"""A study: what would chosen labels have brought, against random ones? The answers come from a labelled file.

OUT/
  results.json   scores and classes seen, for chosen and random labels, at each size and seed (`LabelStudy`)
  curves.png     the same as a figure
  vectors.npy    frozen vectors of the texts, then of the judges
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from greffon.core.console import say
from greffon.core.errors import UserError, setting
from greffon.core.files import write_json
from greffon.core.json_results import JsonResult
from greffon.core.locks import empty_directory, own_directory
from greffon.core.recipe import Data
from greffon.core.rng import generator
from greffon.data.corpora import Labelled
from greffon.data.lint import overlap
from greffon.data.tasks import FORMS, guess_task, read_examples
from greffon.data.tasks.pairs import are_scores
from greffon.inference.metrics import Interval
from greffon.labelling.answers import LabelTask, OneClass, answers_of
from greffon.labelling.clusters import cluster
from greffon.labelling.figures import study_figure
from greffon.labelling.heap import Heap, Text, same_key, whole
from greffon.labelling.label import checked_task
from greffon.labelling.simulate import Point, simulate
from greffon.labelling.storage import VECTORS, read_texts, store_vectors
from greffon.labelling.strategy import Choosing, Strategy
from greffon.plots.style import save
from greffon.runs.run import Run

RESULTS, FIGURE = "results.json", "curves.png"
RANDOM: Strategy = "random"
MORE = 1.4
"""Random labels are also scored at so many times each size: do chosen labels save that many?"""
_JUDGING = 0.2
_DRAWN = 0.9
"""Share of the texts that each seed draws where a file of judges is given, so that seeds differ in their texts."""


@dataclass(frozen=True)
class Spread(JsonResult):
    """Mean over seeds, and its 95 % interval (Student's t)."""

    mean: float
    """Mean over the seeds."""
    interval: Interval
    """95 % interval of the mean (Student's t)."""
    by_seed: tuple[float, ...]
    """Value of each seed."""


@dataclass(frozen=True)
class StudyPoint(JsonResult):
    """So many labels of one strategy."""

    labels: int
    """Number of labels."""
    score: Spread
    """The accuracy, or the micro F1 of several labels."""
    classes: Spread
    """Number of classes among the labels."""


@dataclass(frozen=True)
class Gain(JsonResult):
    """Score with chosen labels minus score with random ones, over the same seeds."""

    chosen: int
    """Number of chosen labels."""
    random: int
    """Number of random labels."""
    difference: Spread


@dataclass(frozen=True)
class LabelStudy(JsonResult):
    """What a study found."""

    strategy: str
    """How texts were chosen."""
    arms: dict[str, tuple[StudyPoint, ...]]
    gains: tuple[Gain, ...]
    texts: int
    """Number of texts to choose from."""
    judges: int
    """Number of test texts."""
    overlap: int
    """Number of test texts that are also among those to choose from."""
    seeds: int
    """Number of seeds."""
    verdict: str
    """What the study shows, in a sentence."""
    metric: str = "accuracy"
    """What the scores are: `accuracy`, or `micro_f1` of several labels."""


def label_study(
    texts: str | Path | Sequence[str | Path] = (),
    *,
    body: str | Path | Run,
    simulate: str | Path,
    out: str | Path,
    test: str | Path | None = None,
    task: LabelTask | None = None,
    train_sizes: Sequence[int] = (20, 50, 100, 200),
    seeds: int = 10,
    strategy: Strategy = "mixed",
    random_share: float = Choosing.random_share,
    text_column: str = "text",
    label_column: str | None = None,
    pair_columns: Sequence[str] = Data.pair_columns,
    force: bool = False,
    quiet: bool = False,
) -> LabelStudy:
    """Label texts with the answers of a file, chosen and at random, and compare the probes, over seeds.

    Texts without an answer are left out; without `texts`, all texts of `simulate` are there to choose from. `test`
    judges; without it a random fifth does, another one for each seed, equal texts on one side. The task is guessed
    from `simulate`, as `finetune` does.
    """
    path, run = Path(out), Run.open(body)
    choosing = Choosing(strategy, random_share)
    if strategy == RANDOM:
        raise UserError(f"{setting('simulate')} compares with random labels; choose another {setting('strategy')}")
    if seeds < 2 or not train_sizes or min(train_sizes) < 2:
        raise UserError(
            f"a study needs {setting('seeds')} of 2 or more, and {setting('train_sizes')} of 2 or more such as 20,50"
        )
    data = Data(text_column=text_column, label_column=label_column, pair_columns=tuple(pair_columns))
    task = checked_task(task or guess_task(Path(simulate), data)[0])
    data = replace(data, task=task)
    if task != "pairs" and data.pair_columns != Data.pair_columns:
        raise UserError(f"{setting('pair_columns')} is for pairs of texts, and this is for {task}; leave it out")
    examples = _askable(read_examples(Path(simulate), data), texts, data, quiet)
    judges = [] if test is None else read_examples(Path(test), data)
    answers = answers_of(task, FORMS[task].labels([*examples, *judges]))
    shared = len(overlap([one.whole for one in examples], [one.whole for one in judges]))
    if shared:
        say(
            f"WARNING: {shared:,} of the {len(judges):,} texts of {test} are also among those to choose from, so every "
            "score is too high; remove them from one of the files"
        )
    sizes = sorted({*train_sizes})
    room = int(len(examples) * (_DRAWN if judges else 1 - _JUDGING))
    if round(MORE * sizes[-1]) > room:
        raise UserError(
            f"{setting('train_sizes')}: {sizes[-1]} labels need {round(MORE * sizes[-1])} texts, {room} are there; "
            f"choose {int(room / MORE)} or fewer"
        )
    with own_directory(path, RESULTS, before=(VECTORS, FIGURE)):
        if (path / RESULTS).is_file():
            if not force:
                raise UserError(
                    f"{path} has a study; choose another {setting('out')}, or {setting('force')} to replace it"
                )
            empty_directory(path)
        store_vectors(path / VECTORS, run, [_text(one) for one in (*examples, *judges)], quiet)
        vectors = np.load(path / VECTORS, mmap_mode="r", allow_pickle=False)
        found = []
        for seed in range(seeds):
            found.append(compare_strategies(vectors, examples, judges, answers, sizes, [choosing, RANDOM], seed))
            if not quiet:
                chosen, random = (found[-1][name][sizes[-1]].score for name in (strategy, RANDOM))
                say(f"seed {seed}: {sizes[-1]} labels: {strategy} {chosen:.1%}, random {random:.1%}")
        arms, gains = _results(found, sizes, strategy)
        there = (len(examples), len(judges) or len(examples) - room, shared)
        verdict = _verdict(gains, len(found))
        results = LabelStudy(strategy, arms, gains, *there, len(found), verdict, answers.metric)
        save(study_figure(results), path / FIGURE)
        write_json(path / RESULTS, results.to_json())
    return results


def _text(example: Labelled) -> Text:
    return example.text if example.second is None else (example.text, example.second)


def _askable(
    examples: list[Labelled], texts: str | Path | Sequence[str | Path], data: Data, quiet: bool
) -> list[Labelled]:
    """Return the examples that are among the texts; all of them, where none is or no texts are given."""
    sources = [texts] if isinstance(texts, str | Path) else list(texts)
    examples = [one for one in examples if one.whole.strip()]
    if are_scores(examples):
        raise UserError("these pairs have scores, and a session is for labels; give a file whose pairs have labels")
    if sources:
        among = overlap([whole(text) for text in read_texts(sources, data)], [one.whole for one in examples])
        if among and len(among) < len(examples):
            examples = [examples[index] for index in sorted(among)]
        if not quiet:
            say(f"{len(examples):,} texts have an answer{'' if among else '; none of them is among TEXTS'}")
    if len({one.label for one in examples}) < 2:
        raise UserError("the texts that can be asked have one label only, so there is nothing to tell apart")
    return examples


Found = dict[str, dict[int, Point]]
"""What was found by each strategy with each number of labels."""


def compare_strategies(
    vectors: np.ndarray,
    examples: Sequence[Labelled],
    judges: Sequence[Labelled],
    answers: OneClass,
    sizes: Sequence[int],
    strategies: Sequence[Strategy | Choosing],
    seed: int,
) -> Found:
    """Label the texts that a seed draws by several strategies; all begin from the same heap.

    `vectors` are those of the examples, then of the judges; without judges, a fifth of the examples judges. Random
    labels go on to more of them (`MORE`).
    """
    asked, rest = _drawn([one.whole for one in examples], _DRAWN if judges else 1 - _JUDGING, seed)
    judging = (vectors[len(examples) :], [one.label for one in judges])
    if not judges:
        judging = (vectors[rest], [examples[index].label for index in rest])
    drawn = vectors[asked]
    heap = Heap([_text(examples[index]) for index in asked], drawn, cluster(drawn, seed), seed)
    truth = [examples[index].label for index in asked]
    found: Found = {}
    for how in strategies:
        choosing = how if isinstance(how, Choosing) else Choosing(how)
        at = _and_more(sizes) if choosing.strategy == RANDOM else sizes
        points = simulate(heap, truth, judging, at, choosing, answers)
        found[choosing.strategy] = {point.labels: point for point in points}
    return found


def _drawn(texts: Sequence[str], share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of a random share of the texts, and of the others; equal texts are on one side."""
    places: dict[str, list[int]] = {}
    for index, text in enumerate(texts):
        places.setdefault(same_key(text), []).append(index)
    groups = list(places.values())
    order = np.array([index for group in generator(seed, "study").permutation(len(groups)) for index in groups[group]])
    cut = round(share * len(texts))
    while 0 < cut < len(order) and same_key(texts[order[cut - 1]]) == same_key(texts[order[cut]]):
        cut -= 1
    return np.sort(order[:cut]), order[cut:]


def _and_more(sizes: Sequence[int]) -> list[int]:
    return sorted({*sizes, *(round(MORE * size) for size in sizes)})


def spread(values: Sequence[float]) -> Spread:
    """Return the mean over seeds with its interval.

    >>> spread([0.5, 0.7]).mean
    0.6
    """
    from scipy.stats import t

    mean = float(np.mean(values))
    half = float(t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))
    return Spread(mean, (mean - half, mean + half), tuple(map(float, values)))


def _results(
    found: Sequence[Found], sizes: Sequence[int], strategy: str
) -> tuple[dict[str, tuple[StudyPoint, ...]], tuple[Gain, ...]]:
    """Return mean and interval of each strategy at each size, and the paired differences."""
    arms = {}
    for name in (strategy, RANDOM):
        at = [n for n in _and_more(sizes) if all(n in one[name] for one in found)]
        arms[name] = tuple(
            StudyPoint(
                n,
                spread([one[name][n].score for one in found]),
                spread([one[name][n].classes for one in found]),
            )
            for n in at
        )
    return arms, paired(found, sizes, strategy)


def paired(found: Sequence[Found], sizes: Sequence[int], strategy: str) -> tuple[Gain, ...]:
    """Return chosen minus random labels, at equal numbers and against `MORE` times as many, paired by the seeds."""
    return tuple(
        Gain(n, m, spread([one[strategy][n].score - one[RANDOM][m].score for one in found]))
        for n in sizes
        for m in (n, round(MORE * n))
        if all(n in one[strategy] and m in one[RANDOM] for one in found)
    )


def _verdict(gains: Sequence[Gain], seeds: int) -> str:
    """Say where chosen labels are better than as many random ones, and where they are worse."""
    same = [gain for gain in gains if gain.chosen == gain.random]
    better = [gain for gain in same if gain.difference.interval[0] > 0]
    worse = [gain for gain in same if gain.difference.interval[1] < 0]
    parts = []
    for told, those in (("better", better), ("worse", worse)):
        if those:
            names = ", ".join(f"{gain.chosen} ({100 * gain.difference.mean:+.1f} points)" for gain in those)
            parts.append(f"Chosen labels are {told} than as many random ones at {names}")
    if not parts:
        parts.append("Chosen labels cannot be told apart from as many random ones")
    more = [gain for gain in gains if gain.random > gain.chosen and gain.difference.mean >= 0]
    if more:
        names = ", ".join(f"{gain.chosen} for {gain.random}" for gain in more)
        parts.append(f"on average they reach what {round(100 * (MORE - 1))} % more random ones do at {names}")
    return f"{'; '.join(parts)} ({seeds} seeds)."
