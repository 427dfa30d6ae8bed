"""Which texts are worth labelling first? Every strategy against random labels, on one labelled file.

    python -m bench.label RUN --train train.csv --test test.csv [--train-sizes 20,50,100,200] [--seeds 10]

Answers come from `train`, `test` judges; each seed draws nine tenths of the texts. Two lines a strategy: mean accuracy
at each number of labels with its 95 % interval over the seeds, and the mean number of classes among the labels. Then
the differences from random labels, paired by the seeds: from as many, and from 1.4 times as many. The vectors are
computed once. `greffon label --simulate` writes the same for one strategy, with a figure.
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np

import greffon
from greffon.data.corpora import labelled
from greffon.labelling.answers import OneClass
from greffon.labelling.strategy import Strategy
from greffon.labelling.study import RANDOM, Found, compare_strategies, paired, spread


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--train-sizes", default="20,50,100,200")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--strategies", default=",".join(name for name in get_args(Strategy) if name != RANDOM))
    parser.add_argument("--vectors", type=Path, help="keep the vectors here, for the next time")
    given = parser.parse_args()
    examples, judges = labelled(given.train), labelled(given.test)
    if given.vectors and given.vectors.is_file():
        vectors = np.load(given.vectors)
    else:
        vectors = greffon.embed(given.run, [one.text for one in (*examples, *judges)])
        if given.vectors:
            np.save(given.vectors, vectors)
    answers = OneClass(tuple(sorted({one.label for one in (*examples, *judges)})))
    sizes = [int(size) for size in given.train_sizes.split(",")]
    print(f"{'labels':<12}", *(f"{size:>14}" for size in sizes))

    def study(strategy: Strategy) -> list[Found]:
        return [
            compare_strategies(vectors, examples, judges, answers, sizes, [strategy], seed)
            for seed in range(given.seeds)
        ]

    random = study(RANDOM)
    _row(RANDOM, random, sizes)
    for strategy in given.strategies.split(","):
        began = time.perf_counter()
        found = [one | other for one, other in zip(random, study(strategy), strict=True)]
        _row(strategy, found, sizes)
        for gain in paired(found, sizes, strategy):
            low, high = (100 * side for side in gain.difference.interval)
            ahead = gain.difference.mean >= 0
            told = ("better", "worse") if gain.random == gain.chosen else ("reached", "not reached")
            certain = "certain" if low > 0 or high < 0 else "not certain"
            print(
                f"  {gain.chosen} chosen - {gain.random} random: {100 * gain.difference.mean:+.1f} "
                f"({low:+.1f} to {high:+.1f}) points: {told[not ahead]}, {certain}"
            )
        print(f"  {time.perf_counter() - began:.0f} s", flush=True)


def _row(strategy: str, found: Sequence[Found], sizes: Sequence[int]) -> None:
    accuracy = [spread([100 * one[strategy][size].score for one in found]) for size in sizes]
    shown = (f"{one.mean:.1f} ±{(one.interval[1] - one.interval[0]) / 2:.1f}" for one in accuracy)
    print(f"{strategy:<12}", *(f"{text:>14}" for text in shown), flush=True)
    classes = (spread([one[strategy][size].classes for one in found]).mean for size in sizes)
    print(f"{'  classes':<12}", *(f"{number:>14.1f}" for number in classes), flush=True)


if __name__ == "__main__":
    main()
