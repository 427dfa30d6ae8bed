"""From text files to a pretrained body: `greffon.pretrain`, `greffon.estimate`, `greffon.resume`."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, get_args

import numpy as np

from greffon.core.config import (
    BodyKind,
    Data,
    Masking,
    PretrainingObjective,
    Recipe,
    Shape,
    Training,
    check_names,
    override,
)
from greffon.core.errors import UserError, did_you_mean
from greffon.core.locks import sole_use
from greffon.core.presets import DEFAULTS, Preset
from greffon.core.presets import preset as look_up
from greffon.core.rng import generator
from greffon.data.corpora import find_files
from greffon.data.sentence_pairs import Pair
from greffon.data.tokenizer import Tokenizer
from greffon.inference.scoring import held_out_loss
from greffon.objectives.batch import Batch
from greffon.objectives.causal import Causal
from greffon.objectives.corpus import HELD_OUT_SHARE
from greffon.objectives.masked import Masked, Roles
from greffon.objectives.protocol import Objective
from greffon.runs.run import Run
from greffon.training.distributed.launch import begin, carry_out, process_group, reopen
from greffon.training.estimate import calibrated, check_memory
from greffon.training.jobs import Job, lowest_loss
from greffon.training.recipe import check_pairs, like_sides, pair_trial, take_pair_arguments, tokens_of_step

OBJECTIVES: tuple[PretrainingObjective, ...] = get_args(PretrainingObjective)
BODIES: dict[PretrainingObjective, BodyKind] = {
    "causal": "decoder",
    "masked": "encoder",
    "seq2seq": "encoder-decoder",
}
DEFAULT_MINUTES = 10.0

FEWEST = 5
"""Evaluations of a short run, where the preset's distance would leave fewer to choose and to average from."""


def pretrain(
    texts: Sequence[str | Path] = (),
    *,
    out: str | Path,
    objective: PretrainingObjective = "causal",
    preset: str | None = None,
    tokenizer: str | Path | None = None,
    vocab_size: int | None = None,
    mix: Sequence[int] = (),
    valid: Sequence[str | Path] = (),
    text_column: str = "text",
    steps: int | None = None,
    tokens: int | None = None,
    minutes: float | None = None,
    seed: int = 0,
    init_from: str | Path | None = None,
    force: bool = False,
    quiet: bool = False,
    processes: int = 1,
    fsdp: bool = False,
    source: str | Path | None = None,
    target: str | Path | None = None,
    valid_source: str | Path | None = None,
    valid_target: str | Path | None = None,
    source_column: str = "source",
    target_column: str = "target",
    encoder_from: str | Path | None = None,
    decoder_from: str | Path | None = None,
    **settings: Any,
) -> Run:
    """Pretrain a body on text files and return its Run.

    How long: one of `steps`, `tokens` or `minutes` (10 minutes by default). `init_from` is a run
    whose weights, shape and tokenizer it starts from instead of fresh ones. `mix=(3, 1)` takes three
    rows of the first text for one of the second, however long they are. `settings` are fields of
    `Shape` and `Training`, and of `Masking` for a masked one:
    `pretrain(["texts/"], out="runs/body", layers=6, dropout=0.1)`.

    The objective `seq2seq` learns to translate `source` into `target`, two files aligned line by
    line, or the columns of tables given as texts; its two sides can start from the bodies of
    pretrained runs (`encoder_from`, `decoder_from`), whose shape and tokenizer it then has.

    `processes` trains in several processes on this machine, with the same batches and the same losses;
    `fsdp` keeps a share of the weights in each of them instead of a copy. Both are no part of the run:
    it can be resumed with any number of processes.
    """
    group = process_group(processes, fsdp)
    with group.report_once(f"greffon resume {out}"):
        recipe = make_recipe(
            texts,
            objective=objective,
            preset=preset,
            tokenizer=tokenizer,
            vocab_size=vocab_size,
            mix=mix,
            valid=valid,
            text_column=text_column,
            steps=steps,
            tokens=tokens,
            minutes=minutes,
            seed=seed,
            init_from=init_from,
            source=source,
            target=target,
            valid_source=valid_source,
            valid_target=valid_target,
            source_column=source_column,
            target_column=target_column,
            encoder_from=encoder_from,
            decoder_from=decoder_from,
            **settings,
        )
        lay_out = partial(Run.create, recipe=recipe)
        return begin(out, lay_out, force=force, quiet=quiet, group=group, processes=processes, fsdp=fsdp)


def estimate(texts: Sequence[str | Path] = (), **arguments: Any) -> Recipe:
    """Time a few steps of what `pretrain` would do, on random tokens, and write nothing.

    The recipe that comes back says what it would cost here: `cost_line(estimate(["texts/"], steps=1000))`.
    """
    recipe = make_recipe(texts, **arguments)
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
    return calibrated(recipe, job)


def _rehearsal(recipe: Recipe) -> tuple[Objective, Batch]:
    """Make an objective and a batch of random tokens, of the size that the recipe's will have."""
    if recipe.objective == "seq2seq":
        return pair_trial(recipe)
    rows, length, vocab_size = recipe.training.batch_size, recipe.shape.context, recipe.vocab_size
    random = generator(0, "estimate")
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


def resume(
    run: str | Path | Run, *, extra_steps: int = 0, quiet: bool = False, processes: int = 1, fsdp: bool = False
) -> Run:
    """Go on with a run that was stopped; `more` adds steps to one that is finished.

    It can go on in another number of `processes` than it was begun with.
    """
    group = process_group(processes, fsdp)
    with group.report_once(f"greffon resume {run.path if isinstance(run, Run) else run}"):
        if extra_steps < 0:
            raise UserError(f"extra_steps is {extra_steps}; choose a number of steps above 0")
        opened = Run.open(run)
        with sole_use(opened.path) if group.holds_lock else nullcontext():
            opened = reopen(opened, extra_steps, group=group)
            return carry_out(opened, quiet=quiet, group=group, processes=processes, fsdp=fsdp)


def make_recipe(
    texts: Sequence[str | Path],
    *,
    objective: PretrainingObjective = "causal",
    preset: str | None = None,
    tokenizer: str | Path | None = None,
    vocab_size: int | None = None,
    mix: Sequence[int] = (),
    valid: Sequence[str | Path] = (),
    text_column: str = "text",
    steps: int | None = None,
    tokens: int | None = None,
    minutes: float | None = None,
    seed: int = 0,
    init_from: str | Path | None = None,
    encoder_from: str | Path | None = None,
    decoder_from: str | Path | None = None,
    **settings: Any,
) -> Recipe:
    """Turn the arguments of `pretrain` into a recipe, refusing what cannot be."""
    if objective not in OBJECTIVES:
        raise UserError(f"unknown objective {objective!r}{did_you_mean(objective, OBJECTIVES)}")
    preset = DEFAULTS.get(objective, "compact") if preset is None else preset
    found = look_up(preset, objective)
    pairs, settings = take_pair_arguments(settings, objective)
    check_names(settings, Shape, Training, Masking)
    origin = None if init_from is None else Run.open(init_from)
    if origin is not None:
        preset, found, tokenizer = _like(origin, objective, settings, tokenizer, vocab_size)
    sides = [None if side is None else Run.open(side) for side in (encoder_from, decoder_from)]
    if any(sides):
        found, tokenizer = like_sides(sides, objective, init_from, settings, tokenizer, vocab_size, found)
    texts = [texts] if isinstance(texts, str | Path) else texts
    if objective == "seq2seq":
        check_pairs(texts, valid, pairs, mix)
    elif not texts:
        raise UserError("no text to train on; name at least one file, directory or glob")
    if mix and len(mix) != len(texts):
        raise UserError(f"--mix has {len(mix)} numbers for {len(texts)} texts; give one for each")
    if mix and min(mix) < 1:
        raise UserError(f"--mix takes {min(mix)} rows of a text; choose 1 or more, or leave that text out")
    for source in (texts, valid):
        if source:
            find_files(source)
    if tokenizer is not None:
        if vocab_size is not None:
            raise UserError("a tokenizer has its own vocabulary; give either --tokenizer or --vocab-size, not both")
        loaded = Tokenizer.load(Path(tokenizer))
        vocab_size = loaded.size if origin is None else origin.recipe.vocab_size
        if objective == "masked" and "mask" in loaded.absent:
            raise UserError(f"{tokenizer}: this tokenizer has no [MASK]; choose another one for --objective masked")
        if not loaded.lossless:
            why = "reads everything in lower case" if loaded.lowercase else "lacks a byte fallback, or drops spaces"
            warnings.warn(
                f"{tokenizer} does not give every text back as it was (it {why}): what it loses cannot be generated, "
                "and bits per byte are only comparable among its own runs",
                stacklevel=2,
            )
    masking = _masking(objective, settings, origin)
    shape = override(found.shape, settings)
    if masking is not None and masking.next_sentence:
        shape = replace(shape, segments=2)
    training = override(found.training, {**settings, "seed": seed})
    training = _with_budget(training, tokens_of_step(objective, shape, training), steps, tokens, minutes)
    if "evaluate_every" not in settings and 0 < training.steps < FEWEST * training.evaluate_every:
        training = replace(training, evaluate_every=-(-training.steps // FEWEST))
    return Recipe(
        objective=objective,
        preset=preset,
        shape=shape,
        training=training,
        data=Data(
            train=_absolute(texts),
            mix=tuple(mix),
            valid=_absolute(valid),
            text_column=text_column,
            **pairs,
            tokenizer="" if tokenizer is None else str(Path(tokenizer).absolute()),
        ),
        vocab_size=found.vocab_size if vocab_size is None else vocab_size,
        origin="" if origin is None else str(origin.path.resolve()),
        encoder_origin="" if sides[0] is None else str(sides[0].path.resolve()),
        decoder_origin="" if sides[1] is None else str(sides[1].path.resolve()),
        body=BODIES[objective],
        masking=masking,
    )


def _masking(objective: str, settings: Mapping[str, Any], origin: Run | None) -> Masking | None:
    """Read the settings of a masked language model; another objective has none."""
    # A flag left out on the command line is False, and no choice.
    asked = {f.name: settings.get(f.name) for f in fields(Masking)}
    given = {name: value for name, value in asked.items() if value is not None and value is not False}
    if objective != "masked":
        if given:
            raise UserError(f"{next(iter(given))} belongs to --objective masked, not to {objective}")
        return None
    base = Masking() if origin is None or origin.recipe.masking is None else origin.recipe.masking
    for name in ("next_sentence", "gist"):
        if origin is not None and given.get(name, getattr(base, name)) != getattr(base, name):
            raise UserError(f"{name} is a fixed part of {origin.path}, where the weights come from; leave it out")
    return override(base, given)


def _absolute(sources: Sequence[str | Path]) -> tuple[str, ...]:
    """Name files so that the run can be resumed from any folder."""
    return tuple(str(s) if str(s).startswith("hf:") else str(Path(s).expanduser().absolute()) for s in sources)


def _like(
    origin: Run,
    objective: str,
    settings: Mapping[str, Any],
    tokenizer: str | Path | None,
    vocab_size: int | None,
) -> tuple[str, Preset, Path]:
    """Take preset, shape and tokenizer from the run to start from; they cannot be chosen anew."""
    base = origin.recipe
    if base.objective != objective:
        raise UserError(f"{origin.path} is a {base.objective} run; start a {objective} one from a {objective} one")
    fixed = [name for name in settings if hasattr(base.shape, name) and name != "dropout"]
    if tokenizer is not None or vocab_size is not None:
        fixed.append("tokenizer")
    if fixed:
        raise UserError(f"{fixed[0]} is a fixed part of {origin.path}, where the weights come from; leave it out")
    found = look_up(base.preset, objective)
    return base.preset, replace(found, shape=base.shape), origin.path


def _with_budget(
    training: Training, tokens_a_step: int, steps: int | None, tokens: int | None, minutes: float | None
) -> Training:
    """Set how long to train: exactly one of steps, tokens and minutes, or the default minutes."""
    given = {"steps": steps, "tokens": tokens, "minutes": minutes}
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise UserError(f"{' and '.join(f'--{name}' for name in named)} exclude each other; give one of them")
    for name in named:
        if not given[name] > 0:  # type: ignore[operator]
            raise UserError(f"{name} is {given[name]}; choose a number above 0")
    if tokens is not None:
        steps = -(-tokens // tokens_a_step)
    if steps is not None:
        return replace(training, steps=steps)
    return replace(training, minutes=DEFAULT_MINUTES if minutes is None else minutes)
