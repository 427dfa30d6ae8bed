"""Loss of a language model by position in the text, also beyond the trained length: `greffon.loss_by_position`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from greffon.core.conflicts import Idle, Values, refuses
from greffon.core.errors import UserError, out_of_range, setting
from greffon.core.json_results import JsonResult
from greffon.core.recipe import Recipe
from greffon.core.rng import generator
from greffon.data.corpora import reason_without_columns
from greffon.data.token_store import open_store
from greffon.inference.loading import load
from greffon.nn.model import Model
from greffon.objectives.batch import IGNORE
from greffon.objectives.corpus import Task, held_out_documents, task_of
from greffon.runs.run import Run

_BATCH_TOKENS = 4096


@dataclass(frozen=True, eq=False)
class PositionLoss(JsonResult):
    """Bits per byte in each interval of positions, over texts that all reach the last position."""

    run: str
    """Name of the run."""
    encoding: str
    """Kind of position encoding."""
    trained: int
    """Context in training, in tokens."""
    edges: np.ndarray
    """Positions at which the intervals begin, and at which the last one ends: (stretches + 1,)."""
    bits_per_byte: np.ndarray
    """Mean loss of each interval: (stretches,)."""
    texts: int
    """Number of texts."""
    stopped: bool
    """Whether only the trained length was scored, because learned positions end there."""


def _text_column_reason(values: Values) -> str | None:
    file = values["file"]
    return f"without {setting('file')}; leave it out" if file is None else reason_without_columns([file])


COLUMN_RULES = (Idle(("text_column",), _text_column_reason),)
"""Rules of what reads an optional file of texts."""


@refuses(*COLUMN_RULES)
def loss_by_position(
    run: str | Path | Run,
    file: str | Path | None = None,
    *,
    times: int = 4,
    texts: int = 64,
    stretches: int = 8,
    text_column: str = "text",
) -> PositionLoss:
    """Return the loss by position up to `times` the trained length, on a file or else on the held-out text.

    The trained length is divided into `stretches` intervals. Only texts that reach the last position are
    used, so that every interval is a mean over the same texts. A masked body reads a long text at once.
    """
    run = Run.open(run)
    recipe = run.recipe
    if recipe.objective not in ("causal", "masked"):
        raise UserError(f"{run.path} is a {recipe.objective} run; give a language model, causal or masked")
    trained = recipe.shape.context
    for name, value, most in (("times", times, 64), ("texts", texts, 100_000), ("stretches", stretches, trained)):
        if not 1 <= value <= most:
            raise out_of_range(name, value, f"choose from 1 to {most:,}")
    documents = _documents(run, file, text_column, times * trained + 1, texts)
    stopped = recipe.shape.positions == "learned" and times > 1
    length = trained if stopped else times * trained
    edges = np.linspace(0, trained, stretches + 1).round().astype(int)
    edges = np.unique(np.concatenate([edges[:-1] + i * trained for i in range(length // trained)] + [[length]]))
    task = _task(recipe, run, length)
    nats, counted = _sums(load(run), task, [document[: length + 1] for document in documents], length, run)
    starts = edges[:-1]
    share = np.add.reduceat(nats, starts) / np.maximum(np.add.reduceat(counted, starts), 1)
    return PositionLoss(run.name, recipe.shape.positions, trained, edges, share / np.log(2), len(documents), stopped)


def _documents(run: Run, file: str | Path | None, text_column: str, least: int, most: int) -> list[np.ndarray]:
    """Return up to `most` texts of at least `least` tokens; raise a `UserError` if there is none."""
    if file is None:
        found = list(held_out_documents(run.recipe, run.tokenizer))
        where = f"the text that {run.path} holds out"
    else:
        store = open_store([file], run.tokenizer, text_column)
        found, where = [store.document(i) for i in range(len(store))], str(file)
    long = [document for document in found if len(document) >= least]
    if not long:
        longest = max(map(len, found), default=0)
        raise UserError(
            f"{where} has no document of {least:,} tokens or more (the longest has {longest:,}); give a file of longer "
            f"ones with {setting('file')}, or a smaller {setting('times')}"
        )
    return long[:most]


def _task(recipe: Recipe, run: Run, length: int) -> Task[Any]:
    """Return the run's task on rows of another length, without next-sentence prediction."""
    masking = None if recipe.masking is None else replace(recipe.masking, next_sentence=False)
    return task_of(replace(recipe, shape=replace(recipe.shape, context=length), masking=masking), run.tokenizer)


@torch.no_grad()
def _sums(
    model: Model, task: Task[Any], rows: Sequence[np.ndarray], length: int, run: Run
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum of nats and the number of predicted bytes at each position: (length,) each."""
    nats, counted = np.zeros(length), np.zeros(length)
    size = max(1, _BATCH_TOKENS // length)
    for first in range(0, len(rows), size):
        batch = task.batch([row.astype(np.int64) for row in rows[first : first + size]], generator(0, "far", first))
        moved = batch.to(model.device)
        logits = model(moved.tokens, moved.document_ids, moved.positions).cpu()
        losses = F.cross_entropy(logits.mT, batch.targets, reduction="none", ignore_index=IGNORE)
        targets = batch.targets.numpy()
        nats += losses.double().sum(dim=0).numpy()
        counted += np.where(targets == IGNORE, 0, run.tokenizer.byte_lengths[targets.clip(min=0)]).sum(axis=0)
    return nats, counted
