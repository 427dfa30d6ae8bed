"""The changes that `make mutants` makes; that a test notices one is tried on a file and a test of its own."""

import ast
from pathlib import Path

import mutants as tool
import pytest

SOURCE = '''
def least(numbers: list[int], most: int = 9) -> int:
    """Return 1 of them."""
    assert numbers != []
    found = most
    for one in numbers:
        if not one < found or one == 0:
            continue
        found = one
    return found
'''


def test_each_mutant_is_one_change_of_what_runs() -> None:
    made = list(tool.mutants("a.py", SOURCE))
    assert [(one.line, one.before, one.after) for one in made] == [
        (2, "9", "10"),
        (7, "not one < found or one == 0", "not one < found and one == 0"),
        (7, "not one < found", "one < found"),
        (7, "one == 0", "one != 0"),
        (7, "one < found", "one <= found"),
        (7, "0", "1"),
    ]
    plain = ast.unparse(ast.parse(SOURCE))
    for one in made:
        changed = [a for a, b in zip(plain.splitlines(), one.source.splitlines(), strict=True) if a != b]
        assert len(changed) == 1


def test_a_test_that_notices_kills_and_another_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    test = "from greffon.data.languages import least\n\ndef test_it():\n    assert least([3, 2]) == 2\n"
    (tmp_path / "test_least.py").write_text(test)
    monkeypatch.setattr(tool, "FILES", {"data/languages.py": [str(tmp_path / "test_least.py")]})
    killed = [one.after for one in tool.mutants("data/languages.py", SOURCE) if not tool.passes(one, 60)]
    assert killed == ["one < found", "one != 0"]
