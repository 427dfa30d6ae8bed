"""How many labels does a body save? The measures of few labels, in one command.

    python -m bench.few_labels --data DIR [--only imdb banking77 …] [--minutes M] [--draws 3] [--minilm DIR] [--quick]

Each study pretrains a body on unlabelled text (`pretrain --objective contrastive --minutes M`) and asks `compare
--train-sizes` from how many labels on which arm wins. A study whose files are not there is skipped, and says so. What
is finished is not done again when the command is repeated. The outcome is written into docs/few-labels.md, with a
figure for each study; with --quick, which tries everything on a little text, only printed.

DIR has the layout of `FILES`; none of it comes with the package.
"""

import argparse
import csv
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from typing import Any

from bench.harness import ROOT
from bench.report import NOT_YET, put_between
from greffon.core.files import write_atomically

PAGE, OUT = ROOT / "docs" / "few-labels.md", ROOT / "bench" / "data" / "few-labels"
QUICK_SHAPE = {"layers": 1, "hidden_size": 32, "heads": 2, "intermediate_size": 32, "context": 64, "batch_size": 16}


Rows = list[dict[str, str]]


@dataclass(frozen=True)
class Measure:
    """A score, or its distance from TF-IDF, that is asked for."""

    arm: str
    size: int
    wanted: float
    against_tfidf: bool = False


@dataclass(frozen=True)
class Study:
    """A body, and a question about labels."""

    title: str
    texts: tuple[str, ...]
    """Unlabelled text of the body; none where it is imported."""
    minutes: float
    train: str
    test: str
    sizes: tuple[int, ...]
    measures: tuple[Measure, ...]
    balanced: bool = False
    """Whether the training texts are first cut to the same number for each class."""
    relabelled: Callable[[Rows], Rows] | None = None
    """Makes another task of the labelled texts, by a rule that looks at the names of the classes alone."""
    body: str = ""
    """Study whose body is taken; none for one of its own."""


def about_cards(rows: Rows) -> Rows:
    """Make two classes: whether a question is about a card, as the name of its class has it."""
    return [{**row, "label": "card" if "card" in row["label"] else "other"} for row in rows]


def every_eighth(rows: Rows) -> Rows:
    """Keep the texts of every eighth class, in the order of their names: ten of 77."""
    kept = {*sorted({row["label"] for row in rows})[::8]}
    return [row for row in rows if row["label"] in kept]


IMDB, BOOKS, BANKING = "imdb", "french-book-reviews", "banking77"
STUDIES = {
    "imdb": Study(
        "IMDB reviews, a body from unlabelled reviews",
        ("imdb/unlabelled.txt.xz",),
        20,
        "imdb/train.csv",
        "imdb/valid.csv",
        (20, 50, 100, 200, 500, 1000),
        (
            *(Measure("pretrained", *each) for each in ((20, 0.75), (100, 0.81), (1000, 0.85))),
            Measure("ensemble", 1000, 0.86),
            *(Measure("pretrained", *each, True) for each in ((20, 0.12), (100, 0.08), (1000, 0.01))),
        ),
    ),
    "books": Study(
        "French book reviews, a body from other reviews and the texts to train on",
        ("french-text/book-reviews.txt.xz", "french-book-reviews/train.csv"),
        10,
        "french-book-reviews/train.csv",
        "french-book-reviews/valid.csv",
        (20, 100, 400, 1600),
        (Measure("best", 1600, 0.01, True), Measure("best", 100, 0.04, True)),
    ),
    "banking77": Study(
        "Questions of bank customers in 77 classes, a body from the training texts alone",
        ("banking77/train.csv",),
        10,
        "banking77/train.csv",
        "banking77/test.csv",
        (77, 385, 1540),
        (
            Measure("pretrained", 77, 0.0, True),
            Measure("pretrained", 385, 0.03, True),
            Measure("pretrained", 1540, -0.01, True),
        ),
        balanced=True,
    ),
    "short-2": Study(
        "The same questions in two classes: about a card, or not",
        ("banking77/train.csv",),
        10,
        "banking77/train.csv",
        "banking77/test.csv",
        (20, 100, 1000),
        (Measure("pretrained", 20, 0.0, True), Measure("pretrained", 1000, -0.01, True)),
        relabelled=about_cards,
        body="banking77",
    ),
    "short-10": Study(
        "The same questions, of ten classes alone",
        ("banking77/train.csv",),
        10,
        "banking77/train.csv",
        "banking77/test.csv",
        (20, 100, 800),
        (Measure("pretrained", 20, 0.0, True), Measure("pretrained", 800, -0.01, True)),
        relabelled=every_eighth,
        body="banking77",
    ),
    "minilm": Study(
        "IMDB reviews, an imported sentence encoder",
        (),
        0,
        "imdb/train.csv",
        "imdb/valid.csv",
        (20, 50, 100, 200, 500, 1000),
        tuple(Measure("pretrained", size, 0.0, True) for size in (20, 50, 100, 200, 500, 1000)),
    ),
}
FILES = sorted({file for study in STUDIES.values() for file in (*study.texts, study.train, study.test)})


def main(words: list[str] | None = None) -> int:
    """Carry out the studies whose files are there, and write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.few_labels", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help=f"folder with {', '.join(FILES)}")
    parser.add_argument("--only", nargs="+", choices=list(STUDIES), default=list(STUDIES), metavar="NAME")
    parser.add_argument("--minutes", type=float, help="minutes of every pretraining (default: each study's own)")
    parser.add_argument("--draws", type=int, default=3, help="draws of labels, and seeds")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--minilm", type=Path, help="folder of the checkpoint of a sentence encoder to import")
    parser.add_argument("--out", type=Path, default=OUT, help=f"default: {OUT.relative_to(ROOT)}")
    parser.add_argument("--quick", action="store_true", help="tiny bodies, few texts, no page: does everything work?")
    args = parser.parse_args(words)
    for name in args.only:
        if missing := absent(name, args):
            print(f"{name}: skipped, {missing}", file=sys.stderr, flush=True)
            continue
        began = time.monotonic()
        found = carry_out(name, args)
        print(f"{name}: {(time.monotonic() - began) / 60:.1f} minutes\n{section(name, found)}", flush=True)
        if not args.quick:
            write_section(name, found)
    return 0


def absent(name: str, args: argparse.Namespace) -> str:
    """Say what a study lacks; nothing if it can be carried out."""
    study = STUDIES[name]
    missing = [file for file in (*study.texts, study.train, study.test) if not (args.data / file).is_file()]
    if missing:
        return f"{args.data} has no {', '.join(missing)}"
    if not study.texts and (args.minilm is None or not args.minilm.is_dir()):
        return "it needs the folder of a checkpoint: --minilm DIR"
    return ""


def carry_out(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Make the body and the comparison of a study; return what was found."""
    from greffon.comparison.compare import compare
    from greffon.runs.run import Run

    study, folder = STUDIES[name], args.out.resolve() / ("quick" if args.quick else "") / name
    folder.mkdir(parents=True, exist_ok=True)
    train, test = prepared(study, args.data, folder, few=args.quick)
    body = make_body(study, args, folder.with_name(study.body or name) / "body")
    sizes = study.sizes[:2] if args.quick else study.sizes
    made = compare(
        [body],
        train=train,
        test=test,
        out=folder / "comparison",
        seeds=2 if args.quick else args.draws,
        epochs=1 if args.quick else args.epochs,
        train_sizes=sizes,
    )
    run = Run.open(body)
    return {
        "study": name,
        "minutes": None if run.recipe.imported else run.seconds / 60,
        "steps": run.recipe.training.steps,
        "results": json.loads((made.path / "results.json").read_text(encoding="utf-8")),
        "figure": str(made.train_sizes_figure),
    }


def make_body(study: Study, args: argparse.Namespace, out: Path) -> Path:
    """Pretrain or import the body of a study, unless that is finished."""
    from greffon.runs.huggingface.import_checkpoint import import_checkpoint
    from greffon.training.pretrain import pretrain, resume

    if not study.texts:
        if not (out / "recipe.json").is_file():
            import_checkpoint(args.minilm, out=out)
        return out
    if (out / "recipe.json").is_file():
        if not (out / "finished").is_file():
            resume(out)
        return out
    texts = [args.data / text for text in study.texts]
    out.parent.mkdir(parents=True, exist_ok=True)
    if args.quick:
        texts = [head(text, out.parent / f"{i}.txt") for i, text in enumerate(texts)]
        pretrain(texts, objective="contrastive", out=out, steps=4, vocab_size=500, **QUICK_SHAPE)
    else:
        pretrain(texts, objective="contrastive", out=out, minutes=args.minutes or study.minutes)
    return out


def prepared(study: Study, data: Path, folder: Path, few: bool) -> tuple[Path, Path]:
    """Return the labelled files of a study: as they are, or relabelled, or balanced, or a few of their texts."""
    train, test = data / study.train, data / study.test
    if study.relabelled:
        train = rewritten(train, folder / "own-train.csv", study.relabelled)
        test = rewritten(test, folder / "own-test.csv", study.relabelled)
    if study.balanced:
        train = rewritten(train, folder / "train.csv", balance)
    if few:
        train = rewritten(train, folder / "few-train.csv", lambda rows: balance(rows)[: 2 * study.sizes[1]])
        test = rewritten(test, folder / "few-test.csv", lambda rows: balance(rows)[:60])
    return train, test


def rewritten(source: Path, target: Path, change: Callable[[Rows], Rows]) -> Path:
    """Write a changed copy of a labelled file."""
    with source.open(encoding="utf-8", newline="") as file:
        rows = change(list(csv.DictReader(file)))
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return target


def balance(rows: Rows) -> Rows:
    """Keep as many texts of each class as the smallest has, class by class in turn."""
    groups: dict[str, Rows] = defaultdict(list)
    for row in rows:
        groups[row["label"]].append(row)
    return [row for turn in zip(*groups.values(), strict=False) for row in turn]


def head(source: Path, target: Path) -> Path:
    """Write the first documents of a text."""
    from itertools import islice

    from greffon.data.corpora import documents

    target.write_text("\n".join(" ".join(text.split()) for text in islice(documents([source]), 300)), encoding="utf-8")
    return target


def section(name: str, found: dict[str, Any]) -> str:
    """Write the outcome of a study as Markdown."""
    study, results = STUDIES[name], found["results"]
    sizes = results["train_sizes"]
    body = "imported" if found["minutes"] is None else f"{found['minutes']:.0f} minutes, {found['steps']:,} steps"
    draws = len(sizes[0]["arms"]["tfidf"]["by_draw"])
    lines = [
        f"{study.title}: body {body}; {draws} draws of labels; {results['data']['test']:,} test texts.",
        "",
        "| labels | " + " | ".join(f"{entry['size']:,}" for entry in sizes) + " |",
        "| --- |" + " --- |" * len(sizes),
    ]
    for arm in sizes[0]["arms"]:
        lines.append(f"| {arm} | " + " | ".join(score(entry["arms"][arm]) for entry in sizes) + " |")
    for arm in ("pretrained", "ensemble"):
        lines.append(f"| {arm} − tfidf | " + " | ".join(difference(entry, arm) for entry in sizes) + " |")
    lines += ["", "| measure | asked | reached | |", "| --- | --- | --- | --- |"]
    lines += [row for measure in study.measures if (row := judged(measure, sizes))]
    return "\n".join([*lines, "", results["verdict"]])


def score(arm: dict[str, Any]) -> str:
    """Write a score with its interval, in percent."""
    low, high = arm["interval"]
    return f"{100 * arm['mean']:.1f} ({100 * low:.1f} to {100 * high:.1f})"


def difference(entry: dict[str, Any], arm: str) -> str:
    """Write the distance of an arm from TF-IDF with its interval, in points."""
    found = next(each for each in entry["differences"] if (each["a"], each["b"]) == (arm, "tfidf"))
    low, high = found["interval"]
    return f"{100 * found['mean']:+.1f} ({100 * low:.1f} to {100 * high:.1f})"


def judged(measure: Measure, sizes: Sequence[dict[str, Any]]) -> str:
    """Compare a measure with what was reached; nothing where the size was not tried."""
    entry = next((each for each in sizes if each["size"] == measure.size), None)
    if entry is None:
        return ""
    candidates = ("pretrained", "frozen", "ensemble") if measure.arm == "best" else (measure.arm,)
    arm = max(candidates, key=lambda name: entry["arms"][name]["mean"])
    reached = entry["arms"][arm]["mean"]
    if measure.against_tfidf:
        reached -= entry["arms"]["tfidf"]["mean"]
    name = f"{arm} (best on the test texts, which flatters it)" if measure.arm == "best" else arm
    sign = "+" if measure.against_tfidf else ""
    about = f"{name}{' − tfidf' if measure.against_tfidf else ''}, {measure.size:,} labels"
    verdict = "reached" if reached >= measure.wanted else "not reached"
    return f"| {about} | {100 * measure.wanted:{sign}.1f} | {100 * reached:{sign}.1f} | {verdict} |"


def write_section(name: str, found: dict[str, Any]) -> None:
    """Write a study into the page, with its figure beside."""
    figure = PAGE.with_name(f"few-labels-{name}.png")
    copyfile(found["figure"], figure)
    alt = f"{STUDIES[name].title}: accuracy by number of labels, for every arm"
    page = PAGE.read_text(encoding="utf-8")
    text = f"\n![{alt}]({figure.name})\n\n{section(name, found)}\n"
    write_atomically(PAGE, put_between(page, name, text).encode())


def empty_page() -> str:
    """Return the sections of the page before anything was measured."""
    return "\n\n".join(
        f"## {study.title}\n\n<!-- {name}:start -->\n{NOT_YET}\n<!-- {name}:end -->" for name, study in STUDIES.items()
    )


if __name__ == "__main__":
    sys.exit(main())
