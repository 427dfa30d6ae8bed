"""Rows of unlabelled text for pretraining: to train on, and held out."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np

from greffon.core.errors import UserError, setting
from greffon.core.recipe import Data, Recipe
from greffon.data.batching import Cut, Mixture, Row, Rows, Stream, Windows, held_out, sample
from greffon.data.segmentation import Sentences
from greffon.data.sentence_pairs import Pair, SentencePairs
from greffon.data.spans import Spans, Views, with_two_views
from greffon.data.token_store import TokenStore, open_store
from greffon.data.tokenizer import Tokenizer
from greffon.objectives.batch import Batch
from greffon.objectives.causal import Causal
from greffon.objectives.contrastive import Contrastive
from greffon.objectives.masked import Masked
from greffon.objectives.protocol import Objective

HELD_OUT_SHARE = 0.01
"""Share of the documents that are held out where there is no validation text."""


@dataclass(frozen=True)
class Task(Generic[Row]):
    """A pretraining task: how windows are cut into rows, and how rows become batches."""

    objective: Objective
    cut: Callable[[Windows, Windows], Cut[Row]]  # the second: source of texts that do not follow
    batch: Callable[[list[Row], np.random.Generator], Batch]  # may draw random numbers from the generator
    min_documents: int = 1  # least number of documents in a text


@dataclass(frozen=True)
class Corpus(Generic[Row]):
    """Text to train on and text held out, from one source or a mixture of several."""

    train: Rows[Row]
    valid: list[Row]
    digest: str
    summary: str


def _sources(data: Data) -> list[tuple[str, ...]]:
    """Name the texts that have a store of their own: each one of a mixture, or all together."""
    return [(source,) for source in data.train] if data.mix else [data.train]


def open_corpus(recipe: Recipe, tokenizer: Tokenizer, task: Task[Row]) -> Corpus[Row]:
    """Open the token stores of a recipe; without validation files, hold some documents out."""
    data, training, length = recipe.data, recipe.training, recipe.shape.context
    sources = _sources(data)
    stores = [open_store(source, tokenizer, data.text_column) for source in sources]
    digest = "+".join(store.digest for store in stores)
    least = task.min_documents + (0 if data.valid else 1)
    for store, source in zip(stores, sources, strict=True):
        if task.min_documents > 1 and len(store) < least:
            raise UserError(
                f"{', '.join(source)}: next-sentence prediction takes every second pair from another document, so it "
                f"needs {least} documents or more, and there {'is' if len(store) == 1 else 'are'} {len(store)}; put "
                f"one document on each line (or blank lines between them), or leave out {setting('next_sentence')}"
            )
    if data.valid:
        valid_store = open_store(data.valid, tokenizer, data.text_column)
        trains, valids = [Stream.whole(store) for store in stores], [Stream.whole(valid_store)]
        digest += "/" + valid_store.digest
        kept = len(valid_store)
    else:
        chosen = [_hold_out(store, source, recipe) for store, source in zip(stores, sources, strict=True)]
        trains = [Stream.without(store, some) for store, some in zip(stores, chosen, strict=True)]
        valids = [Stream.only(store, some) for store, some in zip(stores, chosen, strict=True)]
        kept = sum(map(len, chosen))
    trained = sum(map(len, stores)) - (0 if data.valid else kept)
    windows = [Windows(stream, length, training.seed) for stream in trains]
    held = [Windows(stream, length, training.seed) for stream in valids]
    train = [task.cut(part, part) for part in windows]
    limit = max(1, training.eval_tokens // length // len(valids))
    return Corpus(
        Mixture(train, data.mix, training.seed) if data.mix else train[0],
        # One held-out text for each text to train on, or a single one for all.
        [row for part, near in zip(held, windows, strict=False) for row in sample(task.cut(part, near), limit)],
        digest,
        f"text: {trained:,} document{'s' * (trained != 1)}, {sum(map(len, trains)):,} tokens to train on; "
        f"{kept:,} document{'s' * (kept != 1)} held out",
    )


def held_out_documents(recipe: Recipe, tokenizer: Tokenizer) -> Iterator[np.ndarray]:
    """Read the documents that a pretraining recipe holds out, whole: [start] + ids + [end]."""
    data = recipe.data
    if data.valid:
        store = open_store(data.valid, tokenizer, data.text_column)
        yield from map(store.document, range(len(store)))
        return
    for source in _sources(data):
        store = open_store(source, tokenizer, data.text_column)
        yield from (store.document(int(i)) for i in _hold_out(store, source, recipe))


def training_documents(recipe: Recipe, tokenizer: Tokenizer, most: int) -> Iterator[np.ndarray]:
    """Read documents that a pretraining recipe trains on, as token ids without start and end.

    Of more than `most` they are spread evenly over the text; of a mixture each text gives its share at most.
    """
    data = recipe.data
    for i, source in enumerate(_sources(data)):
        store = open_store(source, tokenizer, data.text_column)
        left_out = np.empty(0, np.int64) if data.valid else _hold_out(store, source, recipe)
        kept = np.setdiff1d(np.arange(len(store)), left_out)
        share = most * data.mix[i] // sum(data.mix) if data.mix else most
        if len(kept) > share:
            kept = kept[np.arange(share) * len(kept) // max(1, share)]
        yield from (store.document(int(number))[1:-1] for number in kept)


def _hold_out(store: TokenStore, source: Sequence[str], recipe: Recipe) -> np.ndarray:
    """Return the numbers of the documents that are held out; of views, those without any would score nothing."""
    documents, kind = np.arange(len(store)), "document"
    if recipe.contrast is not None:
        documents, kind = with_two_views(store, documents), "document of two tokens or more"
    if len(documents) < 2:
        raise UserError(
            f"{', '.join(source)} holds a single {kind}, so none can be held out; "
            f"give held-out text with {setting('valid')}, or put one document on each line"
        )
    chosen: np.ndarray = documents[held_out(len(documents), HELD_OUT_SHARE, recipe.training.seed)]
    return chosen


def causal(recipe: Recipe, tokenizer: Tokenizer) -> Task[np.ndarray]:
    """Make the task of next-token prediction over packed windows."""
    objective = Causal(tokenizer.pad, tokenizer.start, recipe.shape.context, tokenizer.byte_lengths)
    return Task(objective, lambda windows, _: windows, lambda rows, random: objective.batch(rows))


def masked(recipe: Recipe, tokenizer: Tokenizer) -> Task[np.ndarray]:
    """Make the task of masked language modelling over packed windows."""
    assert recipe.masking is not None
    objective = Masked.over(tokenizer, recipe.shape.context, recipe.masking)
    return Task(objective, lambda windows, _: windows, objective.batch)


def masked_pairs(recipe: Recipe, tokenizer: Tokenizer) -> Task[tuple[Pair, ...]]:
    """Make the task of masked language modelling and next-sentence prediction over pairs of texts."""
    assert recipe.masking is not None
    objective = Masked.over(tokenizer, recipe.shape.context, recipe.masking)
    sentences = Sentences(tokenizer)
    specials = (tokenizer.start, tokenizer.end)

    def cut(windows: Windows, elsewhere: Windows) -> SentencePairs:
        return SentencePairs(windows, elsewhere, sentences, specials, recipe.training.seed)

    return Task(objective, cut, objective.pair_batch, min_documents=2)


COMMON_TOKENS = 300
"""The most frequent tokens, which both views of a document may hold; any rarer one would give the pair away."""
COUNTED = 4_000_000
"""Tokens of each text by which it is known which ones are frequent."""


FEW_DOCUMENTS = 3
"""A token in fewer documents is not among the words that are predicted: nothing could be learnt about it."""


@dataclass(frozen=True)
class WordStatistics:
    """How often the tokens stand in the text, by the first tokens of each source."""

    counts: np.ndarray
    """(V,): number of times."""
    weights: np.ndarray
    """(V,): inverse document frequency; 0 for tokens in almost no document, or in all."""


def word_statistics(recipe: Recipe, tokenizer: Tokenizer) -> WordStatistics:
    """Count the tokens of a pretraining text, and the documents that hold them."""
    size, data = recipe.vocab_size, recipe.data
    counts, holders, documents = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64), 0
    for source in _sources(data):
        store = open_store(source, tokenizer, data.text_column)
        read = max(1, int(np.searchsorted(store.offsets, COUNTED, side="right")) - 1)
        tokens = np.asarray(store.tokens[: store.offsets[read]], dtype=np.int64)
        numbers = np.repeat(np.arange(read), np.diff(store.offsets[: read + 1]))
        counts += np.bincount(tokens, minlength=size)
        holders += np.bincount(np.unique(numbers * size + tokens) % size, minlength=size)
        documents += read
    weights = np.log(documents / (holders + 1.0)).clip(0)
    weights[holders < FEW_DOCUMENTS] = 0.0
    return WordStatistics(counts, weights)


def contrastive(recipe: Recipe, tokenizer: Tokenizer) -> Task[Views]:
    """Two views of each document: which of all others is its partner?"""
    contrast = recipe.contrast
    assert contrast is not None
    words = word_statistics(recipe, tokenizer)
    common = np.zeros(recipe.vocab_size, dtype=bool)
    common[np.argsort(-words.counts, kind="stable")[:COMMON_TOKENS]] = True
    objective = Contrastive.over(tokenizer, contrast.temperature, common, words.weights)

    def cut(windows: Windows, elsewhere: Windows) -> Spans:
        return Spans(windows.stream, contrast.span_length, recipe.training.seed, contrast.token_dropout)

    return Task(objective, cut, objective.batch)


def task_of(recipe: Recipe, tokenizer: Tokenizer) -> Task[Any]:
    """Return the task of a pretraining recipe."""
    if recipe.contrast is not None:
        return contrastive(recipe, tokenizer)
    if recipe.masking is None:
        return causal(recipe, tokenizer)
    return (masked_pairs if recipe.masking.next_sentence else masked)(recipe, tokenizer)
