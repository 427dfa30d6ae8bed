"""Cost grows as it should: speed and memory of Greffon against context, vocabulary, width and corpus size.

    python -m bench.scaling [--gigabyte] [--quick]

Every point is a process of its own. Training points: the `compact` preset with one thing changed, 2,048
tokens a step whatever the context. Corpus points: a made-up text, in which new words never stop coming,
through the tokenizer's training and into a token store.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from bench.__main__ import DATA, PAGE, RESULTS
from bench.harness import ROOT, environment
from bench.machine import facts
from bench.report import clear_absent, load, number, save, write_page
from bench.turns import peak_bytes

TOKENS = 2048
AXES: dict[str, list[int]] = {
    "context": [64, 128, 256, 512, 1024, 2048],
    "context (local)": [512, 1024, 2048],
    "vocab_size": [1000, 4000, 16_000, 64_000],
    "hidden_size": [64, 128, 256, 512],
}
QUICK_AXES = {"context": [16, 32], "context (local)": [16, 32], "vocab_size": [300, 600], "hidden_size": [16, 32]}
LOCAL = {"local_attention": 128, "global_attention_every": 1000}
"""The axis of bodies in which all layers but the first see a window of 128 tokens."""
MEGABYTES = [1, 10, 100]
FIGURE = ROOT / "docs" / "scaling.png"


def training_point(change: dict[str, int], steps: int = 10) -> dict[str, float]:
    """Tokens a second and peak memory of `compact` with one thing changed, on random tokens."""
    import numpy as np

    from greffon.core.config import override
    from greffon.core.machine import keep_memory
    from greffon.core.own_presets import compact
    from greffon.core.recipe import Data, Recipe
    from greffon.core.rng import generator
    from greffon.nn.build import make_model
    from greffon.objectives.causal import Causal
    from greffon.training.loop import fit
    from greffon.training.optim import make_optimizers

    keep_memory()
    preset, vocabulary = compact(), change.get("vocab_size", compact().vocab_size)
    width = change.get("hidden_size", preset.shape.hidden_size)
    shape = override(preset.shape, {**change, "intermediate_size": 4 * width})
    rows = max(1, TOKENS // shape.context)
    training = replace(preset.training, batch_size=rows, steps=steps)
    model = make_model(Recipe("causal", "compact", shape, training, Data(), vocabulary))
    objective = Causal(padding=0, start=1, length=shape.context, byte_lengths=np.ones(vocabulary))
    batch = objective.batch(list(generator(0, "scaling").integers(6, vocabulary, (rows, shape.context + 1))))
    done = fit(model, objective, lambda step: [batch], make_optimizers(model, training), training)
    speeds = [step.tokens / step.seconds for step in islice(done, 3, None)]  # the first pay for fresh memory
    return {"tokens_per_second": statistics.median(speeds), "peak_gigabytes": peak_bytes() / 1e9}


def made_up_text(path: Path, megabytes: float) -> Path:
    """Lines of made-up words, the frequent ones short; as in real text, new words never stop coming."""
    import numpy as np

    from greffon.core.rng import generator

    syllables = [a + b for a in "bcdfglmnprstv" for b in "aeiou"]
    known: dict[int, str] = {}

    def word(number: int) -> str:
        if number not in known:
            left, parts = number, []
            while left:
                left, part = divmod(left, len(syllables))
                parts.append(syllables[part])
            known[number] = "".join(parts)
        return known[number]

    if not path.is_file():
        random, size = generator(0, "made up", int(1e3 * megabytes)), 0.0
        with path.with_suffix(".part").open("w", encoding="utf-8") as out:
            while size < 1e6 * megabytes:
                words = [word(int(number)) for number in np.minimum(random.zipf(1.3, 20_000), 10**7)]
                lines = "\n".join(" ".join(words[i : i + 200]) for i in range(0, len(words), 200)) + "\n"
                out.write(lines)
                size += len(lines)
        path.with_suffix(".part").rename(path)
    return path


def tokenizer_point(file: Path) -> dict[str, float]:
    """Train a tokenizer on a file, and save it beside."""
    from greffon.data.corpora import documents
    from greffon.data.tokenizer import Tokenizer

    started = time.perf_counter()
    Tokenizer.train(documents([file]), 8000).save(file.with_suffix(".json"))
    return _corpus_facts(file, started)


def store_point(file: Path) -> dict[str, float]:
    """Build the token store of a file."""
    from greffon.data.token_store import open_store
    from greffon.data.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(file.with_suffix(".json"))
    started = time.perf_counter()
    open_store([file], tokenizer, cache=file.with_suffix(f".{time.time_ns()}.store"))
    return _corpus_facts(file, started)


def _corpus_facts(file: Path, started: float) -> dict[str, float]:
    speed = file.stat().st_size / 1e6 / (time.perf_counter() - started)
    return {"megabytes_per_second": speed, "peak_gigabytes": peak_bytes() / 1e9}


POINTS = {"tokenizer": tokenizer_point, "store": store_point}


def in_own_process(kind: str, what: str, threads: int, folder: Path, module: str = "bench.scaling") -> dict[str, float]:
    """Measure one point in a process of its own."""
    words = [sys.executable, "-m", module, "--point", kind, what]
    made = subprocess.run(
        words, cwd=ROOT, env=environment(threads, folder), capture_output=True, text=True, check=False
    )
    if made.returncode:
        raise SystemExit(f"{kind} {what}: {made.stderr[-2000:]}")
    answer: dict[str, float] = json.loads(made.stdout.splitlines()[-1])
    return answer


def measure(folder: Path, megabytes: list[float], axes: dict[str, list[int]], threads: int) -> dict[str, Any]:
    """All points: axis by axis, then the corpora."""
    import shutil

    found: dict[str, Any] = {}
    base = {"hidden_size": 16, "heads": 2, "context": 16, "vocab_size": 300} if axes is QUICK_AXES else {}
    for axis, places in axes.items():
        for place in places:
            name, local, _ = axis.partition(" (local)")
            change = json.dumps({**base, **(LOCAL if local else {}), name: place})
            found.setdefault(axis, []).append({"at": place, **in_own_process("training", change, threads, folder)})
            print(axis, found[axis][-1], flush=True)
    for size in megabytes:
        file = made_up_text(folder / f"made-up-{size:g}.txt", size)
        for kind in POINTS:
            answer = in_own_process(kind, str(file), threads, folder)
            found.setdefault(kind, []).append({"at": size, **answer})
            print(kind, found[kind][-1], flush=True)
        for store in folder.glob(f"{file.stem}.*.store"):
            shutil.rmtree(store)
    return found


def draw(found: dict[str, Any], path: Path) -> Path:
    """Speed above, memory below, one column for each thing that grows."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from greffon.plots.style import inks
    from greffon.plots.style import save as save_figure

    ink, soft, paper = inks(dark=False)
    blue, red = ("#2b5c8a", "o"), ("#b5533c", "s")
    columns = [
        ("tokens of context", "tokens/s", {"context": blue, "context (local)": red}),
        ("tokens of vocabulary", "tokens/s", {"vocab_size": blue}),
        ("width", "tokens/s", {"hidden_size": blue}),
        ("megabytes of text", "MB/s", {"tokenizer": red, "store": blue}),
    ]
    figure = Figure(figsize=(11, 5.2), facecolor=paper)
    FigureCanvasAgg(figure)
    grid = figure.subplots(2, len(columns), sharex="col")
    for column, (label, unit, lines) in enumerate(columns):
        speed = "tokens_per_second" if unit == "tokens/s" else "megabytes_per_second"
        places = [point["at"] for point in found[next(iter(lines))]]
        for axes, name, what in zip(grid[:, column], (speed, "peak_gigabytes"), (unit, "GB at the peak"), strict=True):
            for axis, (colour, marker) in lines.items():
                values = [point[name] for point in found[axis]]
                axes.plot(places, values, color=colour, marker=marker, linewidth=2, markersize=5, label=axis)
            highest = max(point[name] for axis in lines for point in found[axis])
            axes.set_xscale("log")
            axes.set_ylim(0, 1.12 * highest)
            axes.set_xticks(places, [f"{place:,g}" for place in places], rotation=45)
            axes.minorticks_off()
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.3g}" if value < 1000 else f"{value:,.0f}")
            axes.set_title(what, color=soft, fontsize=8.5, loc="left")
            axes.grid(axis="y", color=soft, alpha=0.25, linewidth=0.7)
            axes.spines[["top", "right", "left"]].set_visible(False)
            axes.spines["bottom"].set_color(soft)
            axes.tick_params(colors=ink, labelsize=8, length=0)
        grid[1, column].set_xlabel(label, color=ink, fontsize=9, fontweight="bold")
        if len(lines) > 1:
            grid[0, column].legend(frameon=False, fontsize=8, labelcolor=ink, loc="upper left")
    figure.tight_layout()
    return save_figure(figure, path)


def slope(points: list[dict[str, float]], name: str) -> float:
    """The exponent of growth between the first point and the last: 1 is linear, 0 is flat.

    >>> slope([{"at": 1, "y": 3.0}, {"at": 10, "y": 30.0}], "y")
    1.0
    """
    first, last = points[0], points[-1]
    return math.log(last[name] / first[name]) / math.log(last["at"] / first["at"])


def section(found: dict[str, Any]) -> str:
    """The figure, and the points as a table."""
    lines = [
        "![Speed and memory against context, vocabulary, width and corpus size](docs/scaling.png)",
        "",
        "| what grows | from – to | speed | memory at the peak |",
        "| --- | --- | --- | --- |",
    ]
    for axis, points in found.items():
        speed = "tokens_per_second" if "tokens_per_second" in points[0] else "megabytes_per_second"
        unit = "tokens/s" if speed == "tokens_per_second" else "MB/s"
        first, last = points[0], points[-1]
        name = axis if unit == "tokens/s" else f"corpus (MB), {axis}"
        lines.append(
            f"| {name} | {first['at']:,g} – {last['at']:,g} | {number(first[speed])} – {number(last[speed])} {unit} | "
            f"{first['peak_gigabytes']:.2f} – {last['peak_gigabytes']:.2f} GB "
            f"(grows with power {slope(points, 'peak_gigabytes'):z.2f}) |"
        )
    return "\n".join(lines)


def main(words: list[str] | None = None) -> int:
    """Measure, draw, and add the outcome to the results and the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.scaling", description=__doc__)
    parser.add_argument("--gigabyte", action="store_true", help="also a corpus of 1,000 MB")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, no page: does everything work?")
    parser.add_argument("--results", type=Path, default=None)
    parser.add_argument("--figure", type=Path, default=None)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args(words)
    if args.point:
        kind, what = args.point
        print(json.dumps(training_point(json.loads(what)) if kind == "training" else POINTS[kind](Path(what))))
        return 0
    folder = args.data.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    machine = facts(args.threads, folder)
    sizes: list[float] = [0.05, 0.1] if args.quick else [*MEGABYTES, *[1000] * args.gigabyte]
    found = measure(folder, sizes, QUICK_AXES if args.quick else AXES, args.threads)
    file = args.results or (None if args.quick else RESULTS)
    figure = args.figure or (None if args.quick else FIGURE)
    results = {**load(file, machine), "scaling": found}
    if file:
        save(file, results)
    if figure:
        draw(found, figure)
    if not args.quick:
        clear_absent(PAGE, results)
        write_page(PAGE, {"scaling": section(found)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
