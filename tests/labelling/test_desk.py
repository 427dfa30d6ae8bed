"""The desk: what is asked, what is kept aside, and strategies beside enumerations."""

import time
from collections import Counter

import numpy as np
import pytest

from greffon.core.rng import generator
from greffon.labelling.answers import OneClass
from greffon.labelling.clusters import Clusters, cluster
from greffon.labelling.desk import Desk
from greffon.labelling.fit import Fit, margins
from greffon.labelling.heap import Heap
from greffon.labelling.log import Mark
from greffon.labelling.strategy import FIRST, Choosing, pick

LABELS = OneClass(("a", "b"))


def heap_of(n: int = 200, width: int = 8, seed: int = 0, texts: list[str] | None = None) -> Heap:
    """Two clouds; the label of a text is its cloud."""
    random = generator(seed, "heap")
    sides = random.integers(2, size=n)
    vectors = (random.normal(size=(n, width)) + 3 * sides[:, None] * np.eye(width)[0]).astype(np.float32)
    texts = texts or [f"text {'ab'[side]} {index}" for index, side in enumerate(sides)]
    return Heap(texts, vectors, cluster(vectors, seed), seed)


def label_all(desk: Desk, n: int, refit: int = 0) -> list[int]:
    asked = []
    for number in range(n):
        question = desk.next()
        if question is None:
            break
        asked.append(question.index)
        desk.add(Mark("label", question.index, question.text.split()[1], question.source))
        if refit and number % refit == 0:
            desk.fit = desk.refit()
    return asked


@pytest.mark.parametrize("strategy", ["mixed", "uncertainty", "diversity", "random"])
def test_every_text_is_asked_once_and_a_tenth_never_trains(strategy: str) -> None:
    desk = Desk(heap_of(), LABELS, Choosing(strategy))
    asked = label_all(desk, 1000, refit=20)
    assert sorted(asked) == list(range(200))
    assert desk.next() is None
    assert len(desk.aside()) == 20
    assert not desk.training().keys() & desk.aside().keys()
    assert len(desk.training()) == 180


def test_of_ten_questions_one_is_kept_aside() -> None:
    desk = Desk(heap_of(), LABELS, Choosing())
    for ten in range(1, 6):
        label_all(desk, 10)
        assert len(desk.aside()) == ten


@pytest.mark.parametrize(
    ("aside", "random"),
    [(0.1, 0.1), (0.1, 0.2), (0.2, 0.1), (0.05, 0.1), (0.3, 0.1), (0.1, 0.05), (0.25, 0.1), (0.3, 0.3)],
)
def test_the_shares_are_those_that_were_asked_for(aside: float, random: float) -> None:
    often = Counter(Choosing("diversity", random, aside).source(0, question) for question in range(1000))
    assert often == {"aside": 1000 * aside, "random": 1000 * random, "diverse": 1000 - round(1000 * (aside + random))}


def test_texts_kept_aside_are_a_random_sample_whatever_is_chosen() -> None:
    """Which texts judge depends on the seed alone, not on the strategy or the labels."""
    orders = []
    for strategy in ("mixed", "random"):
        desk = Desk(heap_of(), LABELS, Choosing(strategy))
        label_all(desk, 60, refit=10)
        orders.append(list(desk.aside()))
    assert orders[0] == orders[1] == Desk(heap_of(), LABELS, Choosing()).aside_order[:6].tolist()
    # Over seeds, each text is kept aside about as often as any other.
    often = Counter(text for seed in range(300) for text in Heap(*_parts(), seed).aside(0.1).tolist())
    assert max(often.values()) < 60
    assert min(often[text] for text in range(200)) > 8


def _parts() -> tuple:
    heap = heap_of()
    return heap.texts, heap.vectors, heap.clusters


def test_a_text_of_the_tenth_that_was_found_by_search_neither_trains_nor_judges_before_its_turn() -> None:
    desk = Desk(heap_of(), LABELS, Choosing())
    third = int(desk.aside_order[2])
    desk.add(Mark("label", third, "a"))
    assert (desk.training(), desk.aside()) == ({}, {})
    label_all(desk, 20)
    assert third not in desk.aside()
    label_all(desk, 20)
    assert third in desk.aside()
    assert desk.aside_order[:5].tolist() == list(desk.aside())  # it was not asked again


def test_equal_texts_are_asked_once_and_stay_on_one_side() -> None:
    texts = [f"Text {index // 2}{'!' * (index % 2)}" for index in range(200)]
    desk = Desk(heap_of(texts=texts), LABELS, Choosing())
    asked = [question.index for _ in range(300) if (question := desk.next()) and not desk.add(_labelled(question))]
    assert len(asked) == 100
    assert len({texts[index].strip("!") for index in asked}) == 100
    assert desk.is_aside[::2].tolist() == desk.is_aside[1::2].tolist()


def _labelled(question) -> Mark:
    return Mark("label", question.index, "a", question.source)


def test_blank_texts_are_never_asked() -> None:
    texts = [" " if index % 3 else f"text {index}" for index in range(30)]
    desk = Desk(heap_of(30, texts=texts), LABELS, Choosing())
    assert len([q for _ in range(30) if (q := desk.next()) and not desk.add(_labelled(q))]) == 10


def test_two_clients_never_judge_one_text() -> None:
    desk = Desk(heap_of(40), LABELS, Choosing())
    seen = []
    for turn in range(20):
        questions = [desk.next(client) for client in ("x", "y")]
        assert [desk.next(client) for client in ("x", "y")] == questions  # until it is answered
        seen += [question.index for question in questions]
        for question in questions[:: 1 if turn % 2 else -1]:
            desk.add(_labelled(question))
    assert sorted(seen) == list(range(40))


def test_an_undone_text_is_free_again() -> None:
    desk = Desk(heap_of(30), LABELS, Choosing())
    label_all(desk, 30)
    number = desk.marks.last_of("")
    taken_back = desk.marks.all[number]
    desk.add(Mark("undo", number))
    assert desk.next().index == taken_back.text


def test_a_replayed_desk_asks_the_same() -> None:
    desk = Desk(heap_of(), LABELS, Choosing())
    label_all(desk, 37)
    desk.add(Mark("skip", desk.next().index, source=desk.next().source))
    desk.add(Mark("undo", 12))
    again = Desk(heap_of(), LABELS, Choosing())
    for mark in desk.marks.all:
        again.add(mark)
    assert (again.next(), again.training(), again.aside()) == (desk.next(), desk.training(), desk.aside())


def test_again_asks_for_labels_of_others_first() -> None:
    desk = Desk(heap_of(), LABELS, Choosing())
    assert desk.again("x", "x") is None
    for text, author in ((1, "x"), (2, "x"), (3, "y")):
        desk.add(Mark("label", text, "a", author=author))
    assert desk.again("x", "x").index == 3
    assert (other := desk.again("y", "y").index) in (1, 2)
    desk.add(Mark("label", 3, "b", "again", "x"))
    assert desk.again("x", "x").index == 3 - other


def test_a_cold_start_looks_into_every_cluster() -> None:
    """Each of eight well separated clouds is seen within the first eight questions."""
    clouds = np.repeat(np.arange(8), 25)
    vectors = (10 * np.eye(8)[clouds] + generator(0, "clouds").normal(size=(200, 8))).astype(np.float32)
    heap = Heap([f"text {index}" for index in range(200)], vectors, cluster(vectors, 0))
    desk = Desk(heap, LABELS, Choosing("diversity", random_share=0, aside_share=0))
    assert len({clouds[index] for index in label_all_as(desk, 8)}) >= 7


def label_all_as(desk: Desk, n: int) -> list[int]:
    asked = []
    for _ in range(n):
        question = desk.next()
        asked.append(question.index)
        desk.add(Mark("label", question.index, "a", question.source))
    return asked


def test_diversity_asks_for_the_text_that_leaves_the_least_variance() -> None:
    """By hand: for each free text, the variance of all predictions with and without it."""
    heap = heap_of(60)
    desk = Desk(heap, LABELS, Choosing("diversity", random_share=0, aside_share=0))
    label_all(desk, FIRST)
    rows = heap.vectors - heap.vectors.mean(axis=0)
    rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float64)

    def variance(seen: list[int]) -> float:
        covariance = np.linalg.inv(np.eye(8) / 3 + rows[seen].T @ rows[seen])
        return float(np.mean(np.einsum("ij,jk,ik->i", rows, covariance, rows)))

    left = {text: variance([*desk._seen, text]) for text in range(60) if text not in desk._seen}
    assert left[desk.next().index] == pytest.approx(min(left.values()), rel=1e-4)


def test_uncertainty_asks_where_the_probe_hesitates() -> None:
    heap = heap_of(400)
    desk = Desk(heap, LABELS, Choosing("uncertainty", random_share=0, aside_share=0))
    label_all(desk, 40)
    desk.fit = desk.refit()
    sure = np.sort(desk.fit.margins)
    asked = label_all(desk, 5)
    assert max(desk.fit.margins[asked]) <= sure[int(0.1 * 400) + 40]


def test_margins_are_the_differences_of_the_two_highest() -> None:
    desk = Desk(heap_of(), LABELS, Choosing())
    label_all(desk, 30)
    fitted = desk.refit()
    probabilities = np.sort(fitted.probe.probabilities(desk.heap.vectors), axis=1)
    np.testing.assert_allclose(fitted.margins, probabilities[:, -1] - probabilities[:, -2], atol=1e-6)
    np.testing.assert_array_equal(margins(fitted.probe, desk.heap.vectors[:5], LABELS), fitted.margins[:5])


def test_clusters_are_nearest_centres() -> None:
    vectors = generator(1, "vectors").normal(size=(300, 5)).astype(np.float32)
    for level in cluster(vectors, 0):
        assert level.members.max() < level.count
        assert (level.distances > -1e-5).all()
    assert [level.count for level in cluster(vectors, 0)] == [8, 16, 32, 64, 128]


def test_the_choice_among_100_000_texts_takes_less_than_200_milliseconds() -> None:
    n = 100_000
    random = generator(0, "many")
    levels = [
        Clusters(count, random.integers(count, size=n).astype(np.int32), random.random(n).astype(np.float32))
        for count in (8, 64, 512, 1024)
    ]
    heap = Heap([f"text {index}" for index in range(n)], random.normal(size=(n, 8)).astype(np.float32), levels)
    desk = Desk(heap, LABELS, Choosing())
    label_all_as(desk, 200)
    desk.fit = Fit(None, 200, random.random(n).astype(np.float32))
    free, seen = desk._free, np.array(desk._seen)
    for source in ("random", "uncertain", "diverse"):
        times = []
        for draw in range(5):
            began = time.perf_counter()
            pick(heap, source, free, seen, desk.fit.margins, draw)
            times.append(time.perf_counter() - began)
        assert min(times) < 0.2, source
    began = time.perf_counter()
    label_all_as(desk, 10)
    assert time.perf_counter() - began < 2
