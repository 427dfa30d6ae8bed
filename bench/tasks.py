"""Does a body pay off for pairs, several labels, scores and spans? In one command.

    python -m bench.tasks --data DIR [--only pairs tokens …] [--minutes M] [--seeds 3] [--quick]

Each study makes its files from the real texts of DIR (`bench/task_files.py` says how), pretrains a body on unlabelled
text, and compares it with the same body from scratch and the classical baseline of the task. Studies of the same text
share their body. A study whose files are not there is skipped, and says so. What is finished is not done again when the
command is repeated. The outcome is written into docs/howto-tasks.md; with --quick, which tries everything on a little
text, only printed.

DIR has the layout of `FILES`; none of it comes with the package.
"""

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile

from bench.few_labels import QUICK_SHAPE, head
from bench.harness import ROOT
from bench.report import write_page
from bench.task_files import TASKS
from greffon.comparison.phrases import p_value
from greffon.comparison.task_results import TaskResults, TaskScore

BODY = {
    "vocab_size": 4000,
    "layers": 2,
    "hidden_size": 128,
    "heads": 4,
    "intermediate_size": 256,
    "context": 128,
}
"""Bodies small enough that all studies end within an hour of two busy cores."""
PAGE, OUT = ROOT / "docs" / "howto-tasks.md", ROOT / "bench" / "data" / "tasks"


@dataclass(frozen=True)
class Study:
    """A task, and the text of its body."""

    title: str
    texts: tuple[str, ...]
    """Unlabelled text of the body."""
    files: tuple[str, ...]
    """What the labelled files are made from."""
    train: int
    test: int


CAPTIONS = tuple(f"multi30k/train.{language}" for language in ("en", "fr", "de"))
BANKING, IMDB = "banking77", "imdb"
STUDIES = {
    "pairs": Study(
        "an English and a French caption (Multi30k): a translation, or that of another caption?",
        CAPTIONS,
        tuple(f"multi30k/{part}.{language}" for part in ("train", "val") for language in ("en", "fr")),
        1000,
        500,
    ),
    "multilabel": Study(
        "messages of one to three questions of bank customers (Banking77): which of the 12 most frequent intents?",
        (f"{BANKING}/train.csv",),
        (f"{BANKING}/train.csv", f"{BANKING}/test.csv"),
        1000,
        500,
    ),
    "regression": Study(
        "four passages from film reviews (IMDB): how many are from positive ones?",
        (f"{IMDB}/unlabelled.txt.xz",),
        (f"{IMDB}/train.csv", f"{IMDB}/valid.csv"),
        500,
        500,
    ),
    "tokens": Study(
        "English captions into which French and German words were put (Multi30k): which spans?",
        CAPTIONS,
        tuple(f"multi30k/{part}.{language}" for part in ("train", "val") for language in ("en", "fr", "de")),
        500,
        500,
    ),
}
FILES = sorted({file for study in STUDIES.values() for file in (*study.texts, *study.files)})


def main(words: list[str] | None = None) -> int:
    """Carry out the studies whose files are there, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.tasks", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help=f"folder with {', '.join(FILES)}")
    parser.add_argument("--only", nargs="+", choices=list(STUDIES), default=list(STUDIES), metavar="NAME")
    parser.add_argument("--minutes", type=float, default=2.0, help="minutes of every pretraining")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--out", type=Path, default=OUT, help=f"default: {OUT.relative_to(ROOT)}")
    parser.add_argument("--quick", action="store_true", help="tiny bodies, few texts, no page: does everything work?")
    args = parser.parse_args(words)
    found = {}
    for name in args.only:
        study = STUDIES[name]
        if missing := [file for file in (*study.texts, *study.files) if not (args.data / file).is_file()]:
            print(f"{name}: skipped, {args.data} has no {', '.join(missing)}", file=sys.stderr, flush=True)
            continue
        began = time.monotonic()
        found[name] = carry_out(name, args)
        print(f"{name}: {(time.monotonic() - began) / 60:.1f} minutes; {found[name].verdict}", flush=True)
    if found:
        text = table(found, args.minutes)
        print(text, flush=True)
        if not args.quick:
            write_page(PAGE, {"tasks": text})
    return 0


def carry_out(name: str, args: argparse.Namespace) -> TaskResults:
    """Make the files, the body and the comparison of a study; return what was found."""
    from greffon.comparison.other_tasks import compare_task

    study, folder = STUDIES[name], args.out.resolve() / ("quick" if args.quick else "") / name
    folder.mkdir(parents=True, exist_ok=True)
    ending = "conll" if name == "tokens" else "csv"
    files = {part: folder / f"{part}.{ending}" for part in ("train", "test")}
    for part, count in (("train", study.train), ("test", study.test)):
        TASKS[name](args.data, part, count // 40 if args.quick else count, files[part])
    body = make_body(study, args, folder.parent / f"body-{Path(study.texts[0]).parent}")
    return compare_task(
        [body],
        train=files["train"],
        test=files["test"],
        task=name,
        out=folder / "comparison",
        seeds=1 if args.quick else args.seeds,
        epochs=1 if args.quick else args.epochs,
    ).results


def make_body(study: Study, args: argparse.Namespace, out: Path) -> Path:
    """Pretrain the body of a study, unless that is finished."""
    from greffon.training.pretrain import pretrain, resume

    if (out / "finished").is_file():
        return out
    if (out / "recipe.json").is_file():
        resume(out)
        return out
    texts = [as_text(args.data / text, out) for text in study.texts]
    if args.quick:
        texts = [head(text, out.with_name(f"{out.name}-{i}.txt")) for i, text in enumerate(texts)]
        pretrain(texts, objective="contrastive", out=out, steps=4, vocab_size=500, **QUICK_SHAPE)
    else:
        pretrain(texts, objective="contrastive", out=out, minutes=args.minutes, **BODY)
    return out


def as_text(source: Path, beside: Path) -> Path:
    """Return a file that `pretrain` reads; one of captions (.en) gets another name."""
    if source.suffix in (".csv", ".xz", ".txt"):
        return source
    return Path(copyfile(source, beside.with_name(f"{source.name}.txt")))


def table(found: dict[str, TaskResults], minutes: float) -> str:
    """Write the outcomes as Markdown."""
    seeds = next(iter(found.values())).settings["seeds"]
    lines = [
        f"Bodies of {minutes:g} minutes ({BODY['layers']} layers, hidden size {BODY['hidden_size']}), "
        f"{next(iter(found.values())).settings['epochs']} epochs, {seeds} seeds; "
        "95 % intervals; p of a paired permutation test over the texts.",
        "",
        "| task | texts | measure | pretrained | scratch | baseline | pretrained − scratch | pretrained − baseline |",
        "| --- |" + " --- |" * 7,
    ]
    for name, results in found.items():
        arms = [_interval(results.arms[arm].test_score) for arm in ("pretrained", "scratch", "tfidf")]
        gaps = [_difference(results, other) for other in ("scratch", "tfidf")]
        sizes = f"{results.data.train + results.data.valid:,} and {results.data.test:,} to test"
        measure = results.metric_name + ("" if results.higher_is_better else " (lower is better)")
        lines.append("| " + " | ".join([f"`{name}`", sizes, measure, *arms, *gaps]) + " |")
    lines += ["", *(f"- `{name}`: {STUDIES[name].title}" for name in found)]
    return "\n".join(lines)


def _interval(score: TaskScore) -> str:
    return "{:.3f} ({:.3f} to {:.3f})".format(score.mean, *score.interval)


def _difference(results: TaskResults, other: str) -> str:
    one = next(each for each in results.differences if (each.a, each.b) == ("pretrained", other))
    return "{:+.3f} ({:+.3f} to {:+.3f}), p = {}".format(one.mean, *one.interval, p_value(one.p))


if __name__ == "__main__":
    sys.exit(main())
