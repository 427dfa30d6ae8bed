"""From results to JSON: nested results, arrays, and numbers that JSON does not have."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from greffon.core.json_results import JsonResult, json_text, to_json


@dataclass(frozen=True)
class Inner(JsonResult):
    name: str
    share: float


@dataclass(frozen=True, eq=False)
class Outer(JsonResult):
    parts: tuple[Inner, ...]
    vector: np.ndarray
    where: Path
    by_name: dict[str, Inner]

    def to_json(self) -> dict[str, object]:
        return {"n": len(self.parts), **super().to_json()}


def test_a_nested_result_becomes_plain_values() -> None:
    part = Inner("é", 0.5)
    found = to_json([Outer((part,), np.array([[1.0, np.inf]], dtype=np.float32), Path("a") / "b", {"x": part})])
    plain = {"name": "é", "share": 0.5}
    assert found == [{"n": 1, "parts": [plain], "vector": [[1.0, None]], "where": "a/b", "by_name": {"x": plain}}]
    assert json.loads(json_text(found)) == found
    assert "é" in json_text(part)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float32("-inf"), np.float64("nan")])
def test_numbers_that_json_does_not_have_are_null(value: float) -> None:
    assert json_text(Inner("a", value)) == '{"name": "a", "share": null}'


def test_results_of_numpy_are_pythons() -> None:
    assert [type(value) for value in to_json([np.int64(3), np.bool_(True), np.float32(0.5)])] == [int, bool, float]
