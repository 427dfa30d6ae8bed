"""What a pretraining is made from: its text or sentence pairs, and the runs that its weights come from."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from greffon.core.config import override
from greffon.core.errors import UserError, setting
from greffon.core.preset import Preset
from greffon.core.presets import DEFAULTS
from greffon.core.presets import preset as preset_of
from greffon.core.recipe import Contrast, Data, Recipe
from greffon.core.rng import generator
from greffon.core.settings import Corpus, Pairs, Start
from greffon.core.shape import FREE, Shape
from greffon.core.training import Training
from greffon.data.corpora import column_pairs, documents, find_files, line_pairs, reason_without_columns
from greffon.objectives.seq2seq import PairBatch, Seq2Seq
from greffon.runs.run import Run


def check_text(texts: Sequence[str | Path], corpus: Corpus, pairs: Pairs, objective: str) -> None:
    """Refuse files that cannot be read as this objective needs them, before anything is written."""
    if objective == "seq2seq":
        _check_pairs(texts, corpus, pairs)
    else:
        for f in fields(Pairs):
            if getattr(pairs, f.name) != f.default:
                raise UserError(f"{setting(f.name)} is for translation; add {setting('objective', 'seq2seq')}")
        if not texts:
            raise UserError("no text to train on; name at least one file, directory or glob")
        if corpus.text_column != Corpus().text_column and (reason := reason_without_columns([*texts, *corpus.valid])):
            raise UserError(f"{setting('text_column', corpus.text_column)} has no effect {reason}")
    if corpus.mix and len(corpus.mix) != len(texts):
        raise UserError(f"{setting('mix')} has {len(corpus.mix)} numbers for {len(texts)} texts; give one for each")
    if corpus.mix and min(corpus.mix) < 1:
        raise UserError(
            f"{setting('mix')} takes {min(corpus.mix)} sequences of a text; choose 1 or more, or leave that text out"
        )
    if len(corpus.mix) == 1:
        raise UserError(f"{setting('mix')} has no effect on a single text; leave it out")
    for files in (texts, corpus.valid):
        if files:
            find_files(files)


def _check_pairs(texts: Sequence[str | Path], corpus: Corpus, pairs: Pairs) -> None:
    """Refuse files that cannot be pairs, and settings that a translator would ignore."""
    if corpus.mix:
        raise UserError(f"{setting('mix')} is for texts, not for pairs; leave it out")
    if corpus.text_column != Corpus().text_column:
        raise UserError(
            f"{setting('text_column')} is not for translation; "
            f"use {setting('source_column')} and {setting('target_column')}"
        )
    files = {name: Path(file).expanduser() for name, file in vars(pairs).items() if file and "column" not in name}
    for one, other in (("source", "target"), ("valid_source", "valid_target")):
        for here, there in ((one, other), (other, one)):
            if here in files and there not in files:
                raise UserError(f"{setting(here)} needs {setting(there)}: two files, aligned line by line")
    if ("source" in files) == bool(texts):
        raise UserError(
            f"no pairs to train on, or too many: give {setting('source')} and {setting('target')}, "
            "or a table with the columns source and target"
        )
    if "valid_source" in files and corpus.valid:
        raise UserError(
            f"held-out pairs are given twice; leave out {setting('valid')}, "
            f"or {setting('valid_source')} and {setting('valid_target')}"
        )
    if not texts and not corpus.valid and (pairs.source_column, pairs.target_column) != ("source", "target"):
        raise UserError(
            f"{setting('source_column')} and {setting('target_column')} have no effect with {setting('source')}, "
            "a file without columns"
        )
    for name, file in files.items():
        if not file.is_file():
            raise UserError(f"{file.absolute()}: there is no such file; check {setting(name)}")
    for one, other in (("source", "target"), ("valid_source", "valid_target")):
        if one in files:
            deque(line_pairs(files[one].absolute(), files[other].absolute()), maxlen=0)  # are they aligned to the end?
    for table in find_files([str(text) for text in (*texts, *corpus.valid)]) if texts or corpus.valid else ():
        next(iter(column_pairs(table, pairs.source_column, pairs.target_column)), None)  # are there such columns?


def described(texts: Sequence[str | Path], corpus: Corpus, pairs: Pairs, tokenizer: Path | None) -> Data:
    """Describe where the text comes from, by absolute paths: the run can then be resumed from any folder."""

    def absolute(path: str | Path) -> str:
        return str(path) if str(path).startswith("hf:") else str(Path(path).expanduser().absolute())

    named = {name: value if "column" in name else absolute(value) for name, value in vars(pairs).items() if value}
    data = Data(train=tuple(map(absolute, texts)), mix=tuple(corpus.mix), valid=tuple(map(absolute, corpus.valid)))
    return replace(
        override(data, named),
        text_column=corpus.text_column,
        tokenizer="" if tokenizer is None else str(tokenizer.absolute()),
    )


@dataclass(frozen=True)
class Foundation:
    """What a recipe builds on: a preset, and the runs that its weights, architecture and tokenizer come from."""

    name: str
    preset: Preset
    shape: Shape
    tokenizer: Path | None = None
    origin: Run | None = None
    encoder: Run | None = None
    decoder: Run | None = None


def foundation(start: Start, settings: Mapping[str, Any]) -> Foundation:
    """Look up the preset, and open the runs to start from; what they fix cannot be chosen anew."""
    name = start.preset or DEFAULTS.get(start.objective, "auto")
    preset = preset_of(name, start.objective)
    if start.encoder_from is not None or start.decoder_from is not None:
        sides = [None if side is None else Run.open(side) for side in (start.encoder_from, start.decoder_from)]
        shape, tokenizer = _shared_by(sides, start, preset.shape, settings)
        return Foundation(name, preset, shape, tokenizer, None, *sides)
    if start.init_from is not None:
        return _like(Run.open(start.init_from), start, settings)
    given = None if start.tokenizer is None else Path(start.tokenizer)
    if given is not None and (given / "recipe.json").is_file():
        Run.open(given)  # which refuses a run of another version
    return Foundation(name, preset, preset.shape_for(start.objective), given)


SHORT = 120
"""Mean number of characters below which documents are as short as a sentence."""
SMALL = 8_000_000
"""Characters below which a text is small, however long its documents are."""


def is_small(texts: Sequence[str | Path], corpus: Corpus) -> bool:
    """Whether a text is small, or its documents, as far as they are read, are as short as a sentence."""
    characters = count = 0
    for text in documents(texts, corpus.text_column):
        characters, count = characters + len(text), count + 1
        if characters >= SMALL:
            return characters < SHORT * count
    return True


def _like(origin: Run, start: Start, settings: Mapping[str, Any]) -> Foundation:
    """Take preset, shape and tokenizer from the run to start from."""
    base = origin.recipe
    if base.objective != start.objective:
        raise UserError(
            f"{origin.path} is a {base.objective} run; start a {start.objective} one from a {start.objective} one"
        )
    fixed = [name for name in settings if hasattr(base.shape, name) and name != "dropout"]
    if start.preset not in (None, base.preset):
        fixed.append("preset")
    if start.tokenizer is not None or start.vocab_size is not None:
        fixed.append("tokenizer")
    if fixed:
        raise UserError(
            f"{setting(fixed[0])} is a fixed part of {origin.path}, where the weights come from; leave it out"
        )
    found = preset_of(base.preset, start.objective)
    return Foundation(base.preset, found, base.shape, origin.path, origin)


def _shared_by(
    sides: Sequence[Run | None], start: Start, wanted: Shape, settings: Mapping[str, Any]
) -> tuple[Shape, Path]:
    """Take shape and tokenizer from the runs that initialize the two sides of a translator."""
    runs = [run for run in sides if run is not None]
    first = runs[0]
    if start.objective != "seq2seq":
        raise UserError(
            f"{setting('encoder_from')} and {setting('decoder_from')} are for translation; "
            f"add {setting('objective', 'seq2seq')}"
        )
    if start.init_from is not None:
        raise UserError(
            f"{setting('init_from')} already gives both sides; "
            f"leave out {setting('encoder_from')} and {setting('decoder_from')}"
        )
    for run in runs:
        if run.recipe.objective in ("classify", "seq2seq"):
            raise UserError(f"{run.path} is a {run.recipe.objective} run; give a pretrained body")
    if start.tokenizer is not None or start.vocab_size is not None:
        raise UserError(f"the tokenizer is a fixed part of {first.path}, where weights come from; leave it out")
    kept = {name: getattr(wanted, name) for name in FREE}
    forms = [replace(run.recipe.shape, **kept, segments=0) for run in runs]
    if any(form != forms[0] for form in forms):
        raise UserError(f"{runs[0].path} and {runs[1].path} have different shapes; both sides need the same")
    if any(run.tokenizer.digest != first.tokenizer.digest for run in runs):
        raise UserError(f"{runs[0].path} and {runs[1].path} have different tokenizers; both sides need the same")
    fixed = [name for name in settings if hasattr(wanted, name) and name not in kept]
    if fixed:
        raise UserError(f"{setting(fixed[0])} is a fixed part of {first.path}, where weights come from; leave it out")
    # An encoder with segment embeddings reads the whole source as its first segment.
    form = replace(forms[0], segments=sides[0].recipe.shape.segments if sides[0] else 0)
    if form.positions == "learned":
        form = replace(form, context=first.recipe.shape.context)
    return form, first.path


def resolved(run: Run | None) -> str:
    """Name a run that weights come from, by its real path; empty for none."""
    return "" if run is None else str(run.path.resolve())


def tokens_of_step(objective: str, contrast: Contrast | None, shape: Shape, training: Training) -> int:
    """Count the tokens that one step sees, at most."""
    length = shape.context if contrast is None else 2 * (contrast.span_length + 2)
    tokens = training.batch_tokens if objective == "seq2seq" else training.batch_size * length
    return training.gradient_accumulation * tokens


def pair_trial(recipe: Recipe) -> tuple[Seq2Seq, PairBatch]:
    """Make an objective and a batch of random pairs of middling length, to time steps by."""
    training, length = recipe.training, max(2, min(32, recipe.shape.context))
    objective = Seq2Seq(0, 1, 2, np.ones(recipe.vocab_size), training.label_smoothing)
    count = max(1, training.batch_tokens // length)
    rows = generator(0, "estimate").integers(2, recipe.vocab_size, (2, count, length - 1))
    return objective, objective.batch(list(zip(*rows, strict=True)))
