"""Time and memory by the number of texts: tokenizer, token store, the start of a pretraining, vectors, `compare`.

    python -m bench.growth [--texts 10000 100000 1000000] [--quick]

Every point is a process of its own, on made-up texts of some twenty words. The bodies are tiny: what is asked is
whether something grows faster than the texts, and what stays in memory.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.__main__ import DATA, PAGE, RESULTS
from bench.harness import ROOT
from bench.machine import facts
from bench.report import clear_absent, load, number, save, write_page
from bench.scaling import in_own_process, slope
from bench.turns import peak_bytes

TEXTS = [10_000, 100_000, 1_000_000]
WORDS = 20
VOCABULARY = 4000
TINY = {"layers": 1, "hidden_size": 32, "heads": 2, "intermediate_size": 64, "context": 64, "batch_size": 8}
MOST_WORDS = 10**6
FIGURE = ROOT / "docs" / "growth.png"


def made_up_texts(path: Path, count: int) -> Path:
    """Write a table of texts of two classes; new words never stop coming, as in real text."""
    import numpy as np

    from greffon.core.rng import generator

    if not path.is_file():
        random = generator(0, "made up", count)
        part = path.with_suffix(".part")
        with part.open("w", encoding="utf-8") as out:
            out.write("text,label\n")
            for first in range(0, count, 1000):
                rows = np.minimum(random.zipf(1.3, (min(1000, count - first), WORDS)), MOST_WORDS)
                out.writelines(
                    " ".join(f"{'aeiou'[n % 5]}{n:x}" for n in row) + f",{'ab'[int(row[0] % 2)]}\n"
                    for row in rows.tolist()
                )
        part.rename(path)
    return path


def tokenizer(file: Path) -> None:
    """Train a tokenizer."""
    from greffon.data.corpora import documents
    from greffon.data.tokenizer import Tokenizer

    Tokenizer.train(documents([file]), VOCABULARY).save(_folder(file))


def store(file: Path) -> None:
    """Build the token store that pretraining reads."""
    from greffon.data.token_store import open_store
    from greffon.data.tokenizer import Tokenizer

    open_store([file], Tokenizer.load(_folder(file)), cache=_folder(file) / f"store-{time.time_ns()}")


def pretraining(file: Path) -> dict[str, float]:
    """Pretrain for two steps, from the text to the finished run; its start, up to the first step, is timed alone.

    The token store is built once more.
    """
    import greffon
    from greffon.training import trainer
    from greffon.training.loop import fit

    out, begun = _folder(file) / "run", list[float]()

    def steps(*arguments: Any, **more: Any) -> Any:
        begun.append(time.perf_counter())
        return fit(*arguments, **more)

    started = time.perf_counter()
    with patch.object(trainer, "fit", steps):
        greffon.pretrain([file], tokenizer=_folder(file), out=out, steps=2, force=True, quiet=True, **TINY)
    return {"start_seconds": begun[0] - started}


def embed(file: Path) -> None:
    """Compute a vector of every text."""
    from greffon.cli import run

    assert run(["embed", str(_folder(file) / "run"), "--file", str(file), "--out", str(_folder(file) / "v.npy")]) == 0


def tfidf(file: Path) -> None:
    """Count the words of all texts, as the baseline of `compare` does."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    from greffon.data.corpora import texts_of

    TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True).fit_transform(texts_of(file))


def compare(file: Path) -> None:
    """Do what `compare` does before its tasks: check all texts, keep their vectors, and TF-IDF of half of them."""
    from greffon.comparison.label_curve import make_tables
    from greffon.comparison.study import Plan, make_study
    from greffon.core.recipe import Data
    from greffon.runs.run import Run

    tell: Callable[[str], None] = lambda message: None  # noqa: E731
    texts = sum(1 for _ in file.open(encoding="utf-8")) - 1
    data = Data(train=(str(file),), hold_out_test=True)
    plan = Plan(seeds=1, epochs=1, train_sizes=(texts // 2,), adapt=False, gradual_unfreezing=False, settings={})
    study = make_study([Run.open(_folder(file) / "run")], data, plan, tell)
    make_tables(_folder(file) / f"compare-{time.time_ns()}", study, tell)


POINTS: dict[str, Callable[[Path], dict[str, float] | None]] = {
    "tokenizer": tokenizer,
    "store": store,
    "pretraining": pretraining,
    "embed": embed,
    "tfidf": tfidf,
    "compare": compare,
}


def _folder(file: Path) -> Path:
    made = file.with_suffix("")
    made.mkdir(exist_ok=True)
    return made


def point(kind: str, file: Path) -> dict[str, float]:
    """Measure one point in this process."""
    started = time.perf_counter()
    parts = POINTS[kind](file) or {}
    return {"seconds": time.perf_counter() - started, **parts, "peak_gigabytes": peak_bytes() / 1e9}


def measure(folder: Path, counts: list[int], threads: int) -> dict[str, Any]:
    """Measure all points, from few texts to many."""
    found: dict[str, Any] = {}
    for count in counts:
        file = made_up_texts(folder / f"texts-{count}.csv", count)
        for kind in POINTS:
            answer = in_own_process(kind, str(file), threads, folder, module="bench.growth")
            found.setdefault(kind, []).append({"at": count, **answer})
            print(kind, found[kind][-1], flush=True)
    return found


def draw(found: dict[str, Any], path: Path) -> Path:
    """Time and memory at the peak, by the number of texts, one line for each step; both scales are logarithmic."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from greffon.plots.style import inks
    from greffon.plots.style import save as save_figure

    ink, soft, paper = inks(dark=False)
    figure = Figure(figsize=(9, 4.2), facecolor=paper)
    FigureCanvasAgg(figure)
    for axes, name, what in zip(
        figure.subplots(1, 2), ("seconds", "peak_gigabytes"), ("seconds", "GB at the peak"), strict=True
    ):
        for (kind, points), marker in zip(found.items(), "os^vDP", strict=False):
            axes.loglog([one["at"] for one in points], [one[name] for one in points], marker=marker, label=kind)
        axes.set_title(what, color=soft, fontsize=9, loc="left")
        axes.set_xlabel("texts", color=ink, fontsize=9)
        axes.grid(color=soft, alpha=0.25, linewidth=0.7)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=ink, labelsize=8)
    axes.legend(frameon=False, fontsize=8, labelcolor=ink)
    figure.tight_layout()
    return save_figure(figure, path)


def section(found: dict[str, Any]) -> str:
    """Show the points as a table; the powers are those between the last two points, where the start counts least."""
    lines = [
        f"![Time and memory by the number of texts]({FIGURE.relative_to(ROOT)})",
        "",
        "| step | texts | time | memory at the peak |",
        "| --- | --- | --- | --- |",
    ]
    for kind, points in found.items():
        texts, seconds, memory = (
            " · ".join(written(one) for one in points)
            for written in (
                lambda one: f"{one['at']:,}",
                lambda one: f"{number(one['seconds'])} s",
                lambda one: f"{one['peak_gigabytes']:.2f} GB",
            )
        )
        if "start_seconds" in points[0]:
            seconds += f"; to the first step {' · '.join(number(one['start_seconds']) for one in points)} s"
        powers = [slope(points[-2:], name) if len(points) > 1 else 0.0 for name in ("seconds", "peak_gigabytes")]
        lines.append(f"| {kind} | {texts} | {seconds} (power {powers[0]:z.2f}) | {memory} (power {powers[1]:z.2f}) |")
    return "\n".join(lines)


def main(words: list[str] | None = None) -> int:
    """Measure, and add the outcome to the results and the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("--texts", type=int, nargs="+", default=TEXTS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, no page: does everything work?")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--point", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args(words)
    if args.point:
        print(json.dumps(point(args.point[0], Path(args.point[1]))))
        return 0
    folder = args.data.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    found = measure(folder, [200, 400] if args.quick else args.texts, args.threads)
    if args.quick:
        print(section(found))
        return 0
    results = {**load(RESULTS, facts(args.threads, folder)), "growth": found}
    save(RESULTS, results)
    clear_absent(PAGE, results)
    draw(found, FIGURE)
    write_page(PAGE, {"growth": section(found)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
