"""Tokenizers: learning a vocabulary from a text, and encoding one."""

import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from bench.contest import SECONDS, Contest, Goal
from bench.turns import Turns


@dataclass(frozen=True)
class Size:
    """How much text, and how many tokens to learn from it."""

    megabytes: float = 20
    vocab_size: int = 8000


QUICK = Size(megabytes=0.05, vocab_size=400)


def prepare(size: Size, folder: Path) -> None:
    """Write the text."""
    from bench.data import text_file

    text_file(folder, size.megabytes)
    text_file(folder, QUICK.megabytes)


def lines(size: Size, folder: Path) -> Iterator[str]:
    """The documents of the text, one by one."""
    from bench.data import text_file

    with text_file(folder, size.megabytes).open(encoding="utf-8") as file:
        yield from (line.rstrip("\n") for line in file)


def learn_greffon(size: Size, folder: Path) -> Any:
    """Train Greffon's tokenizer, from the file as `greffon tokenizer` does."""
    from bench.data import text_file
    from greffon.data.corpora import documents
    from greffon.data.tokenizer import Tokenizer

    return Tokenizer.train(documents([text_file(folder, size.megabytes)]), size.vocab_size)


def learn_tokenizers(size: Size, folder: Path) -> Any:
    """Train byte-level BPE as the library offers it."""
    from tokenizers import ByteLevelBPETokenizer

    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(lines(size, folder), vocab_size=size.vocab_size, show_progress=False)
    return tokenizer


def learn_sentencepiece(size: Size, folder: Path) -> Any:
    """Train BPE with a byte fallback, changing nothing in the text, as Greffon does not."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=lines(size, folder),
        model_writer=model,
        vocab_size=size.vocab_size,
        model_type="bpe",
        byte_fallback=True,
        normalization_rule_name="identity",
        add_dummy_prefix=False,
        remove_extra_whitespaces=False,
        max_sentence_length=1_000_000,
        num_threads=threads(),
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def threads() -> int:
    """The threads that every contestant has."""
    return int(os.environ["BENCH_THREADS"])


LEARN = {"Greffon": learn_greffon, "tokenizers": learn_tokenizers, "sentencepiece": learn_sentencepiece}
ENCODE = {
    "Greffon": lambda made, texts: made.encode_many(texts),
    "tokenizers": lambda made, texts: [encoding.ids for encoding in made.encode_batch(texts)],
    "sentencepiece": lambda made, texts: made.encode(texts, num_threads=threads()),
}


def learner(name: str) -> Any:
    """The contestant that learns a vocabulary every turn; how few tokens it makes of the text stands beside."""

    def play(turns: Turns, size: Size, folder: Path) -> None:
        made = LEARN[name](QUICK, folder)  # so that no turn pays for imports
        for _ in turns:
            made = LEARN[name](size, folder)
            turns.report(size.megabytes)
        texts = list(islice(lines(size, folder), 200))  # few, so that encoding them is not what takes memory
        text_bytes = sum(len(text.encode()) for text in texts)
        turns.note(bytes_a_token=text_bytes / sum(map(len, ENCODE[name](made, texts))))

    return play


def encoder(name: str) -> Any:
    """The contestant that encodes the text every turn, some hundred documents at a time, as a store is built."""

    def play(turns: Turns, size: Size, folder: Path) -> None:
        made = LEARN[name](size, folder)
        texts = list(lines(size, folder))
        megabytes = sum(len(text.encode()) for text in texts) / 1e6
        for _ in turns:
            for start in range(0, len(texts), 800):
                ENCODE[name](made, texts[start : start + 800])
            turns.report(megabytes)

    return play


GOALS = (Goal("tokenizers", 1.0), Goal("sentencepiece", 1.0))
CONTESTS = (
    Contest(
        "tokenizer-training",
        "training a tokenizer of 8,000 tokens on 20 MB",
        SECONDS,
        {name: learner(name) for name in LEARN},
        Size(),
        QUICK,
        prepare,
        goals=GOALS,
        warm=False,
    ),
    Contest(
        "tokenizer-encoding",
        "encoding 8 MB with 8,000 tokens",
        "MB/s",
        {name: encoder(name) for name in ENCODE},
        Size(megabytes=8),
        QUICK,
        prepare,
        goals=GOALS,
    ),
)
