"""What a recipe for translation has beside any other: pairs of files, and bodies that its sides start from."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from greffon.core.config import Recipe, Shape, Training, refuse_pair_settings
from greffon.core.errors import UserError
from greffon.core.presets import Preset
from greffon.core.rng import generator
from greffon.data.corpora import column_pairs, find_files, line_pairs
from greffon.objectives.seq2seq import PairBatch, Seq2Seq
from greffon.runs.run import Run

FILES = ("source", "target", "valid_source", "valid_target")
COLUMNS = {"source_column": "source", "target_column": "target"}


def take_pair_arguments(settings: Mapping[str, Any], objective: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part what names pairs from the other settings; only a translator can have it."""
    given = {name: settings[name] for name in (*FILES, *COLUMNS) if settings.get(name) is not None}
    rest = {name: value for name, value in settings.items() if name not in (*FILES, *COLUMNS)}
    if objective != "seq2seq":
        refuse_pair_settings(rest)
        for name, value in given.items():
            if value != COLUMNS.get(name):
                raise UserError(f"--{name.replace('_', '-')} is for translation; add --objective seq2seq")
        return {}, rest
    if "batch_size" in rest:
        raise UserError("a batch of pairs is measured in tokens, not rows; use --batch-tokens")
    named = {name: str(Path(given[name]).expanduser().absolute()) for name in FILES if name in given}
    return named | {name: given.get(name, usual) for name, usual in COLUMNS.items()}, rest


def check_pairs(
    texts: Sequence[str | Path], valid: Sequence[str | Path], pairs: Mapping[str, str], mix: Sequence[int]
) -> None:
    """Refuse files that cannot be pairs, before anything is written."""
    if mix:
        raise UserError("--mix is for texts, not for pairs; leave it out")
    for one, other in (("source", "target"), ("valid_source", "valid_target")):
        for here, there in ((one, other), (other, one)):
            if here in pairs and there not in pairs:
                raise UserError(
                    f"--{here.replace('_', '-')} needs --{there.replace('_', '-')}: two files, aligned line by line"
                )
    if ("source" in pairs) == bool(texts):
        raise UserError(
            "no pairs to train on, or too many: give --source F --target F, "
            "or a table with the columns source and target"
        )
    if "valid_source" in pairs and valid:
        raise UserError("held-out pairs are given twice; leave out --valid, or --valid-source and --valid-target")
    for name in FILES:
        if name in pairs and not Path(pairs[name]).is_file():
            raise UserError(f"{pairs[name]}: there is no such file; check --{name.replace('_', '-')}")
    for one, other in (("source", "target"), ("valid_source", "valid_target")):
        if one in pairs:
            deque(line_pairs(Path(pairs[one]), Path(pairs[other])), maxlen=0)  # are they aligned to the end?
    for file in find_files([str(text) for text in (*texts, *valid)]) if texts or valid else ():
        next(iter(column_pairs(file, pairs["source_column"], pairs["target_column"])), None)  # are there such columns?


def like_sides(
    sides: Sequence[Run | None],
    objective: str,
    init_from: str | Path | None,
    settings: Mapping[str, Any],
    tokenizer: str | Path | None,
    vocab_size: int | None,
    found: Preset,
) -> tuple[Preset, Path]:
    """Take shape and tokenizer from the runs that the sides start from; they cannot be chosen anew."""
    runs = [run for run in sides if run is not None]
    first = runs[0]
    if objective != "seq2seq":
        raise UserError("--encoder-from and --decoder-from are for translation; add --objective seq2seq")
    if init_from is not None:
        raise UserError("--init-from already gives both sides; leave out --encoder-from and --decoder-from")
    for run in runs:
        if run.recipe.objective in ("classify", "seq2seq"):
            raise UserError(f"{run.path} is a {run.recipe.objective} run; give a pretrained body")
    if tokenizer is not None or vocab_size is not None:
        raise UserError(f"the tokenizer is a fixed part of {first.path}, where weights come from; leave it out")
    kept = {name: getattr(found.shape, name) for name in ("dropout", "context")}
    forms = [replace(run.recipe.shape, **kept, segments=0) for run in runs]
    if any(form != forms[0] for form in forms):
        raise UserError(f"{runs[0].path} and {runs[1].path} have different shapes; both sides need the same")
    if any(run.tokenizer.digest != first.tokenizer.digest for run in runs):
        raise UserError(f"{runs[0].path} and {runs[1].path} have different tokenizers; both sides need the same")
    fixed = [name for name in settings if hasattr(found.shape, name) and name not in kept]
    if fixed:
        raise UserError(f"{fixed[0]} is a fixed part of {first.path}, where weights come from; leave it out")
    # An encoder that told the two texts of a pair apart reads all of its source as the first one.
    form = replace(forms[0], segments=sides[0].recipe.shape.segments if sides[0] else 0)
    if form.positions == "learned":
        form = replace(form, context=first.recipe.shape.context)
    return replace(found, shape=form), first.path


def tokens_of_step(objective: str, shape: Shape, training: Training) -> int:
    """Count the tokens that one step sees, at most."""
    rows = training.batch_tokens if objective == "seq2seq" else training.batch_size * shape.context
    return training.gradient_accumulation * rows


def pair_trial(recipe: Recipe) -> tuple[Seq2Seq, PairBatch]:
    """Make an objective and a batch of random pairs of middling length, to time steps by."""
    training, length = recipe.training, max(2, min(32, recipe.shape.context))
    objective = Seq2Seq(0, 1, 2, np.ones(recipe.vocab_size), training.label_smoothing)
    count = max(1, training.batch_tokens // length)
    rows = generator(0, "estimate").integers(2, recipe.vocab_size, (2, count, length - 1))
    return objective, objective.batch(list(zip(*rows, strict=True)))
