"""What a recipe means in terms of data: which batches a step sees, and how held-out text is scored."""

import hashlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Generic

import numpy as np

from greffon.config import Recipe, Training
from greffon.errors import UserError
from greffon.fit import Objective
from greffon.job import HELD_OUT_SHARE, SCORING_TOKENS, Job, lowest_loss
from greffon.nn.model import Model
from greffon.objectives.batch import Batch
from greffon.objectives.causal import Causal
from greffon.objectives.classify import Classify
from greffon.objectives.masked import Masked
from greffon.pair_job import seq2seq
from greffon.randomness import generator
from greffon.scoring import held_out_accuracy, held_out_loss
from greffon.text.batching import Cut, Mixture, Row, Rows, Stream, Windows, held_out, length_buckets, sample
from greffon.text.corpora import Labelled
from greffon.text.sentence_pairs import Pair, SentencePairs
from greffon.text.splits import Splits, load_splits
from greffon.text.store import TokenStore, open_store
from greffon.text.tokenizer import Tokenizer
from greffon.text.words import Sentences

FEW_PAIRS = 0.2
FEW_HELD_OUT = 30
PAIR_TRIAL_ROWS = 64
"""Rows in which a text must show pairs of both kinds before training on them begins."""
SCORING_ROWS = 16


@dataclass(frozen=True)
class Task(Generic[Row]):
    """What a language model learns: how windows are cut into rows, and rows made into batches."""

    objective: Objective
    cut: Callable[[Windows, Windows], Cut[Row]]  # the second: where text from elsewhere is taken from
    batch: Callable[[list[Row], np.random.Generator], Batch]  # may draw, from a generator of its own
    documents: int = 1  # how many a text to train on must have


@dataclass(frozen=True)
class Corpus(Generic[Row]):
    """Text to train on and text held out, from one source or a mixture of several."""

    train: Rows[Row]
    valid: list[Row]
    digest: str
    summary: str


def open_corpus(recipe: Recipe, tokenizer: Tokenizer, task: Task[Row]) -> Corpus[Row]:
    """Open the token stores of a recipe; without validation files, hold some documents out."""
    data, training, length = recipe.data, recipe.training, recipe.shape.context
    sources = [(source,) for source in data.train] if data.mix else [data.train]
    stores = [open_store(source, tokenizer, data.text_column) for source in sources]
    digest = "+".join(store.digest for store in stores)
    least = task.documents + (0 if data.valid else 1)
    for store, source in zip(stores, sources, strict=True):
        if task.documents > 1 and len(store) < least:
            raise UserError(
                f"{', '.join(source)}: next-sentence prediction takes every second pair from another document, so it "
                f"needs {least} documents or more, and there {'is' if len(store) == 1 else 'are'} {len(store)}; put "
                "one document on each line (or blank lines between them), or leave out --next-sentence"
            )
    if data.valid:
        valid_store = open_store(data.valid, tokenizer, data.text_column)
        trains, valids = [Stream.whole(store) for store in stores], [Stream.whole(valid_store)]
        digest += "/" + valid_store.digest
        kept = len(valid_store)
    else:
        chosen = [_hold_out(store, source, training.seed) for store, source in zip(stores, sources, strict=True)]
        trains = [Stream.without(store, some) for store, some in zip(stores, chosen, strict=True)]
        valids = [Stream.only(store, some) for store, some in zip(stores, chosen, strict=True)]
        kept = sum(map(len, chosen))
    trained = sum(map(len, stores)) - (0 if data.valid else kept)
    windows = [Windows(stream, length, training.seed) for stream in trains]
    held = [Windows(stream, length, training.seed) for stream in valids]
    train = [task.cut(part, part) for part in windows]
    limit = max(1, training.valid_tokens // length // len(valids))
    return Corpus(
        Mixture(train, data.mix, training.seed) if data.mix else train[0],
        # One held-out text beside each text to train on, or a single one for all.
        [row for part, near in zip(held, windows, strict=False) for row in sample(task.cut(part, near), limit)],
        digest,
        f"text: {trained:,} documents, {sum(map(len, trains)):,} tokens to train on; "
        f"{kept:,} document{'s' * (kept != 1)} held out",
    )


def held_out_documents(recipe: Recipe, tokenizer: Tokenizer) -> Iterator[np.ndarray]:
    """Read the documents that a pretraining recipe holds out, whole: [start] + ids + [end]."""
    data = recipe.data
    if data.valid:
        store = open_store(data.valid, tokenizer, data.text_column)
        yield from map(store.document, range(len(store)))
        return
    for source in [(source,) for source in data.train] if data.mix else [data.train]:
        store = open_store(source, tokenizer, data.text_column)
        yield from (store.document(int(i)) for i in _hold_out(store, source, recipe.training.seed))


def _hold_out(store: TokenStore, source: Sequence[str], seed: int) -> np.ndarray:
    if len(store) < 2:
        raise UserError(
            f"{', '.join(source)} holds a single document, so none can be held out; "
            "give held-out text with --valid, or put one document on each line"
        )
    return held_out(len(store), HELD_OUT_SHARE, seed)


def causal(recipe: Recipe, tokenizer: Tokenizer) -> Task[np.ndarray]:
    """Packed windows over the text: what comes next?"""
    objective = Causal(tokenizer.pad, tokenizer.start, recipe.shape.context, tokenizer.byte_lengths)
    return Task(objective, lambda windows, _: windows, lambda rows, random: objective.batch(rows))


def masked(recipe: Recipe, tokenizer: Tokenizer) -> Task[np.ndarray]:
    """Packed windows over the text: what was hidden?"""
    assert recipe.masking is not None
    objective = Masked.over(tokenizer, recipe.shape.context, recipe.masking)
    return Task(objective, lambda windows, _: windows, objective.batch)


def masked_pairs(recipe: Recipe, tokenizer: Tokenizer) -> Task[tuple[Pair, ...]]:
    """Pairs of texts, cut from the windows: what was hidden, and does the second follow the first?"""
    assert recipe.masking is not None
    objective = Masked.over(tokenizer, recipe.shape.context, recipe.masking)
    sentences = Sentences(tokenizer)
    specials = (tokenizer.start, tokenizer.end)

    def cut(windows: Windows, elsewhere: Windows) -> SentencePairs:
        return SentencePairs(windows, elsewhere, sentences, specials, recipe.training.seed)

    return Task(objective, cut, objective.pair_batch, documents=2)


def task_of(recipe: Recipe, tokenizer: Tokenizer) -> Task[Any]:
    """Look up what a pretraining recipe asks for."""
    if recipe.masking is None:
        return causal(recipe, tokenizer)
    return (masked_pairs if recipe.masking.next_sentence else masked)(recipe, tokenizer)


def pretraining(recipe: Recipe, tokenizer: Tokenizer) -> Job:
    """Rows of text step by step, with some documents held out."""
    training, task = recipe.training, task_of(recipe, tokenizer)
    if recipe.origin:  # weights that know pairs may go on without any
        task = replace(task, documents=1)
    corpus = open_corpus(recipe, tokenizer, task)
    if task.documents > 1:
        _check_pairs(corpus, recipe)

    def batches(step: int) -> list[Batch]:
        first = step * training.rows * training.accumulate
        starts = range(first, first + training.rows * training.accumulate, training.rows)
        return [
            task.batch(corpus.train.rows(start, training.rows), generator(training.seed, "batch", step, i))
            for i, start in enumerate(starts)
        ]

    cuts = range(0, len(corpus.valid), training.rows)
    held = [task.batch(corpus.valid[cut : cut + training.rows], generator(0, "held out", cut)) for cut in cuts]
    return Job(
        task.objective,
        batches,
        lambda model: held_out_loss(model, task.objective, held),
        lowest_loss,
        digest=corpus.digest,
        summary=corpus.summary,
    )


def language_scores(
    model: Model, recipe: Recipe, tokenizer: Tokenizer, file: str | Path, text_column: str
) -> dict[str, float]:
    """Score a language model on all of a file; what is hidden is always the same."""
    task = task_of(recipe, tokenizer)
    store = open_store([file], tokenizer, text_column)
    windows = Windows(Stream.whole(store), recipe.shape.context, seed=0)
    cut = task.cut(windows, windows)
    numbers = range(0, cut.count, SCORING_ROWS)
    batches = (task.batch(cut.natural(n, SCORING_ROWS), generator(0, "held out", n)) for n in numbers)
    return held_out_loss(model, task.objective, batches)


def _check_pairs(corpus: Corpus[tuple[Pair, ...]], recipe: Recipe) -> None:
    """Refuse text in which no pairs are found, and tell where they are few."""
    found = [pair.follows for row in corpus.train.rows(0, PAIR_TRIAL_ROWS) for pair in row]
    share = sum(follows is not None for follows in found) / max(1, len(found))
    where = ", ".join(recipe.data.train)
    if {True, False} - set(found):
        raise UserError(
            f"{where}: no pairs of sentences were found: a document is a line, unless blank lines stand between "
            "documents, and a pair needs two sentences of one document; put them on one line or set documents apart by "
            f"blank lines, choose a context longer than {recipe.shape.context}, or leave out --next-sentence"
        )
    held = sum(pair.follows is not None for row in corpus.valid for pair in row)
    if held < FEW_HELD_OUT:
        warnings.warn(
            f"only {held} pair{'s' * (held != 1)} of sentences held out: how many of them are judged right says "
            "little; hold out more text with --valid",
            stacklevel=2,
        )
    if share < FEW_PAIRS:
        warnings.warn(
            f"{where}: only {share:.0%} of the documents have two sentences to make a pair of; put the sentences of a "
            "document on one line (or between blank lines)",
            stacklevel=2,
        )


def classify(recipe: Recipe, tokenizer: Tokenizer) -> Job:
    """Length-bucketed batches of labelled texts, pass after pass."""
    training, splits = recipe.training, load_splits(recipe.data)
    texts = LabelledTexts(recipe, tokenizer)
    train = texts.encode(splits.train)
    lengths = [len(ids) for ids, _ in train]
    epoch = steps_of_epoch(len(train), training)

    @lru_cache(maxsize=2)
    def buckets(pass_: int) -> list[np.ndarray]:
        return length_buckets(lengths, training.rows, training.seed, pass_)

    def batches(step: int) -> list[Batch]:
        pass_, number = divmod(step, epoch)
        chosen = buckets(pass_)[number * training.accumulate : (number + 1) * training.accumulate]
        return [texts.batch([train[i] for i in members]) for members in chosen]

    parts_of = {"": splits.valid, "test_": splits.test}
    held = {prefix: texts.in_order(texts.encode(part))[0] for prefix, part in parts_of.items()}

    def evaluate(model: Model) -> dict[str, float]:
        return {
            prefix + name: value
            for prefix, parts in held.items()
            if parts
            for name, value in held_out_accuracy(model, parts).items()
        }

    test = f", {len(splits.test):,} for the test" if splits.test else ""
    return Job(
        texts.objective,
        batches,
        evaluate,
        lambda scores: (scores["accuracy"], -scores["loss"]),
        digest=texts.digest(splits),
        summary=(
            f"texts: {len(splits.train):,} to train on, {len(splits.valid):,} for validation{test}; "
            f"classes: {', '.join(recipe.labels)}"
        ),
        epoch=epoch,
    )


def steps_of_epoch(texts: int, training: Training) -> int:
    """Count the steps of one pass over the texts."""
    return -(-texts // (training.rows * training.accumulate))


class LabelledTexts:
    """Labelled texts as token ids, as much of each as the context holds.

    A text is laid out as in pretraining: after the start token for a causal body (but not for a
    checkpoint that knows texts without it), between [CLS] and
    [SEP] for one that looks both ways.
    """

    def __init__(self, recipe: Recipe, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.context = recipe.shape.context
        both_ways = recipe.body == "encoder"
        self.before = [tokenizer.cls] if both_ways else [tokenizer.start] * tokenizer.starts
        self.after = [tokenizer.sep] if both_ways else []
        self.room = self.context - len(self.before) - len(self.after)
        self.number = {label: i for i, label in enumerate(recipe.labels)}
        self.objective = Classify(tokenizer.pad, 0.0 if recipe.graft is None else recipe.graft.adversarial)

    def encode(self, examples: Sequence[Labelled]) -> list[tuple[np.ndarray, int]]:
        """Return ids and class number of each text."""
        ids = self.tokenizer.encode_many([example.text for example in examples])
        return [
            (self.lay_out(row), self.number.get(example.label, -1)) for row, example in zip(ids, examples, strict=True)
        ]

    def lay_out(self, ids: Sequence[int]) -> np.ndarray:
        """Put what the body expects before and after a text, of which as much is kept as there is room for."""
        # Where texts have no start, an empty one still needs a token.
        return np.array([*self.before, *ids[: self.room], *self.after] or [self.tokenizer.start])

    def batch(self, members: Sequence[tuple[np.ndarray, int]]) -> Batch:
        """Build one batch."""
        return self.objective.batch([ids for ids, _ in members], [label for _, label in members])

    def in_order(self, encoded: Sequence[tuple[np.ndarray, int]]) -> tuple[list[Batch], list[int]]:
        """Batch encoded texts by length for scoring; also say which text stands where."""
        order = sorted(range(len(encoded)), key=lambda i: len(encoded[i][0]))
        batches: list[list[int]] = [[]]
        for i in order:
            # Sorted by length, so the newest text is the longest and sets the padded size.
            if batches[-1] and (len(batches[-1]) + 1) * len(encoded[i][0]) > SCORING_TOKENS:
                batches.append([])
            batches[-1].append(i)
        return [self.batch([encoded[i] for i in members]) for members in batches if members], order

    def digest(self, splits: Splits) -> str:
        """Identify the texts, their labels and the tokenizer."""
        seen = hashlib.sha256(self.tokenizer.digest.encode())
        for part in (splits.train, splits.valid, splits.test):
            for example in part:
                seen.update(f"{len(example.text)} {example.label}\n{example.text}\n".encode())
            seen.update(b"\0")
        return seen.hexdigest()


JOBS: dict[str, Callable[[Recipe, Tokenizer], Job]] = {
    "causal": pretraining,
    "masked": pretraining,
    "classify": classify,
    "seq2seq": seq2seq,
}
