"""The plan of the house: rooms import only from rooms below them, files never in a circle.

Read from the source with `ast`, not from imports that ran; only the last test runs something.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny import TinyRuns

from greffon import _HOME

SOURCE = Path(__file__).parents[1] / "src" / "greffon"
ROOMS = [
    "core", "data", "nn", "objectives", "runs", "inference", "training", "plots", "comparison", "estimators",
    "labelling", "web", "cli",
]  # fmt: skip
"""From the ground up: a room imports from itself and from rooms before it in this list."""
TOP = {"__init__.py", "__main__.py", "py.typed"}
FILES = sorted(SOURCE.rglob("*.py"))
PAGE = (SOURCE.parents[1] / "ARCHITECTURE.md").read_text(encoding="utf-8")


def module_of(path: Path) -> str:
    parts = ("greffon", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def imports(tree: ast.AST, module: str, is_package: bool) -> Iterator[str]:
    """Every module of ours that a tree names, whatever the form of the import; the deepest that exists."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                parts = parts[: len(parts) - node.level + is_package]
                base = ".".join([*parts, *([node.module] if node.module else [])])
            names = [f"{base}.{name.name}" for name in node.names]
        else:
            continue
        for name in names:
            above, _, public = name.rpartition(".")
            if above == "greffon" and public in _HOME:  # a public name stands for the file that defines it
                name = f"greffon.{_HOME[public]}"
            while name and name not in MODULES:
                name = name.rpartition(".")[0]
            if name:
                yield name


def imported(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return set(imports(tree, module_of(path), path.name == "__init__.py")) - {module_of(path)}


def room_of(module: str) -> str:
    return module.split(".")[1] if module.count(".") else ""


def room_graph() -> dict[str, set[str]]:
    """Which rooms each room imports from, itself excluded."""
    graph: dict[str, set[str]] = {room: set() for room in ROOMS}
    for path in FILES:
        room = room_of(module_of(path))
        if room in graph:
            graph[room] |= {room_of(other) for other in imported(path)} - {room, "", "__init__"}
    return graph


def picture() -> str:
    """Draw the rooms from the top down, each with the rooms that it imports from."""
    graph, down = room_graph(), ROOMS[::-1]
    lines = [f"{room:<11} ─► {' '.join(other for other in down if other in graph[room])}" for room in down]
    return "\n".join(line.removesuffix(" ─► ").rstrip() for line in lines)


def test_the_picture_of_the_rooms_is_the_import_graph() -> None:
    (drawn,) = re.findall(r"<!-- rooms: .*?-->\n```text\n(.*?)\n```", PAGE, flags=re.S)
    assert drawn == picture(), f"draw this into ARCHITECTURE.md:\n{picture()}"


def test_every_room_is_described() -> None:
    (table,) = re.findall(r"^\| room \| what lives there \|\n(.*?)\n\n", PAGE, flags=re.M | re.S)
    described = re.findall(r"^\| `(\w+)` \|", table, flags=re.M)
    assert described == ROOMS[::-1]


def test_ten_changes_or_more_that_stay_in_one_room() -> None:
    changes = re.findall(r"^\| [^|`]+ (?:\(.*\) )?\| `(\w+)` \| (.*) \|$", PAGE, flags=re.M)
    assert len(changes) >= 10
    for room, files in changes:
        assert room in ROOMS
        named = re.findall(r"`([\w/]+\.py)`", files)
        assert named, files
        assert {file.split("/")[0] for file in named} == {room}


def test_every_file_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`((?:\w+/)*\w+\.py)`", PAGE))
    assert len(named) > 40
    root = SOURCE.parents[1]
    assert [name for name in sorted(named) if not (SOURCE / name).is_file() and not (root / name).is_file()] == []


def test_the_package_holds_its_rooms_and_nothing_else() -> None:
    found = {entry.name for entry in SOURCE.iterdir() if entry.name != "__pycache__"}
    assert found == {*ROOMS, *TOP}


def only_the_version(tree: ast.AST) -> bool:
    """Whether `from greffon import __version__` is all that a tree takes from the package itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(name.name == "greffon" for name in node.names):
            return False
        if isinstance(node, ast.ImportFrom) and node.module == "greffon":
            known = {*_HOME, *ROOMS, "__version__"}
            if any(name.name not in known for name in node.names):
                return False
    return True


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path: Path) -> None:
    room = room_of(module_of(path))
    if room not in ROOMS:
        return  # `__init__` and `__main__` stand above all rooms
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for other in imported(path):
        if other == "greffon":
            assert only_the_version(tree), f"{path}: of the package itself, a room needs the version alone"
            continue
        assert ROOMS.index(room_of(other)) <= ROOMS.index(room), f"{path}: {other} is above {room}"


def test_the_public_name_of_an_upper_room_is_an_import_of_it() -> None:
    found = set(imports(ast.parse("from greffon import serve, __version__"), "greffon.core.files", False))
    assert found == {"greffon.web", "greffon"}
    assert only_the_version(ast.parse("from greffon import __version__"))
    assert not only_the_version(ast.parse("import greffon"))
    assert not only_the_version(ast.parse("from greffon import _HOME"))


@pytest.mark.parametrize(
    "line",
    ["import greffon.cli.show", "from greffon import cli", "from greffon.cli import show", "from ..cli import show"],
)
def test_every_form_of_import_is_read(line: str) -> None:
    assert any(name.startswith("greffon.cli") for name in imports(ast.parse(line), "greffon.core.files", False))


def test_no_circle_of_files() -> None:
    """Only imports at the top of a file count: what a function imports runs when it is called."""
    graph = {}
    for module, path in MODULES.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        top = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
        graph[module] = set(imports(top, module, path.name == "__init__.py")) - {module}
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " → ".join([*trail[trail.index(module) :], module])
        if module not in done:
            for other in graph[module]:
                visit(other, (*trail, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_core_and_data_do_without_torch() -> None:
    for path in FILES:
        light = room_of(module_of(path)) in ("core", "data") and path.name != "device.py"
        if light or path.name in ("metrics.py", "results.py", "baselines.py"):
            names = {
                (node.module or "") if isinstance(node, ast.ImportFrom) else node.names[0].name
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                if isinstance(node, ast.Import | ast.ImportFrom)
            }
            assert not any(name.split(".")[0] == "torch" for name in names), path


def test_no_pickle_anywhere() -> None:
    for path in FILES:
        source = path.read_text(encoding="utf-8")
        assert "torch.load" not in source, path
        assert "import pickle" not in source, path


def test_one_process_never_imports_what_several_need() -> None:
    ranks = "greffon.training.distributed.ranks"
    for path in FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [
            name
            for node in tree.body  # what a function imports is imported when it is called
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [n.name for n in node.names])
        ]
        if path.name != "ranks.py":
            assert not any(name.startswith("torch.distributed") or name == ranks for name in names), path


USES = {
    "classify": "greffon.classify({classifier!r}, 'le chat dort')",
    "generate": "greffon.generate({causal!r}, 'le chat', max_new_tokens=2).text",
    "fill": "greffon.fill({masked!r}, 'le [MASK] dort')",
    "embed": "greffon.embed({causal!r}, ['le chat dort'])",
    "translate": "greffon.translate({translator!r}, 'one red dog')",
}


def test_using_a_run_imports_no_training(tiny: TinyRuns) -> None:
    kinds = {kind: str(getattr(tiny, kind).path) for kind in ("classifier", "causal", "masked", "translator")}
    upper = "[name for name in sys.modules if name.startswith(('greffon.training', 'greffon.comparison'))]"
    calls = (f"assert len({call.format(**kinds)}); print({verb!r}, {upper})" for verb, call in USES.items())
    code = "\n".join(["import sys, greffon", *calls])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [f"{verb} []" for verb in USES]


SIXTH = """
import sys
from greffon.cli import run as command
if __name__ == "__main__":
    body, table = sys.argv[1:]
    asked = ["--epochs", "2", "--learning-rate", "0.01", "--out"]
    assert command(["finetune", body, "--train", table, "--valid", table, *asked, "stars"]) == 0
    assert command(["evaluate", "stars", table, "--json"]) == 0
    assert command(["classify", "stars", "le chat dort", "--json"]) == 0
    assert command(["compare", body, "--train", table, "--seeds", "1", "--jobs", "1", *asked, "verdict", "--json"]) == 0
    assert command(["finetune", body, "--train", table, "--class-weights", "balanced", *asked, "no"]) == 1
    assert command(["export", "stars", "--to", "huggingface", "--out", "no"]) == 1
"""


def test_the_sixth_task_works_as_it_is_written(tmp_path: Path, tiny: TinyRuns) -> None:
    page = PAGE.partition("### A sixth task\n")[2].partition("\nA contest with")[0]
    ours = tmp_path / "src" / "greffon"
    shutil.copytree(SOURCE, ours, ignore=shutil.ignore_patterns("__pycache__"))
    rooms = []
    for name, block in re.findall(r"```python\n# (\S+\.py):(.*?)```", page, flags=re.S):
        (ours / name).write_text(f"#{block}", encoding="utf-8")
        rooms.append(name.partition("/")[0])
    assert rooms == ["data", "objectives", "inference"]
    modules = {"FORMS": "data", "TARGETS": "objectives", "MEASURES": "inference"}
    lines = re.findall(r"^\| `(\S+)` \| `(\w+)`(?: and `(\w+)`)? \| `(.*)` \|$", page, flags=re.M)
    assert len(lines) == 4
    for file, table, other, line in lines:
        text = (ours / file).read_text(encoding="utf-8")
        if other:
            text = re.sub(rf"^({table}|{other}) = Literal\[(.*)\]$", rf"\1 = Literal[\2, {line}]", text, flags=re.M)
            assert text.count(line) == 2
        else:
            name, value = line.split(": ")
            own = f"from greffon.{modules[table]}.tasks.stars import {re.split(r'[.(]', value)[0]}"
            text += f"\n\n{own}\n\n{table}[{name}] = {value}\n"
        (ours / file).write_text(text, encoding="utf-8")
    rows = [f"le {animal} dort {i},{i % 5 + 1}" for i in range(40) for animal in ("chat", "chien")]
    (tmp_path / "table.csv").write_text("text,stars\n" + "\n".join(rows) + "\n", encoding="utf-8")
    (tmp_path / "uses.py").write_text(SIXTH, encoding="utf-8")
    words = [sys.executable, "uses.py", str(tiny.causal.path), "table.csv"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    scores, answer, compared = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    assert (scores["metric"], scores["n"]) == ("mae", 80)
    assert 1 <= answer["score"] <= 5
    assert set(compared["arms"]) == {"scratch", "pretrained"}
    assert "task: stars, as table.csv reads" in done.stderr
    assert "there is no classical baseline for stars" in done.stderr
    assert "a head for stars (none of the families has one)" in done.stderr
    assert "--class-weights is for classes and labels" in done.stderr
