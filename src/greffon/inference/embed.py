"""Vectors of texts, and of words in context: hidden states of a body, without a head."""

import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import numpy as np
import torch

from greffon.core.choices import LongTexts, Pool
from greffon.core.errors import UserError, out_of_range, setting
from greffon.core.files import write_atomically
from greffon.core.json_results import JsonResult
from greffon.core.recipe import Embedding, Recipe
from greffon.core.settings import takes
from greffon.data.segmentation import Words
from greffon.inference.loading import load
from greffon.nn.heads import pool as pooled
from greffon.objectives.batch import Batch
from greffon.objectives.classify import text_vectors
from greffon.objectives.labelled_texts import LabelledTexts
from greffon.runs.run import Run

POOLS = get_args(Pool)
LONG_TEXTS = get_args(LongTexts)
BLOCK = 4096
"""Number of texts that are tokens at the same time: enough to batch them by length, whatever the number of texts."""


@takes()
def embed(
    run: str | Path | Run,
    texts: str | Sequence[str],
    *,
    pooling: Pool | None = None,
    long_texts: LongTexts = "windows",
    context: int | None = None,
) -> np.ndarray:
    """Return a vector for each text, (N, hidden_size): `embed("runs/body", ["Un beau livre."]).shape`.

    `pooling` makes one vector of the hidden states of a text: `mean` takes their mean, `last` the state of the
    last token, and `cls` that of the first token, which needs an encoder. A text longer than the context is read in
    windows, whose vectors are averaged; with `long_texts="truncate"` only its beginning is read. `context` is the
    number of tokens that are read at once. By default they are those of the checkpoint that the run was imported from,
    if it is one of sentence-transformers (as is the unit length of its vectors), else the mean and the run's context.
    """
    run = _body(run)
    texts = [texts] if isinstance(texts, str) else list(texts)
    made = own_embedding(run)
    pooling = made.pooling if pooling is None else pooling
    if pooling not in POOLS:
        raise UserError(f"unknown pooling {pooling!r}; choose {', '.join(POOLS[:-1])} or {POOLS[-1]}")
    if pooling == "cls" and run.recipe.body == "decoder":
        raise UserError(f"{run.path} is a decoder, whose first token attends to no other; choose mean or last")
    if long_texts not in LONG_TEXTS:
        raise UserError(f"unknown way to read long texts {long_texts!r}; choose {' or '.join(LONG_TEXTS)}")
    recipe = _with_context(run, made.max_length if context is None else context)
    out = pooled_states(run, recipe, texts, pooling, long_texts)
    if made.normalize:
        out /= np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-12)
    return out


def pooled_states(run: Run, recipe: Recipe, texts: Sequence[str], pooling: Pool, long_texts: LongTexts) -> np.ndarray:
    """Return the pooled hidden states of each text, (N, hidden_size), read as a recipe with the run's body reads it."""
    model, prepared = load(run), LabelledTexts(recipe, run.tokenizer, long_texts)

    def vectors(batch: Batch) -> torch.Tensor:
        return pooled(model.body(batch.tokens, batch.document_ids, batch.positions), batch.document_ids, pooling)

    out, cut = np.empty((len(texts), model.body.hidden_size), dtype=np.float32), 0
    for first in range(0, len(texts), BLOCK):
        ids = run.tokenizer.encode_many(texts[first : first + BLOCK])
        some = prepared.for_scoring(list(map(prepared.encoded, ids)))
        out[first : first + BLOCK] = text_vectors(model, some, vectors).cpu().numpy()
        cut += 0 if prepared.windows else sum(len(one) > prepared.room for one in ids)
    if cut:
        warnings.warn(
            f"{cut:,} of {len(texts):,} texts are longer than the context of {recipe.shape.context} tokens; "
            "only their beginning is read",
            stacklevel=3,
        )
    return out


def own_embedding(run: Run) -> Embedding:
    """Return how a run makes vectors where nothing else is asked for."""
    return run.recipe.embedding or Embedding(max_length=run.recipe.shape.context)


def _with_context(run: Run, context: int) -> Recipe:
    """Return the recipe with another context, which must not be longer than the run's."""
    longest = run.recipe.shape.context
    if not 0 < context <= longest:
        raise out_of_range("context", context, f"{run.path} reads up to {longest:,} tokens at once")
    return replace(run.recipe, shape=replace(run.recipe.shape, context=context))


def _body(run: str | Path | Run) -> Run:
    run = Run.open(run)
    if run.recipe.objective == "seq2seq":
        raise UserError(f"{run.path} is a translator; give a run with one body, pretrained or fine-tuned")
    return run


def save_vectors(path: Path, vectors: np.ndarray) -> None:
    """Write vectors as a NumPy file, atomically."""
    content = io.BytesIO()
    np.save(content, vectors, allow_pickle=False)
    try:
        write_atomically(Path(path), content.getvalue())
    except OSError as problem:
        raise UserError(
            f"{path}: the vectors cannot be written ({problem.strerror}); choose another {setting('out')}"
        ) from None


@dataclass(frozen=True)
class WordVector(JsonResult):
    """A word of a text, and its vector in this context."""

    word: str
    """The word, as the text spells it."""
    vector: np.ndarray
    """Mean of the hidden states of its tokens: (W,)."""


def word_vectors(run: str | Path | Run, text: str) -> list[WordVector]:
    """Return the vector of each word of a text in its context: the mean of its tokens' hidden states.

    The same word has different vectors in different sentences:
    `[found.vector for found in word_vectors(run, "L'avocat mange un avocat.") if found.word == "avocat"]`.
    """
    run = _body(run)
    model, prepared = load(run), LabelledTexts(run.recipe, run.tokenizer)
    ids = np.array(run.tokenizer.encode(text), dtype=np.int64)
    if not len(ids):
        return []
    if len(ids) > prepared.room:
        raise UserError(
            f"the text has {len(ids):,} tokens, and {run.path} reads {prepared.room:,} at a time; give a shorter one"
        )
    row = torch.from_numpy(prepared.lay_out(ids.tolist())).unsqueeze(0)
    with torch.no_grad():
        states = model.body(row.to(model.device))[0].cpu().numpy()
    states = states[len(prepared.before) : len(prepared.before) + len(ids)]
    begins = np.flatnonzero(Words(run.tokenizer).begins(ids))
    words = [run.tokenizer.decode(part).strip() for part in np.split(ids, begins[1:])]
    vectors = [part.mean(axis=0) for part in np.split(states, begins[1:])]
    return [WordVector(word, vector) for word, vector in zip(words, vectors, strict=True) if word]
