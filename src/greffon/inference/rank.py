"""The texts that answer a query best: `greffon.rank`. The vectors of the texts are computed once, and kept.

A body compares by the cosine of two vectors. A run that was fine-tuned on pairs, each text read on its own, compares as
it has learned to: by the score of the pair, or by the probability of one of its labels.
"""

import hashlib
import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from greffon.core.config import Pool
from greffon.core.errors import UserError, did_you_mean, out_of_range, setting
from greffon.core.files import cache_folder, sha256, write_atomically
from greffon.core.json_results import JsonResult
from greffon.inference.embed import embed
from greffon.inference.loading import load
from greffon.nn.task_heads import TowersHead
from greffon.objectives.classify import row_vectors, text_vectors
from greffon.objectives.labelled_texts import LabelledTexts
from greffon.runs.run import Run

ROWS = 16_384
"""Pairs whose scores are computed at once."""


@dataclass(frozen=True)
class Ranked(JsonResult):
    """A text, its place in the list, and its score: a cosine, or what a run for pairs says of it and the query."""

    text: str
    """The text."""
    index: int
    """Its place in the list, counted from 0."""
    score: float
    """Cosine with the query, or the score of the pair by a run for pairs."""


def rank(
    run: str | Path | Run,
    query: str,
    texts: Sequence[str],
    *,
    top_k: int = 10,
    pooling: Pool = "mean",
    label: str | None = None,
) -> list[Ranked]:
    """Return the `top_k` texts that are nearest to the query, the best first: `rank("runs/body", "chien", texts)`.

    A run that was fine-tuned on pairs ranks by its own score, or by the probability of `label`.
    """
    run = Run.open(run)
    if top_k < 1:
        raise out_of_range("top_k", top_k, "choose 1 or more")
    if isinstance(texts, str) or not any(text.strip() for text in texts):
        raise UserError("there are no texts to rank; give a list of at least one")
    scores = _pair_scores(run, query, texts, label) if _has_towers(run) else _cosines(run, query, texts, pooling, label)
    blank = np.array([not text.strip() for text in texts])
    scores = np.where(blank, -np.inf, scores)
    count = min(top_k, int((~blank).sum()))
    best = np.argpartition(-scores, count - 1)[:count]
    best = best[np.lexsort((best, -scores[best]))]
    return [Ranked(texts[i], int(i), float(scores[i])) for i in best]


def _has_towers(run: Run) -> bool:
    graft = run.recipe.graft
    return run.recipe.task == "pairs" and graft is not None and graft.pair_reading == "towers"


def _cosines(run: Run, query: str, texts: Sequence[str], pooling: Pool, label: str | None) -> np.ndarray:
    if label is not None:
        raise UserError(
            f"{run.path} does not read pairs of texts, each on its own, so it ranks by no label; leave it out"
        )
    vectors = _kept(run, texts, pooling, lambda wanted: _unit(embed(run, wanted, pooling=pooling)))
    cosines: np.ndarray = vectors @ _unit(embed(run, [query], pooling=pooling))[0]
    return cosines


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Bring vectors to length one."""
    unit: np.ndarray = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return unit


def _pair_scores(run: Run, query: str, texts: Sequence[str], label: str | None) -> np.ndarray:
    """Return what the head says of the query and each text."""
    labels = run.recipe.labels
    if labels and label not in labels:
        told = f"does not know the label {label!r}{did_you_mean(label, labels)}" if label else "has several labels"
        raise UserError(f"{run.path} {told}; choose one of {', '.join(labels)} with {setting('label')}")
    model = load(run)
    head, prepared = model.head, LabelledTexts(run.recipe, run.tokenizer)
    assert isinstance(head, TowersHead)

    def vectors_of(wanted: Sequence[str]) -> np.ndarray:
        encoded = [prepared.encoded(ids) for ids in run.tokenizer.encode_many(wanted)]
        scoring = prepared.for_scoring(encoded)
        vectors: np.ndarray = text_vectors(model, scoring, row_vectors(model)).cpu().numpy()
        return vectors

    vectors = torch.from_numpy(np.array(_kept(run, texts, "towers", vectors_of)))
    asked = torch.from_numpy(vectors_of([query]))
    found = []
    with torch.no_grad():
        for begin in range(0, len(vectors), ROWS):
            part = vectors[begin : begin + ROWS]
            both = torch.stack((asked.expand_as(part), part), dim=1).flatten(0, 1)  # (2 N, W), alternating
            found.append(prepared.targets.outputs(head.classify(both)))
    outputs = torch.cat(found).numpy()
    scores: np.ndarray = outputs[:, labels.index(label) if label is not None and labels else 0]
    return scores


def _kept(run: Run, texts: Sequence[str], kind: str, compute: Callable[[Sequence[str]], np.ndarray]) -> np.ndarray:
    """Return the vectors of texts from the cache, or compute them and keep them there."""
    name = hashlib.sha256(f"{kind} {sha256(run.path / 'model.safetensors')} {run.tokenizer.digest}".encode())
    for text in texts:
        name.update(f"{len(text)} {text}".encode())
    file = cache_folder() / "vectors" / f"{name.hexdigest()}.npy"
    try:
        found: np.ndarray = np.load(file, mmap_mode="r", allow_pickle=False)
        if len(found) == len(texts):
            return found
    except (OSError, ValueError):
        pass
    vectors, content = compute(texts), io.BytesIO()
    np.save(content, vectors, allow_pickle=False)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, content.getvalue())
    except OSError as problem:
        warnings.warn(f"{file}: the vectors could not be kept ({problem.strerror})", stacklevel=2)
    return vectors
