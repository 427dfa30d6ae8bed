"""A mistake is told in one sentence, in the words of its reader."""

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import greffon
from greffon.core.console import for_command_line, say, show_warning
from greffon.core.errors import SettingWarning, UserError, out_of_range, setting


def test_a_setting_is_named_as_its_reader_wrote_it() -> None:
    mistake = UserError(f"{setting('top_k')} has no effect with {setting('tie_embeddings', False)} in a--b.txt")
    assert str(mistake) == "top_k has no effect with tie_embeddings=False in a--b.txt"
    assert mistake.on_command_line() == "--top-k has no effect with --tie-embeddings false in a--b.txt"
    assert UserError(setting("text_column", "Avis")).on_command_line() == "--text-column Avis"


def test_an_error_keeps_its_settings_on_the_way_from_another_process() -> None:
    mistake = pickle.loads(pickle.dumps(out_of_range("batch_size", 0, "choose 1 or more")))
    assert str(mistake) == "batch_size is 0; choose 1 or more"
    assert mistake.on_command_line() == "--batch-size is 0; choose 1 or more"


def test_a_sentence_stays_on_one_line() -> None:
    mistake = UserError(f"no file\n'a\u2028b' for {setting('out')}")
    assert mistake.on_command_line() == "no file 'a b' for --out"
    assert len(str(mistake).splitlines()) == 1


def prose(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every text but docstrings and single words, such as the words of a command that is put together."""
    left_out = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
            yield node.lineno, "".join(map(str, parts))
            left_out |= set(map(id, node.values))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            yield node.lineno, node.value


def spelled(source: str) -> list[int]:
    """Lines of texts that spell an option of the command line, other than in a whole command."""
    texts = ((line, re.sub("`[^`]*`|^greffon .*", "", text)) for line, text in prose(ast.parse(source)))
    return [line for line, text in texts if re.search(r"(?<![\w-])--[a-z…]", text) and " " in text.strip()]


def test_no_message_below_the_command_line_spells_an_option() -> None:
    """`setting` does, for each reader."""
    assert spelled('raise UserError("give --out")') == [1]
    assert spelled("say(f\"{a} is wrong{'; leave out --out' if a else ''}\")") == [1]
    assert spelled('warn(f"{a} is wrong; leave out --out")') == [1]
    assert spelled('tell(f"--{name}: it is wrong")') == [1]
    assert spelled('raise UserError(f"repeat `greffon x {a} --out {b}`")') == []
    assert spelled('words = ["greffon", "label", "--out"]') == []
    root = Path(greffon.__file__).parent
    data = ("html.py", "rotary_families.py")  # styles, and a table of settings
    files = [path for path in root.rglob("*.py") if path.relative_to(root).parts[0] != "cli" and path.name not in data]
    found = {str(path.relative_to(root)): spelled(path.read_text(encoding="utf-8")) for path in files}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_warning_names_a_setting_for_its_reader(capsys: pytest.CaptureFixture[str]) -> None:
    warning = SettingWarning(f"few texts; give {setting('valid_source')}")
    show_warning(warning)
    with for_command_line():
        show_warning(warning)
        say(f"{setting('jobs', 3)} at a time")
    say(f"{setting('jobs', 3)} at a time")
    assert capsys.readouterr().err.splitlines() == [
        "warning: few texts; give valid_source",
        "warning: few texts; give --valid-source",
        "--jobs 3 at a time",
        "jobs=3 at a time",
    ]
