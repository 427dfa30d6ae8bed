"""Do the tests notice a change of behaviour? Change the source a little, many times over, and run the tests.

    python tests/reliability/mutants.py [--minutes 60] [--seed 0] [FILE…]

A mutant is one file with one change: `<` for `<=`, `+` for `-`, `and` for `or`, 2 for 1, True for False, a condition
turned round. It is killed if a test of the file fails. The mutants of all files are taken in a random order until the
time is over; the same seed gives the same order. What survives is printed: either a test is missing, or the change
makes no difference. Each mutant runs in a fork of a process that has imported PyTorch already, and nothing is written
into the tree.
"""

import argparse
import ast
import contextlib
import copy
import importlib.abc
import importlib.util
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "greffon"
FILES = {
    "objectives/causal.py": ["objectives/test_causal.py"],
    "objectives/masked.py": ["objectives/test_masked.py"],
    "objectives/contrastive.py": ["objectives/test_contrastive.py"],
    "objectives/seq2seq.py": ["objectives/test_seq2seq.py"],
    "objectives/classify.py": ["objectives/test_classify.py"],
    "inference/metrics.py": ["inference/test_metrics.py"],
    "inference/calibration.py": ["inference/test_metrics.py", "inference/test_measures.py"],
    "inference/sampling.py": ["inference/test_sampling.py"],
    "inference/beam.py": ["inference/test_beam.py"],
    "comparison/ensemble.py": ["comparison/test_ensemble.py"],
    "comparison/baselines.py": ["comparison/test_baselines.py"],
    "comparison/ratios.py": ["comparison/test_other_tasks.py"],
    "comparison/curve_scores.py": ["comparison/test_curve_scores.py"],
}
"""The sample: files, and the tests that have to notice."""
PATIENCE, LEAST = 5.0, 20.0
"""A mutant that takes so many times as long as the source, and so many seconds more, runs for ever: it is killed."""

_SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div, ast.Mod: ast.Add,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: str
    line: int
    before: str
    after: str
    source: str


def _changed(node: ast.AST) -> ast.AST | None:
    """Return what stands in a mutant for a node, if it is one that is changed."""
    new: Any = copy.deepcopy(node)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
        new.ops[0] = _SWAPS[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(node.op) in _SWAPS:
        new.op = _SWAPS[type(node.op)]()
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        new = new.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        new.value = not node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        new.value = node.value + 1
    elif isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(node.test, ast.Compare | ast.BoolOp):
        new.test = ast.UnaryOp(ast.Not(), new.test)
    else:
        return None
    return new


def _passed_over(tree: ast.AST) -> set[int]:
    """Nodes that say nothing about behaviour: types, messages, and our own invariants."""
    found: set[int] = set()
    for node in ast.walk(tree):
        idle: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef):
            idle = [node.returns, *(arg.annotation for arg in [*node.args.args, *node.args.kwonlyargs])]
        elif isinstance(node, ast.AnnAssign):
            idle = [node.annotation]
        elif isinstance(node, ast.Assert | ast.JoinedStr):
            idle = [node]
        elif isinstance(node, ast.keyword) and node.arg in ("stacklevel", "frozen", "strict"):
            idle = [node.value]
        found |= {id(inner) for one in idle if one is not None for inner in ast.walk(one)}
    return found


def mutants(file: str, source: str) -> Iterator[Mutant]:
    """Yield every mutant of a file."""
    tree = ast.parse(source)
    idle = _passed_over(tree)
    for parent in ast.walk(tree):
        for name, value in ast.iter_fields(parent):
            for place, node in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(node, ast.AST) or id(node) in idle or (new := _changed(node)) is None:
                    continue
                before = ast.unparse(node).partition("\n")[0]
                _put(parent, name, place, new)
                yield Mutant(file, node.lineno, before, ast.unparse(new).partition("\n")[0], ast.unparse(tree))  # type: ignore[attr-defined]
                _put(parent, name, place, node)


def _put(parent: ast.AST, name: str, place: int, node: ast.AST) -> None:
    value = getattr(parent, name)
    if isinstance(value, list):
        value[place] = node
    else:
        setattr(parent, name, node)


class _Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from other source than its file's."""

    def __init__(self, mutant: Mutant) -> None:
        self.name = "greffon." + mutant.file.removesuffix(".py").replace("/", ".")
        self.mutant = mutant

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> Any:
        """Find the module, if it is the one."""
        file = str(SOURCE / self.mutant.file)
        return importlib.util.spec_from_file_location(name, file, loader=self) if name == self.name else None  # type: ignore[arg-type]

    def exec_module(self, module: ModuleType) -> None:
        """Run the source of the mutant."""
        exec(compile(self.mutant.source, str(SOURCE / self.mutant.file), "exec"), module.__dict__)


def passes(mutant: Mutant, seconds: float) -> bool:
    """Whether all tests of the file pass with the mutant, in a fork of this process."""
    child = os.fork()
    if not child:
        os.setsid()
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        loader = _Loader(mutant)
        sys.meta_path.insert(0, loader)
        sys.modules.pop(loader.name, None)
        import pytest

        tests = [str(ROOT / "tests" / name) for name in FILES[mutant.file]]
        code = 1
        with contextlib.suppress(BaseException):
            code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT), *tests]))
        os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def run(files: Sequence[str], minutes: float, seed: int) -> int:
    """Try mutants until the time is over, print what survives and the score, and return the number of survivors."""
    end = time.monotonic() + 60 * minutes
    waiting: list[Mutant] = []
    usual: dict[str, float] = {}
    for file in files:
        source = (SOURCE / file).read_text(encoding="utf-8")
        began = time.monotonic()
        if not passes(Mutant(file, 0, "", "", source), 600):
            sys.exit(f"{file}: its tests fail without any change; mend them first")
        usual[file] = time.monotonic() - began
        waiting += mutants(file, source)
    random.Random(seed).shuffle(waiting)
    tried = survived = 0
    for mutant in waiting:
        if time.monotonic() > end:
            break
        tried += 1
        if passes(mutant, PATIENCE * usual[mutant.file] + LEAST):
            survived += 1
            print(f"{mutant.file}:{mutant.line}: {mutant.before}  →  {mutant.after}", flush=True)
    killed = tried - survived
    print(f"{killed:,} of {tried:,} mutants killed ({killed / max(1, tried):.0%}); there are {len(waiting):,} in all")
    return survived


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Do the tests notice a change of behaviour?")
    parser.add_argument("files", nargs="*", default=[*FILES], help="files of the sample (default: all)")
    parser.add_argument("--minutes", type=float, default=60.0, help="time after which no mutant is begun (default: 60)")
    parser.add_argument("--seed", type=int, default=0, help="random seed of the order (default: 0)")
    asked = parser.parse_args()
    for file in asked.files:
        if file not in FILES:
            parser.error(f"{file} is not in the sample; choose from {', '.join(FILES)}")
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"OMP_NUM_THREADS": "1", "HYPOTHESIS_STORAGE_DIRECTORY": folder}
        import hypothesis  # noqa: F401
        import scipy.stats  # noqa: F401
        import sklearn.linear_model  # noqa: F401
        import torch

        torch.set_num_threads(1)
        run(asked.files, asked.minutes, asked.seed)


if __name__ == "__main__":
    main()
