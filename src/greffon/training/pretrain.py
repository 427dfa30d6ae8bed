"""From text files to a pretrained body: `greffon.pretrain`, `greffon.estimate`, `greffon.resume`."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from greffon.core.choices import BodyKind, PretrainingObjective
from greffon.core.config import check_names, override
from greffon.core.conflicts import PRETRAINING_RULES, refuse_idle
from greffon.core.console import say
from greffon.core.device import using
from greffon.core.errors import UserError, out_of_range, setting
from greffon.core.locks import sole_use
from greffon.core.recipe import Contrast, Masking, Recipe
from greffon.core.rng import generator
from greffon.core.settings import Budget, Corpus, Launch, Machine, Pairs, Start, part, takes
from greffon.core.shape import Shape
from greffon.core.training import Training
from greffon.data.corpora import find_files
from greffon.data.sentence_pairs import Pair
from greffon.data.spans import Views
from greffon.data.tokenizer import Tokenizer
from greffon.inference.scoring import held_out_loss
from greffon.objectives.batch import Batch
from greffon.objectives.causal import Causal
from greffon.objectives.contrastive import Contrastive
from greffon.objectives.corpus import HELD_OUT_SHARE
from greffon.objectives.masked import Masked, Roles
from greffon.objectives.protocol import Objective
from greffon.runs.huggingface.fit import export_note
from greffon.runs.run import Run
from greffon.training.distributed.launch import begin, carry_out, launched, reopen
from greffon.training.estimate import calibrated, check_memory
from greffon.training.jobs import Job, lowest_loss
from greffon.training.recipe import (
    Foundation,
    check_text,
    described,
    foundation,
    is_small,
    pair_trial,
    resolved,
    tokens_of_step,
)

BODIES: dict[PretrainingObjective, BodyKind] = {
    "causal": "decoder",
    "masked": "encoder",
    "contrastive": "encoder",
    "seq2seq": "encoder-decoder",
}
DEFAULT_MINUTES = 10.0

FEWEST = 5
"""Minimum number of evaluations of a short run, so that there are enough checkpoints to select and average from."""


@takes(Start, Corpus, Pairs, Budget, Launch, Machine, Masking, Contrast, Shape, Training)
def pretrain(
    texts: str | Path | Sequence[str | Path] = (),
    *,
    out: str | Path,
    force: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Pretrain a body on text files and return its Run.

    `settings` are the fields of `Start`, `Corpus`, `Pairs`, `Budget`, `Launch`, `Machine`, `Masking`, `Contrast`,
    `Shape` and `Training` in `greffon.core`, under the names of the options:
    `pretrain(["texts/"], out="runs/body", steps=1000, layers=6, dropout=0.1)`.

    Give one of `steps`, `tokens` and `minutes` (10 minutes by default). `init_from` is a run whose weights,
    architecture and tokenizer to start from. `mix=(3, 1)` takes three sequences of the first text for one of the
    second, however long the texts are.

    The objective `seq2seq` learns to translate `source` into `target`, two files aligned line by line, or the columns
    of tables given as texts; the bodies of pretrained runs can initialize its two sides (`encoder_from`,
    `decoder_from`).

    `processes` trains in several processes on this machine, with the same batches and the same losses; `fsdp` shards
    the weights over them. `device`, `precision` and `threads` say what to compute with, and `tensorboard` and `mlflow`
    write the metrics there, too. None of these is part of the run: it can be resumed with others.
    """
    launch, settings = part(Launch(), settings)
    machine, settings = part(Machine(), settings)
    with launched(launch, machine, f"greffon resume {out}") as group:
        recipe = make_recipe(texts, **settings)
        if group.is_main and not quiet and (note := export_note(recipe)):
            say(note)
        lay_out = partial(Run.create, recipe=recipe)
        return begin(out, lay_out, force=force, quiet=quiet, group=group, launch=launch)


@takes(Start, Corpus, Pairs, Budget, Machine, Masking, Contrast, Shape, Training)
def estimate(texts: str | Path | Sequence[str | Path] = (), **settings: Any) -> Recipe:
    """Time a few steps of what `pretrain` would do with these settings, on random tokens, and write nothing.

    The `cost` of the recipe holds the result: `estimate(["texts/"], steps=1000).cost`.
    """
    machine, settings = part(Machine(), settings)
    recipe = make_recipe(texts, **settings)
    training = recipe.training
    check_memory(recipe)
    objective, batch = _rehearsal(recipe)
    held = [batch] * max(1, _held_out_tokens(recipe) // batch.tokens.numel())
    job = Job(
        objective,
        lambda step: [batch] * training.gradient_accumulation,
        lambda model: held_out_loss(model, objective, held),
        lowest_loss,
        digest="",
        summary="",
    )
    with using(machine):
        return calibrated(recipe, job)


def _rehearsal(recipe: Recipe) -> tuple[Objective, Batch]:
    """Make an objective and a batch of random tokens, of the size that the recipe's will have."""
    if recipe.objective == "seq2seq":
        return pair_trial(recipe)
    rows, length, vocab_size = recipe.training.batch_size, recipe.shape.context, recipe.vocab_size
    random = generator(0, "estimate")
    if recipe.contrast is not None:
        spans = random.integers(6, vocab_size, (rows, 2, recipe.contrast.span_length))
        every = np.ones(vocab_size, dtype=bool)
        contrastive = Contrastive(0, 3, 4, recipe.contrast.temperature, every, every)
        return contrastive, contrastive.batch([Views(*pair) for pair in spans], random)
    tokens = random.integers(6, vocab_size, (rows, length + 1))
    if recipe.masking is None:
        causal = Causal(padding=0, start=1, length=length, byte_lengths=np.ones(vocab_size))
        return causal, causal.batch(list(tokens))
    ids = np.arange(6, vocab_size)
    masked = Masked(Roles(0, 1, 2, 3, 4, 5), ids, np.ones(vocab_size), length, recipe.masking.mask_rate)
    if not recipe.masking.next_sentence:
        return masked, masked.batch(list(tokens), random)
    pairs = [[Pair(row[: length // 2], row[length // 2 : length - 3], follows=True)] for row in tokens]
    return masked, masked.pair_batch(pairs, random)


def _held_out_tokens(recipe: Recipe) -> int:
    """Guess from the files' sizes how many tokens an evaluation will read: four bytes a token; of pairs, all it may."""
    data, most = recipe.data, recipe.training.eval_tokens
    if recipe.objective == "seq2seq":
        return most
    packed = sum(file.stat().st_size * (3 if file.suffix in (".gz", ".xz") else 1) for file in find_files(data.train))
    return min(most, int((HELD_OUT_SHARE if not data.valid else 1.0) * packed / 4))


@takes(Launch, Machine)
def resume(run: str | Path | Run, *, extra_steps: int = 0, quiet: bool = False, **settings: Any) -> Run:
    """Continue a run that was interrupted; `extra_steps` trains a finished one for longer.

    `settings` are the fields of `Launch` and `Machine`: they may differ from those that the run
    began with.
    """
    launch, machine = override(Launch(), settings), override(Machine(), settings)
    with launched(launch, machine, f"greffon resume {run.path if isinstance(run, Run) else run}") as group:
        if extra_steps < 0:
            raise out_of_range("extra_steps", extra_steps, "choose a number of steps above 0")
        opened = Run.open(run)
        with sole_use(opened.path) if group.holds_lock else nullcontext():
            opened = reopen(opened, extra_steps, group=group)
            return carry_out(opened, quiet=quiet, group=group, launch=launch)


def make_recipe(texts: str | Path | Sequence[str | Path] = (), **settings: Any) -> Recipe:
    """Turn the arguments of `pretrain` into a recipe, and refuse impossible ones."""
    check_names(settings, Start, Corpus, Pairs, Budget, Masking, Contrast, Shape, Training)
    settings = {name: value for name, value in settings.items() if value is not None}
    texts = [texts] if isinstance(texts, str | Path) else texts
    start, settings = part(Start(), settings)
    corpus, settings = part(Corpus(), settings)
    pairs, settings = part(Pairs(), settings)
    budget, settings = part(Budget(), settings)
    base = foundation(start, settings)
    check_text(texts, corpus, pairs, start.objective)
    vocab_size = _vocab_size(start, base)
    masking = _masking(start.objective, settings, base.origin)
    small = _suits_small_text(start, base, settings) and is_small(texts, corpus)
    contrast = _contrast(start.objective, settings, base, small)
    shape = base.preset.shape_for(start.objective, small_text=True) if small else base.shape
    shape = override(shape, settings)
    if contrast is not None and "span_length" not in settings:  # a shorter context reads shorter spans
        contrast = replace(contrast, span_length=min(contrast.span_length, max(2, shape.context - 2)))
    if contrast is not None and contrast.span_length + 2 > shape.context:
        raise UserError(
            f"{setting('span_length', contrast.span_length)} does not fit into a context of {shape.context} tokens "
            f"between its two special tokens; choose a shorter one, or a larger {setting('context')}"
        )
    if masking is not None and masking.next_sentence:
        shape = replace(shape, segments=2)
    training = override(base.preset.training_for(start.objective), settings)
    refuse_idle(PRETRAINING_RULES, settings, {**vars(shape), **vars(training), "objective": start.objective})
    training = _with_budget(training, tokens_of_step(start.objective, contrast, shape, training), budget)
    if "evaluate_every" not in settings and 0 < training.steps < FEWEST * training.evaluate_every:
        training = replace(training, evaluate_every=-(-training.steps // FEWEST))
    return Recipe(
        objective=start.objective,
        preset=base.name,
        shape=shape,
        training=training,
        data=described(texts, corpus, pairs, base.tokenizer),
        vocab_size=vocab_size,
        origin=resolved(base.origin),
        encoder_origin=resolved(base.encoder),
        decoder_origin=resolved(base.decoder),
        body=BODIES[start.objective],
        masking=masking,
        contrast=contrast,
    )


def _vocab_size(start: Start, base: Foundation) -> int:
    """Find the size of the vocabulary: an existing tokenizer's, or the one to be trained."""
    if base.tokenizer is None:
        return base.preset.vocab_size_for(start.objective) if start.vocab_size is None else start.vocab_size
    if start.vocab_size is not None:
        raise UserError(
            "a tokenizer has its own vocabulary; "
            f"give either {setting('tokenizer')} or {setting('vocab_size')}, not both"
        )
    loaded = Tokenizer.load(base.tokenizer)
    if start.objective == "masked" and "mask" in loaded.absent:
        raise UserError(
            f"{base.tokenizer}: this tokenizer has no [MASK]; choose another one for {setting('objective', 'masked')}"
        )
    if not loaded.lossless:
        why = "lowercases all text" if loaded.lowercase else "has no byte fallback, or drops spaces"
        warnings.warn(
            f"{base.tokenizer} does not preserve every text (it {why}): what it loses cannot be generated, "
            "and bits per byte are comparable only among runs with this tokenizer",
            stacklevel=3,
        )
    return loaded.size if base.origin is None else base.origin.recipe.vocab_size


def _masking(objective: str, settings: Mapping[str, Any], origin: Run | None) -> Masking | None:
    """Read the settings of a masked language model; another objective has none."""
    # False is what a flag is without having been given.
    given = {
        f.name: settings[f.name]
        for f in fields(Masking)
        if settings.get(f.name) is not None and settings[f.name] is not False
    }
    if objective != "masked":
        if given:
            raise UserError(
                f"{setting(next(iter(given)))} belongs to {setting('objective', 'masked')}, not to {objective}"
            )
        return None
    base = Masking() if origin is None or origin.recipe.masking is None else origin.recipe.masking
    if origin is not None and given.get("next_sentence", base.next_sentence) != base.next_sentence:
        raise UserError(
            f"{setting('next_sentence')} is a fixed part of {origin.path}, where the weights come from; leave it out"
        )
    return override(base, given)


def _suits_small_text(start: Start, base: Foundation, settings: Mapping[str, Any]) -> bool:
    """Whether the form follows the text: no weights to start from, and no size that was given, fix it."""
    sizes = base.preset.small_text_sizes
    return start.objective == "contrastive" and base.origin is None and bool(sizes) and not {*sizes} & {*settings}


def _contrast(objective: str, settings: Mapping[str, Any], base: Foundation, small: bool) -> Contrast | None:
    """Read the settings of the contrast of documents; another objective has none."""
    given = {f.name: settings[f.name] for f in fields(Contrast) if f.name in settings}
    if objective != "contrastive":
        if given:
            raise UserError(
                f"{setting(next(iter(given)))} belongs to {setting('objective', 'contrastive')}, not to {objective}"
            )
        return None
    if base.origin is not None:
        return override(base.origin.recipe.contrast or Contrast(), given)
    return override(Contrast(), {**(base.preset.small_text_contrast if small else {}), **given})


def _with_budget(training: Training, tokens_a_step: int, budget: Budget) -> Training:
    """Set how long to train, in steps or in minutes."""
    if budget.tokens is not None:
        return replace(training, steps=-(-budget.tokens // tokens_a_step))
    if budget.steps is not None:
        return replace(training, steps=budget.steps)
    return replace(training, minutes=DEFAULT_MINUTES if budget.minutes is None else budget.minutes)
