"""Fine-tunings of one run over folds of one labelled file: every text is judged once, at the last epoch.

    python bench/folds.py compact --train train.csv --folds 5 --epochs 5 --adversarial-epsilon 0.1 --pooling mean

Settings are told apart by more texts than a test set has, and no epoch is chosen on the texts that judge. TF-IDF with
logistic regression learns from the same folds; its C is chosen on the texts that judge, which flatters it a little.
Other options are those of `greffon finetune`.
"""

import argparse
import csv
import tempfile
from pathlib import Path

import numpy as np

import greffon
from greffon.comparison.baselines import tfidf
from greffon.core.rng import generator
from greffon.data.corpora import Labelled, labelled


def folds(examples: list[Labelled], count: int) -> list[list[int]]:
    """Deal the texts out, label by label, so that every fold has its share of each; copies of a text go together."""
    order = generator(0, "folds").permutation(len(examples))
    texts: dict[tuple[str, str], list[int]] = {}
    for i in order:
        texts.setdefault((examples[i].label, examples[i].text), []).append(int(i))
    dealt: list[list[int]] = [[] for _ in range(count)]
    for number, (_, copies) in enumerate(sorted(texts.items(), key=lambda item: item[0][0])):
        dealt[number % count] += copies
    return dealt


def write(path: Path, examples: list[Labelled]) -> Path:
    """Write labelled texts as a table."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *((e.text, e.label) for e in examples)])
    return path


def main() -> None:
    """Print the mean accuracy after each epoch, and TF-IDF's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    given, rest = parser.parse_known_args()
    settings = {
        name.removeprefix("--").replace("-", "_"): _read(value)
        for name, value in zip(rest[::2], rest[1::2], strict=True)
    }
    examples = labelled(given.train)
    dealt = folds(examples, given.folds)
    curves, baseline = [], []
    with tempfile.TemporaryDirectory() as place:
        for number, judges in enumerate(dealt):
            held = set(judges)
            train, test = ([e for i, e in enumerate(examples) if (i in held) == inside] for inside in (False, True))
            folder = Path(place) / str(number)
            folder.mkdir()
            files = {"train": write(folder / "train.csv", train), "valid": write(folder / "valid.csv", test)}
            run = greffon.finetune(
                given.run, out=folder / "run", epochs=given.epochs, seed=number, quiet=True, **files, **settings
            )
            curves.append([e["valid"]["accuracy"] for e in run.metrics() if "valid" in e])
            texts, labels = ([[getattr(e, f) for e in part] for part in (train, test)] for f in ("text", "label"))
            baseline.append(tfidf(texts[0], labels[0], texts[1], labels[1], texts[1]).valid_accuracy)
            print(f"fold {number + 1}: {curves[-1][-1]:.1%}, TF-IDF {baseline[-1]:.1%}", flush=True)
    print("after each epoch:", " ".join(f"{value:.1%}" for value in np.mean(curves, axis=0)))
    print(f"{len(examples)} texts: {np.mean([c[-1] for c in curves]):.1%}; TF-IDF {np.mean(baseline):.1%}")


def _read(value: str) -> object:
    """Read a setting as a number, where it is one."""
    try:
        return float(value) if "." in value or "e" in value else int(value)
    except ValueError:
        return {"true": True, "false": False}.get(value, value)


if __name__ == "__main__":
    main()
