"""Which texts are worth labelling first? Every strategy against random labels, on one labelled file.

    python -m bench.label RUN --train train.csv --test test.csv [--train-sizes 20,50,100,200] [--seeds 10]

Answers come from `train`, `test` judges; each seed draws nine tenths of the texts. A line a strategy: mean accuracy at
each number of labels, its standard error over the seeds, and the mean number of classes among the labels. The vectors
are computed once. `greffon label --simulate` writes the same for one strategy, with a figure.
"""

import argparse
import time
from pathlib import Path
from typing import get_args

import numpy as np

import greffon
from greffon.data.corpora import labelled
from greffon.labelling.strategy import Strategy
from greffon.labelling.study import compare_strategies


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--train-sizes", default="20,50,100,140,200,280")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--strategies", default=",".join(get_args(Strategy)))
    parser.add_argument("--vectors", type=Path, help="keep the vectors here, for the next time")
    given = parser.parse_args()
    examples, judges = labelled(given.train), labelled(given.test)
    if given.vectors and given.vectors.is_file():
        vectors = np.load(given.vectors)
    else:
        vectors = greffon.embed(given.run, [one.text for one in (*examples, *judges)])
        if given.vectors:
            np.save(given.vectors, vectors)
    sizes = [int(size) for size in given.train_sizes.split(",")]
    print(f"{'labels':<12}", *(f"{size:>12}" for size in sizes))
    for strategy in given.strategies.split(","):
        began = time.perf_counter()
        rows = [compare_strategies(vectors, examples, judges, sizes, [strategy], seed) for seed in range(given.seeds)]
        accuracy = 100 * np.array([[row[strategy][size].accuracy for size in sizes] for row in rows])
        classes = np.mean([[row[strategy][size].classes for size in sizes] for row in rows], axis=0)
        error = accuracy.std(axis=0, ddof=1) / np.sqrt(len(rows))
        shown = (f"{mean:.1f} ±{half:.1f}" for mean, half in zip(accuracy.mean(axis=0), error, strict=True))
        print(
            f"{strategy:<12}", *(f"{text:>12}" for text in shown), f"  {time.perf_counter() - began:.0f} s", flush=True
        )
        print(f"{'  classes':<12}", *(f"{number:>12.1f}" for number in classes), flush=True)


if __name__ == "__main__":
    main()
