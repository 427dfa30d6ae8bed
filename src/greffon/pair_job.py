"""Which pairs a step of a translator's training sees, and how held-out pairs are scored."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np

from greffon.config import Recipe
from greffon.job import HELD_OUT_SHARE, SCORING_TOKENS, Job, lowest_loss
from greffon.nn.model import Model
from greffon.objectives.batch import Batch
from greffon.objectives.seq2seq import Seq2Seq
from greffon.scoring import held_out_bleu, held_out_loss
from greffon.text.bitext import Bitext, open_pairs, pair_buckets
from greffon.text.tokenizer import Tokenizer


def seq2seq(recipe: Recipe, tokenizer: Tokenizer) -> Job:
    """Batches of pairs by tokens, similar in length on both sides, pass after pass."""
    training = recipe.training
    objective = Seq2Seq(tokenizer.pad, tokenizer.start, tokenizer.end, tokenizer.byte_lengths, training.label_smoothing)
    pairs, held = open_pairs(recipe.data, tokenizer, recipe.shape.context, HELD_OUT_SHARE, training.seed)

    @lru_cache(maxsize=2)
    def buckets(pass_: int) -> list[np.ndarray]:
        return pair_buckets(*pairs.sizes, tokens=training.batch_tokens, seed=training.seed, pass_=pass_)

    epoch = -(-len(buckets(0)) // training.accumulate)

    def batches(step: int) -> list[Batch]:
        pass_, number = divmod(step, epoch)
        chosen = buckets(pass_)[number * training.accumulate : (number + 1) * training.accumulate]
        made = [objective.batch(pairs.pairs(members)) for members in chosen]
        # A smoothed loss says nothing about bits.
        return [replace(batch, bytes=0) for batch in made] if training.label_smoothing else list(made)

    return Job(
        objective,
        batches,
        score_pairs(recipe, tokenizer, objective, held.at_most(training.valid_tokens)),
        lowest_loss if training.choose_by == "loss" else lambda scores: (scores["bleu"], -scores["loss"]),
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
    """Make the function that scores a model on held-out pairs: their loss, and BLEU where that chooses."""
    parts = pair_buckets(*pairs.sizes, tokens=SCORING_TOKENS, seed=0, pass_=0)
    held = [objective.batch(pairs.pairs(members)) for members in parts]
    sources, targets = zip(*pairs.pairs(range(len(pairs))), strict=True)
    references = [tokenizer.decode(target) for target in targets]

    def evaluate(model: Model) -> dict[str, float]:
        scores = held_out_loss(model, objective, held)
        if recipe.training.choose_by == "bleu":
            scores["bleu"] = held_out_bleu(model, tokenizer, sources, references, recipe.shape.context)
        return scores

    return evaluate
