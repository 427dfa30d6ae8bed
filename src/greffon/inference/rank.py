"""The texts that answer a query best: `greffon.rank`. The vectors of the texts are computed once, and kept.

A body compares by the cosine of two vectors. A run that was fine-tuned on pairs compares as it has learned to: by the
score of the pair, or by the probability of one of its labels. Where it reads each text on its own, the vectors are
kept; where it reads both as one text, every pair is read anew.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from greffon.core.choices import Pool
from greffon.core.errors import UserError, did_you_mean, out_of_range, setting
from greffon.core.json_results import JsonResult
from greffon.core.settings import takes
from greffon.data.corpora import Labelled
from greffon.inference.classify import outputs
from greffon.inference.loading import load
from greffon.inference.nearest import best, cosines, kept
from greffon.nn.task_heads import TowersHead
from greffon.objectives.classify import row_vectors, text_vectors
from greffon.objectives.labelled_texts import LabelledTexts
from greffon.runs.run import Run

ROWS = 16_384
"""Pairs whose scores are computed at once."""
MOST_READ = 2_000
"""Most pairs that are read anew for one query."""


@dataclass(frozen=True)
class Ranked(JsonResult):
    """A text, its place in the list, and its score: a cosine, or what a run for pairs says of it and the query."""

    text: str
    """The text."""
    index: int
    """Its place in the list, counted from 0."""
    score: float
    """Cosine with the query, or the score of the pair by a run for pairs."""


@takes()
def rank(
    run: str | Path | Run,
    query: str,
    texts: Sequence[str],
    *,
    top_k: int = 10,
    pooling: Pool | None = None,
    label: str | None = None,
) -> list[Ranked]:
    """Return the `top_k` texts that are nearest to the query, the best first: `rank("runs/body", "chien", texts)`.

    A run that was fine-tuned on pairs ranks by its own score, or by the probability of `label`. `pooling` is that of
    `greffon.embed`, for all other runs.
    """
    run = Run.open(run)
    if top_k < 1:
        raise out_of_range("top_k", top_k, "choose 1 or more")
    if not query.strip():
        raise UserError("the query is empty; give the text to look for")
    if isinstance(texts, str) or not any(text.strip() for text in texts):
        raise UserError("there are no texts to rank; give a list of at least one")
    if run.recipe.task == "pairs":
        scores = _pair_scores(run, query, texts, pooling, label)
    elif label is not None:
        raise UserError(f"{run.path} does not read pairs of texts, so it ranks by no label; leave it out")
    else:
        scores = cosines(run, query, texts, pooling)
    return [Ranked(texts[i], i, float(scores[i])) for i in best(scores, texts, top_k)]


def _pair_scores(run: Run, query: str, texts: Sequence[str], pooling: Pool | None, label: str | None) -> np.ndarray:
    """Return what the head says of the query and each text."""
    if pooling is not None:
        raise UserError(
            f"{run.path} was fine-tuned on pairs and compares as it has learned to; {setting('pooling')} has no "
            "effect, leave it out"
        )
    labels = run.recipe.labels
    if labels and label not in labels:
        told = f"does not know the label {label!r}{did_you_mean(label, labels)}" if label else "has several labels"
        raise UserError(f"{run.path} {told}; choose one of {', '.join(labels)} with {setting('label')}")
    if label is not None and not labels:
        raise UserError(f"{run.path} gives scores, so it ranks by no label; leave it out")
    graft = run.recipe.graft
    towers = graft is None or graft.reads_apart
    said = _apart(run, query, texts) if towers else _together(run, query, texts)
    scores: np.ndarray = said[:, labels.index(label) if label is not None else 0]
    return scores


def _apart(run: Run, query: str, texts: Sequence[str]) -> np.ndarray:
    """Compare the vector of the query with those of the texts: (N, C)."""
    model = load(run)
    head, prepared = model.head, LabelledTexts(run.recipe, run.tokenizer)
    assert isinstance(head, TowersHead)

    def vectors_of(wanted: Sequence[str]) -> np.ndarray:
        encoded = [prepared.encoded(ids) for ids in run.tokenizer.encode_many(wanted)]
        scoring = prepared.for_scoring(encoded)
        vectors: np.ndarray = text_vectors(model, scoring, row_vectors(model)).cpu().numpy()
        return vectors

    vectors = torch.from_numpy(np.array(kept(run, texts, "towers", vectors_of)))
    asked = torch.from_numpy(vectors_of([query]))
    found = []
    with torch.no_grad():
        for begin in range(0, len(vectors), ROWS):
            part = vectors[begin : begin + ROWS]
            both = torch.stack((asked.expand_as(part), part), dim=1).flatten(0, 1)  # (2 N, W), alternating
            found.append(prepared.targets.outputs(head.classify(both.to(model.device))).cpu())
    said: np.ndarray = torch.cat(found).numpy()
    return said


def _together(run: Run, query: str, texts: Sequence[str]) -> np.ndarray:
    """Read the query and each text as one: (N, C)."""
    if len(texts) > MOST_READ:
        raise UserError(
            f"{run.path} reads the query and each text together ({setting('pair_reading', 'cross')}), so no vectors "
            f"can be kept: {len(texts):,} texts would be read anew for every query; give up to {MOST_READ:,}, such as "
            f"those that a body ranks first, or fine-tune with {setting('pair_reading', 'towers')}"
        )
    return np.stack(outputs(run, [Labelled(query, "", 0, text) for text in texts]))
