"""Time and memory by the number of texts: tokenizer, token store, the start of a pretraining, vectors, TF-IDF.

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

from bench.__main__ import DATA, PAGE, RESULTS
from bench.machine import facts
from bench.report import clear_absent, load, number, save, write_page
from bench.scaling import in_own_process, slope
from bench.turns import peak_bytes

TEXTS = [10_000, 100_000, 1_000_000]
WORDS = 20
VOCABULARY = 4000
TINY = {"layers": 1, "hidden_size": 32, "heads": 2, "intermediate_size": 64, "context": 64, "batch_size": 8}
MOST_WORDS = 10**6


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


def pretraining(file: Path) -> None:
    """Pretrain for two steps, from the text to the finished run: the token store is built once more."""
    import greffon

    out = _folder(file) / "run"
    greffon.pretrain([file], tokenizer=_folder(file), out=out, steps=2, force=True, quiet=True, **TINY)


def embed(file: Path) -> None:
    """Compute a vector of every text."""
    from greffon.cli import run

    assert run(["embed", str(_folder(file) / "run"), "--file", str(file), "--out", str(_folder(file) / "v.npy")]) == 0


def tfidf(file: Path) -> None:
    """Count the words of all texts, as the baseline of `compare` does."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    from greffon.data.corpora import texts_of

    TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True).fit_transform(texts_of(file))


POINTS: dict[str, Callable[[Path], None]] = {
    "tokenizer": tokenizer,
    "store": store,
    "pretraining": pretraining,
    "embed": embed,
    "tfidf": tfidf,
}


def _folder(file: Path) -> Path:
    made = file.with_suffix("")
    made.mkdir(exist_ok=True)
    return made


def point(kind: str, file: Path) -> dict[str, float]:
    """Measure one point in this process."""
    started = time.perf_counter()
    POINTS[kind](file)
    return {"seconds": time.perf_counter() - started, "peak_gigabytes": peak_bytes() / 1e9}


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


def section(found: dict[str, Any]) -> str:
    """Show the points as a table; the powers are those between the last two points, where the start counts least."""
    lines = ["| step | texts | time | memory at the peak |", "| --- | --- | --- | --- |"]
    for kind, points in found.items():
        texts, seconds, memory = (
            " · ".join(written(one) for one in points)
            for written in (
                lambda one: f"{one['at']:,}",
                lambda one: f"{number(one['seconds'])} s",
                lambda one: f"{one['peak_gigabytes']:.2f} GB",
            )
        )
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
    write_page(PAGE, {"growth": section(found)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
