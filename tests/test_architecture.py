"""A module imports only from layers below its own. Read from the source, not from imports that ran."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "greffon"

LAYERS = [
    {"errors", "runtime", "files", "randomness", "statistics", "likeness", "stopping", "sharding", "together"},
    {"config", "bleu", "locks", "device"},
    {"text", "nn", "lint", "yardstick", "verdict", "drawing", "health", "costs"},
    {"objectives", "recipes"},
    {"optim", "decode", "beam", "results", "crew", "compiling"},
    {"fit"},
    {"scoring", "assembly", "progress", "job", "weights"},
    {"run", "pair_job", "ranks"},
    {"jobs", "shared_run", "exports", "room"},
    {"transfer", "ledger", "pair_recipes", "ctranslate"},
    {"estimates"},
    {"train"},
    {"launch"},
    {"pretraining", "finetuning", "predict", "summary", "tokenizing", "figures", "page", "worker"},
    {"report", "arms", "embedding", "translation", "occlusion", "by_position", "huggingface"},
    {"evaluation", "attending", "exporting"},
    {"experiment", "pictures"},
    {"demonstration", "translation_demo"},
    {"web"},
    {"cli"},
    {"__init__", "__main__"},
]
HEIGHT = {name: height for height, names in enumerate(LAYERS) for name in names}
FILES = sorted(SOURCE.rglob("*.py"))


def part_of(path: Path) -> str:
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("greffon."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found.update(name.name.split(".")[1] for name in node.names if name.name.startswith("greffon."))
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down(path: Path) -> None:
    mine = part_of(path)
    assert mine in HEIGHT, f"give {mine} a place in LAYERS"
    for other in imported(path) - {mine}:
        assert HEIGHT[other] < HEIGHT[mine], f"{path.name} imports {other}, which is not below it"


def test_text_and_lint_do_without_torch() -> None:
    for path in FILES:
        if part_of(path) in {
            "errors",
            "files",
            "randomness",
            "config",
            "text",
            "lint",
            "statistics",
            "results",
            "yardstick",
        }:
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
    for path in FILES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [
            name
            for node in tree.body  # what a function imports is imported when it is called
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [n.name for n in node.names])
        ]
        if path.name != "ranks.py":
            assert not any(name.startswith("torch.distributed") or name == "greffon.ranks" for name in names), path
