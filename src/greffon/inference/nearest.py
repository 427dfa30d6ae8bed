"""Texts by the cosine of their vectors with that of a query: `greffon.nearest`. The vectors are kept in the cache."""

import hashlib
import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from greffon.core.choices import LongTexts, Pool
from greffon.core.errors import UserError, out_of_range, setting
from greffon.core.files import cache_folder, sha256, write_atomically
from greffon.core.json_results import JsonResult
from greffon.core.settings import takes
from greffon.inference.embed import embed, own_embedding
from greffon.runs.run import Run


@dataclass(frozen=True)
class Neighbour(JsonResult):
    """A text that was found, its index in the list, and its cosine similarity with the query."""

    text: str
    """The text that was found."""
    index: int
    """Its place in the list, counted from 0."""
    cosine: float
    """Cosine similarity with the query."""


@takes()
def nearest(
    run: str | Path | Run,
    text: str,
    texts: Sequence[str],
    *,
    top_k: int = 5,
    pooling: Pool | None = None,
    long_texts: LongTexts = "windows",
    context: int | None = None,
) -> list[Neighbour]:
    """Return the `top_k` texts with the highest cosine similarity to `text`, the most similar first.

    Blank texts are skipped. Pooling and context are those of `greffon.embed`.
    """
    if not text.strip():
        raise UserError(f"{setting('nearest')} is empty; give the text to look for")
    if not texts or isinstance(texts, str):
        raise UserError("there are no texts to search; give a list of at least one")
    if top_k < 1:
        raise out_of_range("top_k", top_k, "choose 1 or more")
    found = cosines(Run.open(run), text, texts, pooling, long_texts, context)
    return [Neighbour(texts[i], i, float(found[i])) for i in best(found, texts, top_k)]


def cosines(
    run: Run,
    query: str,
    texts: Sequence[str],
    pooling: Pool | None = None,
    long_texts: LongTexts = "windows",
    context: int | None = None,
) -> np.ndarray:
    """Return the cosine similarity of each text with the query."""
    asked = embed(run, [query], pooling=pooling, long_texts=long_texts, context=context)[0]  # refuses before the work
    vectors = kept_embeddings(run, texts, pooling, long_texts, context)
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(asked)
    similar: np.ndarray = vectors @ asked / np.maximum(lengths, 1e-12)
    return similar


def kept_embeddings(
    run: Run, texts: Sequence[str], pooling: Pool | None, long_texts: LongTexts, context: int | None
) -> np.ndarray:
    """Return the vectors that `greffon.embed` makes of texts, from the cache if they are there."""
    made = own_embedding(run)
    kind = f"{pooling or made.pooling} {long_texts} {made.max_length if context is None else context} {made.normalize}"
    return kept(
        run, texts, kind, lambda wanted: embed(run, wanted, pooling=pooling, long_texts=long_texts, context=context)
    )


def best(scores: np.ndarray, texts: Sequence[str], top_k: int) -> list[int]:
    """Return the places of the `top_k` highest scores, the highest first; blank texts have none."""
    blank = np.array([not text.strip() for text in texts])
    count = min(top_k, int((~blank).sum()))
    if not count:
        return []
    kept_scores = np.where(blank, -np.inf, scores)
    highest = np.argpartition(-kept_scores, count - 1)[:count]
    places: list[int] = highest[np.lexsort((highest, -kept_scores[highest]))].tolist()
    return places


def kept(run: Run, texts: Sequence[str], kind: str, compute: Callable[[Sequence[str]], np.ndarray]) -> np.ndarray:
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
