"""`greffon demo translation`: from pairs of sentences to a translator with a score, on text that arrives with pip.

The package `statcan-dialogue-dataset` carries the footnotes of Statistics Canada's tables in English and
French. They are cut into sentences and divided by table, so that what one table repeats of itself stands
on one side only. Steps and seeds are fixed, so that the demo is the same everywhere up to the last digits.
"""

import hashlib
import importlib.metadata
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from greffon.core.console import say
from greffon.core.errors import UserError
from greffon.core.files import write_atomically
from greffon.core.rng import generator
from greffon.data.train_tokenizer import train_tokenizer
from greffon.inference.bleu import TranslationScores
from greffon.inference.evaluate import evaluate
from greffon.inference.generate import generate
from greffon.inference.translate import Translation, translate
from greffon.runs.run import Run
from greffon.training.pretrain import pretrain

SHA256 = "98d0f01e195b20b1dbe3d8d0fca149d0e31b05a11befb2b1f78ae814e4a2e0eb"
SIZES = {"test": 1000, "valid": 500}
WORDS = range(3, 61)
"""How many words a sentence may have: shorter ones are labels, longer ones are several in one."""

Pair = tuple[str, str]


@dataclass(frozen=True)
class Budget:
    """How much the demo trains."""

    vocab_size: int = 4000
    body_steps: int = 300
    steps: int = 1200
    batch_tokens: int = 2048


@dataclass(frozen=True)
class TranslationDemo:
    """What the demo leaves: the translator, its scores on the test, and some of its translations."""

    run: Run
    """The trained translator."""
    scores: TranslationScores
    examples: list[Translation]


def demo_translation(*, out: str | Path = "demo-translation", budget: Budget | None = None) -> TranslationDemo:
    """Tokenizer, French body, translator and score on footnotes; repeated, it goes on where it was."""
    budget = Budget() if budget is None else budget
    out = Path(out)
    data = demo_translation_data(out / "data")
    tokens = out / "tokenizer.json"
    if not tokens.is_file():
        say("1/4 · one tokenizer for both languages")
        train_tokenizer([data / "train.en.txt", data / "train.fr.txt"], out=tokens, vocab_size=budget.vocab_size)
    body, run = out / "french", out / "translator"
    if not (body / "finished").is_file():
        say("2/4 · a body pretrained on the French side, as a language model")
        text = [data / "train.fr.txt"]
        pretrain(text, out=body, tokenizer=tokens, steps=budget.body_steps, force=True, context=64, batch_size=16)
    say(f"      “{generate(body, 'Bonjour les', max_new_tokens=20).text}”")
    if not (run / "finished").is_file():
        say("3/4 · a translator from English to French")
        pretrain(
            objective="seq2seq",
            source=data / "train.en.txt",
            target=data / "train.fr.txt",
            valid_source=data / "valid.en.txt",
            valid_target=data / "valid.fr.txt",
            tokenizer=tokens,
            out=run,
            steps=budget.steps,
            batch_tokens=budget.batch_tokens,
            dropout=0.1,  # few passes over the pairs: nothing is learnt by heart
            force=True,
        )
    say("4/4 · its score on tables that it has not seen")
    scores = evaluate(run, source=data / "test.en.txt", target=data / "test.fr.txt")
    assert isinstance(scores, TranslationScores)
    first = (data / "test.en.txt").read_text(encoding="utf-8").splitlines()[:3]
    return TranslationDemo(Run.open(run), scores, translate(run, first))


def demo_translation_data(folder: str | Path) -> Path:
    """Write the pairs as line-aligned files for training, validation and test; no table is in two of them."""
    folder = Path(folder)
    files = {part: [folder / f"{part}.{side}.txt" for side in ("en", "fr")] for part in ("train", *SIZES)}
    if all(file.is_file() for pair in files.values() for file in pair):
        return folder
    parts = divide(sentence_pairs(json.loads(read_source())))
    folder.mkdir(parents=True, exist_ok=True)
    for part, names in files.items():
        for side, name in enumerate(names):
            lines = [pair[side] for pair in parts[part]]
            write_atomically(name, ("\n".join(lines) + "\n").encode())
    return folder


def read_source() -> bytes:
    """Read the footnotes of the package, without importing it, and check that they are those we know."""
    remedy = "install it with pip install 'greffon[demo]'"
    try:
        files = importlib.metadata.files("statcan-dialogue-dataset") or []
        path = next(Path(str(file.locate())) for file in files if file.name == "footnotes.json")
        content = path.read_bytes()
    except (importlib.metadata.PackageNotFoundError, StopIteration, OSError):
        raise UserError(f"the demo needs the package statcan-dialogue-dataset; {remedy}") from None
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise UserError(f"{path} is not the file of statcan-dialogue-dataset 0.2.0; {remedy} again")
    return content


def sentence_pairs(tables: dict[str, list[dict[str, Any]]]) -> dict[str, list[Pair]]:
    """Cut the footnotes of each table into pairs of sentences; of those alike, the first table keeps its own."""
    seen: set[str] = set()
    whole: set[Pair] = set()
    found: dict[str, list[Pair]] = {}
    for table, footnotes in tables.items():
        for footnote in footnotes:
            both_whole = footnote["footnotesEn"] or "", footnote["footnotesFr"] or ""
            if both_whole in whole:  # most are repeated from table to table
                continue
            whole.add(both_whole)
            both = [sentences(side) for side in both_whole]
            if len(both[0]) != len(both[1]):
                continue
            for pair in zip(*both, strict=True):
                if fits(pair) and (known := skeleton(pair[0])) not in seen:
                    seen.add(known)
                    found.setdefault(table, []).append(pair)
    return found


def sentences(text: str) -> list[str]:
    """Cut a text where a full stop or a semicolon stands before a capital.

    >>> sentences("Excludes  fish. See table 3.2; Includes crabs.")
    ['Excludes fish.', 'See table 3.2;', 'Includes crabs.']
    """
    return re.split(r"(?<=[.!?;])\s(?=[A-ZÀ-Ý])", " ".join(text.split()))


def fits(pair: Pair) -> bool:
    """Whether both sides are sentences of their own language, without markup."""
    sizes = [len(side.split()) for side in pair]
    marked = any(sign in side for side in pair for sign in ("<", "http", "www."))
    return (
        all(size in WORDS for size in sizes) and max(sizes) <= 2 * min(sizes) + 5 and pair[0] != pair[1] and not marked
    )


def skeleton(text: str) -> str:
    """Reduce a sentence to its words, all numbers alike: what this leaves equal counts as the same sentence.

    >>> skeleton("Replaces table 21-10-0081.") == skeleton("Replaces table 5.")
    True
    """
    return " ".join(re.findall(r"[^\W\d]+", text.lower()))


def divide(tables: dict[str, list[Pair]]) -> dict[str, list[Pair]]:
    """Draw tables for the test and for validation until these are full; the others are for training."""
    names = sorted(tables)
    order = iter(generator(0, "translation demo").permutation(len(names)).tolist())
    parts: dict[str, list[Pair]] = {}
    for part, size in SIZES.items():
        parts[part] = []
        while len(parts[part]) < size:
            parts[part] += tables[names[next(order)]]
        del parts[part][size:]
    parts["train"] = [pair for i in order for pair in tables[names[i]]]
    return parts
