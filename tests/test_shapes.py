"""The shape of functions: at most eight parameters, unless the function is a public verb.

A verb's parameters are the flags of its command, so that there are as many as there are flags. Everything
else groups what belongs together in a small frozen dataclass.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "greffon"
MOST = 8
VERBS = {
    "labelling/label.py: label",
    "labelling/study.py: label_study",
}


def functions(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Name every function of a tree, nested ones and methods included, with its number of parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            given = node.args
            named = [*given.posonlyargs, *given.args, *given.kwonlyargs]
            starred = [extra for extra in (given.vararg, given.kwarg) if extra is not None]
            count = sum(parameter.arg not in ("self", "cls") for parameter in [*named, *starred])
            yield getattr(node, "name", "lambda"), count


def test_functions_have_few_parameters() -> None:
    wide = {
        f"{path.relative_to(SOURCE).as_posix()}: {name}"
        for path in SOURCE.rglob("*.py")
        for name, count in functions(ast.parse(path.read_text(encoding="utf-8")))
        if count > MOST
    }
    assert not wide - VERBS, "group parameters that belong together in a frozen dataclass"


def test_every_parameter_is_counted() -> None:
    code = "class A:\n    async def f(self, a, /, b, *c, d=1, **e):\n        def g(): pass\n        return lambda x: x"
    assert sorted(functions(ast.parse(code))) == [("f", 5), ("g", 0), ("lambda", 1)]
