"""Mutated and hostile files, a short round of what `make soak` does at length."""

import warnings
from pathlib import Path

import pytest
from fuzz import Target, fuzz, targets
from hostile import files, measure

MEGABYTES = 20
CASES = 150
NAMES = [
    "recipe", "manifest", "weights", "tokenizer", "foreign tokenizer", "checkpoint state", "checkpoint tensors",
    "metrics", "text", "csv", "jsonl", "encoder config", "decoder config", "classifier config", "weight index",
    "foreign weights", "tokenizer.json", "tokenizer config", "modules", "pooling", "generation config",
]  # fmt: skip
NEVER_REFUSED = ("metrics",)
"""Torn lines of a log are left out, and what is no setting of ours is passed over."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Target]:
    return targets(tmp_path_factory.mktemp("fuzz"))


@pytest.mark.parametrize("name", NAMES)
def test_mutated_files_are_loaded_right_or_refused(name: str, sound: dict[str, Target]) -> None:
    assert set(NAMES) == set(sound)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fuzz(name, sound[name], CASES, seed=1)
    assert found.failures == []
    assert found.loaded + found.refused == CASES
    assert found.refused > 0 or name in NEVER_REFUSED


@pytest.mark.parametrize("title", files(MEGABYTES))
def test_hostile_files_are_read_in_bounded_memory(title: str, tmp_path: Path) -> None:
    name, write, wanted = files(MEGABYTES)[title]
    found = measure(name, write, tmp_path)
    assert not found["crashed"], found["said"]
    assert wanted in str(found["said"])
    assert len(str(found["said"]).splitlines()) == 1
    assert found["megabytes"] < 400
