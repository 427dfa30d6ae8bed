"""A mistake is told in one sentence, in the words of its reader."""

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import greffon
from greffon.core.errors import UserError, out_of_range, setting


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


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The texts inside every `UserError(…)`, those in values that are filled in included."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and ast.unparse(call.func) in ("UserError", "out_of_range", "Idle"):
            joined = [node for node in ast.walk(call) if isinstance(node, ast.JoinedStr)]
            inside = {id(part) for node in joined for part in node.values}
            for node in joined:
                parts = [part.value if isinstance(part, ast.Constant) else "…" for part in node.values]
                yield call.lineno, "".join(parts)
            for node in ast.walk(call):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
                    yield call.lineno, node.value


def spelled(source: str) -> list[int]:
    """Lines of errors that spell an option of the command line, other than in a whole command in backticks."""
    return [line for line, text in messages(ast.parse(source)) if re.search("--[a-z…]", re.sub("`[^`]*`", "", text))]


def test_no_error_below_the_command_line_spells_an_option() -> None:
    """`setting` does, for each reader."""
    assert spelled("raise UserError(f\"{a} is wrong; leave out {'--out' if a else ''}\")") == [1]
    assert spelled('raise UserError("give --out")') == [1]
    assert spelled('raise UserError(f"repeat `greffon x {a} --out {b}`")') == []
    root = Path(greffon.__file__).parent
    files = [path for path in root.rglob("*.py") if path.relative_to(root).parts[0] != "cli"]
    found = {str(path.relative_to(root)): spelled(path.read_text(encoding="utf-8")) for path in files}
    assert {name: lines for name, lines in found.items() if lines} == {}
