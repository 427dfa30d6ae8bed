"""From a recipe to what the loop needs: the batches of each step, and the scores of held-out data."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from greffon.core.errors import SettingWarning, UserError, setting
from greffon.core.recipe import Recipe
from greffon.core.rng import generator
from greffon.core.training import Training
from greffon.data.batching import length_buckets
from greffon.data.lsa import MOST_DOCUMENTS
from greffon.data.parallel import Bitext, open_pairs, pair_buckets
from greffon.data.sentence_pairs import Pair
from greffon.data.spans import SHORTEST, Views
from greffon.data.splits import load_splits
from greffon.data.tokenizer import Tokenizer
from greffon.inference.measures import measure_of
from greffon.inference.scoring import held_out_bleu, held_out_contrast, held_out_loss
from greffon.inference.tasks.base import ratio
from greffon.nn.model import Model
from greffon.objectives.batch import Batch
from greffon.objectives.contrastive import Contrastive
from greffon.objectives.corpus import HELD_OUT_SHARE, Corpus, open_corpus, task_of, training_documents
from greffon.objectives.labelled_texts import SCORING_TOKENS
from greffon.objectives.protocol import Objective
from greffon.objectives.seq2seq import Seq2Seq
from greffon.objectives.task_texts import task_texts

FEW_PAIRS = 0.2
"""A smaller share of documents with two sentences is warned of: most rows would teach nothing about pairs."""
FEW_HELD_OUT = 30
"""Fewer held-out pairs are warned of: the standard error of their accuracy is 9 points or more."""
TRIAL_ROWS = 64
"""Rows at the start of the text by which it is judged: they must contain pairs of both kinds, or long enough texts."""


@dataclass(frozen=True)
class Job:
    """All that training needs besides the model."""

    objective: Objective
    batches: Callable[[int], Sequence[Batch]]  # the batches of a step
    evaluate: Callable[[Model], dict[str, float]]
    selection_key: Callable[[Mapping[str, float]], tuple[float, ...]]  # the scores with the highest key are the best
    digest: str  # the identity of the data
    summary: str  # one line about the data
    epoch: int = 0  # steps of one epoch, where training is counted in epochs
    test_scores: Callable[[Model, Mapping[str, float]], dict[str, float]] | None = None  # by what valid has fitted
    # of a fold: its scores, and the probabilities of its held-out texts
    judge: Callable[[Model], tuple[dict[str, float], list[list[float]]]] | None = None
    final_step: int | None = None  # where training ends, and is evaluated once; None: at the last step, after many
    pause_step: int | None = None  # where training is saved and left, to go on later; None: nowhere


def lowest_loss(scores: Mapping[str, float]) -> tuple[float, ...]:
    """Prefer the lowest held-out loss of tokens; pairs are too few to choose by."""
    return (-scores["loss"],)


def pretraining(recipe: Recipe, tokenizer: Tokenizer) -> Job:
    """Make the job of pretraining: rows of text step by step, with some documents held out."""
    training, task = recipe.training, task_of(recipe, tokenizer)
    if recipe.origin:  # weights that know pairs may go on without any
        task = replace(task, min_documents=1)
    corpus = open_corpus(recipe, tokenizer, task)
    if task.min_documents > 1:
        _check_pairs(corpus, recipe)

    if recipe.contrast is not None:
        _check_views(corpus, recipe, tokenizer)

    def batches(step: int) -> list[Batch]:
        first = step * training.batch_size * training.gradient_accumulation
        starts = range(first, first + training.batch_size * training.gradient_accumulation, training.batch_size)
        return [
            task.batch(corpus.train.rows(start, training.batch_size), generator(training.seed, "batch", step, i))
            for i, start in enumerate(starts)
        ]

    cuts = range(0, len(corpus.valid), training.batch_size)
    held = [task.batch(corpus.valid[cut : cut + training.batch_size], generator(0, "held out", cut)) for cut in cuts]
    objective = task.objective

    def evaluate(model: Model) -> dict[str, float]:
        if isinstance(objective, Contrastive):
            return held_out_contrast(model, objective, held)
        return held_out_loss(model, objective, held)

    return Job(
        objective,
        batches,
        evaluate,
        lowest_loss,
        digest=corpus.digest,
        summary=corpus.summary,
    )


def _check_views(corpus: Corpus[Views], recipe: Recipe, tokenizer: Tokenizer) -> None:
    """Refuse text in which there is nothing to tell apart, and warn of short texts and of few that are held out."""
    where = ", ".join(recipe.data.train)
    documents = (ids for ids in training_documents(recipe, tokenizer, MOST_DOCUMENTS) if len(ids) > 1)
    first = next(documents)
    if all(np.array_equal(first, other) for other in documents):
        raise UserError(
            f"{where}: no two documents to train on are different, so there is nothing to tell apart; "
            f"give different texts, one on each line, or choose {setting('objective', 'masked')}"
        )
    rows = corpus.train.rows(0, TRIAL_ROWS)
    if 2 * sum(row.copies for row in rows) > len(rows):
        warnings.warn(
            f"{where}: most texts are too short for two spans of {SHORTEST} tokens; each is then read twice with some "
            "tokens left out, and only its words are predicted, not contrasted (longer texts teach more)",
            stacklevel=2,
        )
    held = sum(not row.copies for row in corpus.valid)
    if held < FEW_HELD_OUT and not recipe.origin:
        warnings.warn(
            SettingWarning(
                f"only {held} pair{'s' * (held != 1)} of different spans held out: how many of them are found says "
                f"little; hold out more text with {setting('valid')}"
            ),
            stacklevel=2,
        )


def _check_pairs(corpus: Corpus[tuple[Pair, ...]], recipe: Recipe) -> None:
    """Refuse text without pairs of sentences, and warn of few."""
    found = [pair.follows for row in corpus.train.rows(0, TRIAL_ROWS) for pair in row]
    share = sum(follows is not None for follows in found) / max(1, len(found))
    where = ", ".join(recipe.data.train)
    if {True, False} - set(found):
        raise UserError(
            f"{where}: no pairs of sentences were found: a document is a line, unless blank lines stand between "
            "documents, and a pair needs two sentences of one document; put them on one line or set documents apart by "
            f"blank lines, choose a context longer than {recipe.shape.context}, or leave out {setting('next_sentence')}"
        )
    held = sum(pair.follows is not None for row in corpus.valid for pair in row)
    if held < FEW_HELD_OUT:
        warnings.warn(
            SettingWarning(
                f"only {held} pair{'s' * (held != 1)} of sentences held out: how many of them are judged right says "
                f"little; hold out more text with {setting('valid')}"
            ),
            stacklevel=2,
        )
    if share < FEW_PAIRS:
        warnings.warn(
            f"{where}: only {share:.0%} of the documents have two sentences to make a pair of; put the sentences of a "
            "document on one line (or between blank lines)",
            stacklevel=2,
        )


def classify(recipe: Recipe, tokenizer: Tokenizer) -> Job:
    """Make the job of a grafted head: batches of labelled texts of similar length, epoch after epoch."""
    training, splits = recipe.training, load_splits(recipe.data)
    texts, measure = task_texts(recipe, tokenizer), measure_of(recipe)
    train = texts.encode(splits.train)
    lengths = [text.length for text in train]
    epoch = steps_of_epoch(len(train), training)

    @lru_cache(maxsize=2)
    def buckets(pass_: int) -> list[np.ndarray]:
        return length_buckets(lengths, training.batch_size, training.seed, pass_)

    def batches(step: int) -> list[Batch]:
        pass_, number = divmod(step, epoch)
        chosen = buckets(pass_)[number * training.gradient_accumulation : (number + 1) * training.gradient_accumulation]
        random = generator(training.seed, "windows", step)
        return [texts.batch([train[i].some(random) for i in members]) for members in chosen]

    test_texts = [] if recipe.data.fold else splits.test  # nothing is read from what a fold says of the test texts
    valid, test_part = (texts.for_scoring(texts.encode(part)) if part else None for part in (splits.valid, test_texts))

    def evaluate(model: Model) -> dict[str, float]:
        found = {} if valid is None else measure.held_out(recipe, splits.valid, texts.outputs(model, valid))
        return {**found, **test_scores(model, found)}

    def test_scores(model: Model, fitted: Mapping[str, float]) -> dict[str, float]:
        if test_part is None:
            return {}
        outputs = texts.outputs(model, test_part)
        found = measure.held_out(recipe, splits.test, outputs)
        over, under = measure.parts(recipe, fitted, splits.test, measure.calibrated(fitted, outputs))
        # What is fitted on the test texts, such as a threshold, is not told, and not used.
        found[measure.metric] = ratio(float(over.sum()), float(under.sum()))
        return {f"test_{name}": value for name, value in found.items() if "/" not in name}

    def judge(model: Model) -> tuple[dict[str, float], list[list[float]]]:
        rows = texts.outputs(model, valid)
        return measure.held_out(recipe, splits.valid, rows), np.stack(rows).tolist()

    test = f", {len(splits.test):,} for the test" if splits.test else ""
    return Job(
        texts.objective,
        batches,
        evaluate,
        measure.key,
        digest=texts.digest(splits),
        summary=(
            f"texts: {len(splits.train):,} to train on, {len(splits.valid):,} for validation{test}"
            + (f"; {measure.noun}: {', '.join(recipe.labels)}" if recipe.labels else f"; {measure.noun}")
        ),
        epoch=epoch,
        test_scores=test_scores,
        judge=judge if recipe.data.fold and recipe.task == "classes" else None,
    )


def steps_of_epoch(texts: int, training: Training) -> int:
    """Count the steps of one epoch."""
    return -(-texts // (training.batch_size * training.gradient_accumulation))


def seq2seq(recipe: Recipe, tokenizer: Tokenizer) -> Job:
    """Make the job of translation: batches of pairs, similar in length on both sides, epoch after epoch."""
    training = recipe.training
    objective = Seq2Seq(tokenizer.pad, tokenizer.start, tokenizer.end, tokenizer.byte_lengths, training.label_smoothing)
    pairs, held = open_pairs(recipe.data, tokenizer, recipe.shape.context, HELD_OUT_SHARE, training.seed)

    @lru_cache(maxsize=2)
    def buckets(pass_: int) -> list[np.ndarray]:
        return pair_buckets(*pairs.sizes, tokens=training.batch_tokens, seed=training.seed, pass_=pass_)

    epoch = -(-len(buckets(0)) // training.gradient_accumulation)

    def batches(step: int) -> list[Batch]:
        pass_, number = divmod(step, epoch)
        chosen = buckets(pass_)[number * training.gradient_accumulation : (number + 1) * training.gradient_accumulation]
        made = [objective.batch(pairs.pairs(members)) for members in chosen]
        # A smoothed loss says nothing about bits.
        return [replace(batch, bytes=0) for batch in made] if training.label_smoothing else list(made)

    return Job(
        objective,
        batches,
        score_pairs(recipe, tokenizer, objective, held.at_most(training.eval_tokens)),
        lowest_loss if training.metric_for_best == "loss" else lambda scores: (scores["bleu"], -scores["loss"]),
        digest=f"{pairs.digest}/{held.digest}",
        summary=(
            f"pairs: {len(pairs):,} to train on ({pairs.sizes[0].sum():,} and {pairs.sizes[1].sum():,} tokens), "
            f"{len(held):,} held out"
        ),
        epoch=epoch,
    )


def score_pairs(
    recipe: Recipe, tokenizer: Tokenizer, objective: Seq2Seq, pairs: Bitext
) -> Callable[[Model], dict[str, float]]:
    """Make the function that scores a model on held-out pairs: loss, and BLEU if it chooses the best weights."""
    parts = pair_buckets(*pairs.sizes, tokens=SCORING_TOKENS, seed=0, pass_=0)
    held = [objective.batch(pairs.pairs(members)) for members in parts]
    sources, targets = zip(*pairs.pairs(range(len(pairs))), strict=True)
    references = [tokenizer.decode(target) for target in targets]

    def evaluate(model: Model) -> dict[str, float]:
        scores = held_out_loss(model, objective, held)
        if recipe.training.metric_for_best == "bleu":
            scores["bleu"] = held_out_bleu(model, tokenizer, sources, references, recipe.shape.context)
        return scores

    return evaluate


JOBS: dict[str, Callable[[Recipe, Tokenizer], Job]] = {
    "causal": pretraining,
    "masked": pretraining,
    "contrastive": pretraining,
    "classify": classify,
    "seq2seq": seq2seq,
}
