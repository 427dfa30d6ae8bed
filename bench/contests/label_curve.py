"""A label curve: every arm of `compare` on 6 sizes × 3 draws of labels, with the fine-tunings on all labels beside."""

import tempfile
from pathlib import Path

from bench.contest import SECONDS, Contest
from bench.contests.finetuning import SMALL, Size
from bench.contests.neighbour import body_folder, prepare_comparison
from bench.turns import Turns

SHARES = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Sizes of the training set, as shares of all labelled texts."""
SEEDS = 3


def study(turns: Turns, size: Size, folder: Path) -> None:
    """`greffon.compare` of a body with scratch, frozen vectors, TF-IDF and the ensemble, one process per core."""
    from bench.data import LABELS, labelled_table
    from greffon.comparison.compare import compare

    train = labelled_table(folder, size.sources, size.texts, skip=0)
    test = labelled_table(folder, size.sources, size.held_out, skip=size.texts)
    sizes = sorted({max(2 * len(LABELS), round(share * size.texts)) for share in SHARES})
    for _ in turns:
        with tempfile.TemporaryDirectory() as place:
            made = compare(
                [body_folder(size, folder)],
                train=train,
                test=test,
                train_sizes=sizes,
                seeds=SEEDS,
                out=Path(place) / "comparison",
                quiet=True,
                **({"epochs": 1} if size == QUICK else {}),
            )
            arms = {name for each in made.results.train_sizes for name in each.arms}
        turns.report(1)
        turns.note(sizes=sizes, arms=sorted(arms))


SENTENCES = ("rotten_tomatoes",)
QUICK = SMALL
CONTESTS = (
    Contest(
        "label-curve",
        "a label curve: 6 sizes × 3 seeds × 5 arms, 1,000 reviews of one sentence",
        SECONDS,
        {"Greffon": study},
        Size(texts=1000, held_out=1000, context=64, sources=SENTENCES),
        QUICK,
        prepare_comparison,
        most_seconds=600.0,
        most_rounds=1,
        warm=False,
    ),
)
