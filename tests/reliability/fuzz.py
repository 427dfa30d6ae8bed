"""Mutated files: each is loaded correctly or refused in one sentence. `fuzz.py csv --cases 20000`.

A target is a file that is there in a sound form, a way to load it, and a check that what was loaded is right.
Anything but a `UserError` or a right result is a failure: another exception, a wrong result, a hang.
"""

import argparse
import faulthandler
import json
import random
import resource
import string
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import torch
from fuzz_checkpoints import checkpoint_files

from greffon.core.errors import UserError
from greffon.core.recipe import Data, Recipe
from greffon.core.shape import Shape
from greffon.core.training import Training
from greffon.data.corpora import column_pairs, documents, labelled, texts_of
from greffon.data.tokenizer import Tokenizer
from greffon.nn.build import make_model
from greffon.runs.run import Run
from greffon.runs.tensors import tensors_of
from greffon.training.optim import make_optimizers, state_tensors
from greffon.training.state import TrainingState, environment, restore

HANG_SECONDS = 600.0  # of a machine that may be busy with other things
LARGEST_MESSAGE = 4000

BYTES = [
    b"\xef\xbb\xbf", b"\xff\xfe", b"\0", b"\r", b"\r\n", b"\n", b"\n\n", b'"', b'""', b",", b"\t", b";",
    b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", "\u2028".encode(), "\u0085".encode(), b"\\ud800", b"\\u0000",
    b"{", b"}", b"[", b"]",
    b"[[[[[[[[", b"null", b"NaN", b"Infinity", b"-1", b"1e999", b"true", b"0" * 50, b"a" * 3000, b"\\", b":",
    b"text", b"label",
]  # fmt: skip
VALUES = [
    None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, -(10**30), 0.0, -0.5, 1e308, float("nan"), float("inf"), "",
    "x", "\0", "\ud800", "é" * 500, "../../etc", [], {}, [[]], [None], {"": None}, [0] * 300,
    {str(i): i for i in range(300)},
]  # fmt: skip


def mutate(content: bytes, chance: random.Random) -> bytes:
    """Change a file in one to four places; a JSON file sometimes in its meaning instead of its bytes."""
    if content.lstrip()[:1] in (b"{", b"[") and b"\n{" not in content and chance.random() < 0.6:
        return _mutate_json(content, chance)
    out = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        place = chance.randrange(len(out) + 1)
        span = min(len(out) - place, chance.choice((1, 2, 8, 64, 512)))
        kind = chance.randrange(7)
        if kind == 0 and place < len(out):
            out[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del out[place : place + span]
        elif kind == 2:
            out[place:place] = out[place : place + span]
        elif kind == 3:
            out[place:place] = chance.choice(BYTES)
        elif kind == 4:
            out[place : place + span] = chance.randbytes(span)
        elif kind == 5:
            other = chance.randrange(len(out) + 1)
            out[place : place + span] = out[other : other + span]
        elif chance.random() < 0.2:
            del out[place:]
    return bytes(out)


def _mutate_json(content: bytes, chance: random.Random) -> bytes:
    tree = json.loads(content)
    node, steps = tree, chance.randrange(1, 5)
    for _ in range(steps):
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            break
        key = chance.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and chance.random() < 0.8:
            node = node[key]
            continue
        kind = chance.randrange(4)
        if kind == 0:
            del node[key]
        elif kind == 1 and isinstance(node, dict):
            node["".join(chance.choices(string.ascii_lowercase, k=6))] = node.pop(key)
        elif kind == 2 and isinstance(node[key], int | float) and not isinstance(node[key], bool):
            node[key] = chance.choice((node[key] + 1, -node[key], node[key] * 1000, node[key] / 3))
        else:
            node[key] = chance.choice(VALUES)
        break
    return json.dumps(tree).encode()


@dataclass
class Figures:
    """What came of the mutations of one target."""

    target: str
    cases: int = 0
    loaded: int = 0
    refused: int = 0
    failures: list[str] = field(default_factory=list)
    slowest_seconds: float = 0.0
    peak_megabytes: int = 0


@dataclass(frozen=True)
class Target:
    """One file, and what may come of loading it."""

    file: Path
    load: Callable[[], None]  # raises UserError, or AssertionError if what it loaded is wrong


SENTENCES = [f"Le livre numéro {i} est {'beau' if i % 2 else 'long'} ; « voilà », dit-elle." for i in range(30)]


def targets(folder: Path) -> dict[str, Target]:
    """Lay out a sound run and sound texts, and say how each file of them is loaded."""
    tokenizer = Tokenizer.train(SENTENCES, 300)
    shape = Shape(layers=1, hidden_size=8, heads=2, intermediate_size=8, context=16)
    recipe = Recipe("causal", "compact", shape, Training(steps=5), Data(), 300)
    run = Run.create(folder / "run", recipe)
    run.adopt(tokenizer)
    run.save_model(make_model(run.recipe), {"loss": 1.5, "step": 3})
    for step in range(4):
        run.log({"step": step, "loss": 1.5, "seconds": 0.5 * step})
    model = make_model(run.recipe)
    optimizers = make_optimizers(model, run.recipe.training)
    right = {name: tensor.clone() for name, tensor in tensors_of(model).items()}
    tensors = {f"model/{name}": tensor for name, tensor in right.items()}
    tensors |= {f"optimizer/{name}": t for name, t in state_tensors(model, optimizers).items()}
    state = asdict(replace(TrainingState(), step=3, best={"loss": 1.5, "step": 3}))
    run.save_checkpoint(3, tensors, {**state, "data": "x", "environment": environment()})
    checkpoint = next((run.path / "checkpoints").iterdir())

    def same(found: torch.nn.Module) -> None:
        assert all(torch.equal(p, right[name]) for name, p in found.named_parameters()), "other weights"

    def load_run() -> None:
        found = Run.open(run.path)
        found.scores  # noqa: B018
        same(found.load_model())

    def load_tokenizer() -> None:
        found = Run.open(run.path).tokenizer
        assert found.digest == tokenizer.digest, "another tokenizer"

    def load_foreign_tokenizer() -> None:
        found = Tokenizer.load(run.path / "tokenizer.json")
        ids = found.encode("Un livre, voilà.")
        assert all(0 <= id < found.size for id in ids), "ids outside the vocabulary"
        found.decode(ids)

    def load_checkpoint() -> None:
        with torch.no_grad():
            for p in model.parameters():
                p.zero_()
        assert restore(Run.open(run.path), model, optimizers, lambda message: None).step >= 0
        same(model)

    def load_metrics() -> None:
        found = Run.open(run.path)
        assert all(isinstance(entry["step"], int) for entry in found.metrics())
        assert found.seconds >= 0

    def write(name: str, text: str) -> Path:
        (folder / name).write_text(text, encoding="utf-8")
        return folder / name

    rows = [(text, str(i % 3)) for i, text in enumerate(SENTENCES)]
    text = write("text.txt", "\n".join(SENTENCES[:15]) + "\n\n" + "\n".join(SENTENCES[15:]))
    quoted = "".join(f'"{text}",{label}\r\n' for text, label in rows)
    table = write("table.csv", "text,label\r\n" + quoted)
    lines = "".join(
        json.dumps({"text": t, "label": n}, ensure_ascii=i % 2 == 0) + "\n" for i, (t, n) in enumerate(rows)
    )
    jsonl = write("table.jsonl", lines)

    def valid(texts: list[str]) -> None:
        for one in texts:
            assert "\0" not in one or jsonl, "a NUL"
            one.encode("utf-8")

    def load_text() -> None:
        found = list(documents([text]))
        assert all(one.strip() for one in found), "an empty document"
        valid(found)
        tokenizer.encode_many(found)

    def load_table(path: Path) -> Callable[[], None]:
        def load() -> None:
            problems = []
            for read in (
                lambda: [x for e in labelled(path) for x in (e.text, e.label)],
                lambda: texts_of(path),
                lambda: [x for pair in column_pairs(path, "text", "label") for x in pair],
            ):
                try:
                    valid(read())
                except UserError as problem:
                    problems.append(problem)
            if problems:
                raise problems[0]

        return load

    return {
        "recipe": Target(run.path / "recipe.json", load_run),
        "manifest": Target(run.path / "manifest.json", load_run),
        "weights": Target(run.path / "model.safetensors", load_run),
        "tokenizer": Target(run.path / "tokenizer.json", load_tokenizer),
        "foreign tokenizer": Target(run.path / "tokenizer.json", load_foreign_tokenizer),
        "checkpoint state": Target(checkpoint / "state.json", load_checkpoint),
        "checkpoint tensors": Target(checkpoint / "tensors.safetensors", load_checkpoint),
        "metrics": Target(run.path / "metrics.jsonl", load_metrics),
        "text": Target(text, load_text),
        "csv": Target(table, load_table(table)),
        "jsonl": Target(jsonl, load_table(jsonl)),
        **{name: Target(*found) for name, found in checkpoint_files(folder / "checkpoints", tokenizer).items()},
    }


def fuzz(name: str, target: Target, cases: int, seed: int) -> Figures:
    """Load one target under many mutations, and put it back."""
    sound = target.file.read_bytes()
    target.load()  # as it is, it loads
    target.file.write_bytes(sound)
    figures = Figures(name, cases)
    for case in range(cases):
        content = mutate(sound, random.Random(f"{seed}/{name}/{case}"))
        target.file.write_bytes(content)
        if case % 100 == 0:
            faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        started = time.perf_counter()
        try:
            target.load()
            figures.loaded += 1
        except UserError as refusal:
            figures.refused += 1
            if len(str(refusal)) > LARGEST_MESSAGE or len(str(refusal).splitlines()) > 1:
                figures.failures.append(f"case {case}: a message of {len(str(refusal)):,} characters")
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as problem:  # a panic of a Rust library is no Exception
            figures.failures.append(f"case {case}: {type(problem).__name__}: {str(problem)[:200]}")
        figures.slowest_seconds = max(figures.slowest_seconds, time.perf_counter() - started)
    faulthandler.cancel_dump_traceback_later()
    target.file.write_bytes(sound)
    figures.slowest_seconds = round(figures.slowest_seconds, 3)
    figures.peak_megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return figures


def main() -> None:
    """Fuzz the targets named, and print one JSON object a target."""
    parser = argparse.ArgumentParser()
    parser.add_argument("targets", nargs="+")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        known = targets(Path(folder))
        for name in known if asked.targets == ["all"] else asked.targets:
            print(json.dumps(asdict(fuzz(name, known[name], asked.cases, asked.seed))), flush=True)
    sys.exit()


if __name__ == "__main__":
    main()
