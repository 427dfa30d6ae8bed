"""Text in one language in, text in another out: what a translator is for."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np

from greffon.core.config import Backend
from greffon.core.errors import UserError, did_you_mean
from greffon.data.corpora import texts_of
from greffon.data.readers import SUFFIXES, lines, suffix_of
from greffon.inference.beam import Hypothesis, Search, search_all
from greffon.inference.ctranslate2 import search_ctranslate2
from greffon.inference.loading import load
from greffon.inference.scoring import longest_target, translation_vocabulary
from greffon.runs.run import Run


@dataclass(frozen=True)
class Translation:
    """A text, its translation, and the score: log-probability / length ** penalty."""

    source: str
    translation: str
    score: float


def translate(
    run: str | Path | Run,
    texts: str | Sequence[str],
    *,
    beam_size: int = 4,
    length_penalty: float = 1.0,
    backend: Backend = "torch",
    int8: bool = False,
) -> list[Translation]:
    """Translate sentences: `translate("runs/en-fr", "Two dogs run.")[0].translation`. A beam of 1 is greedy.

    The backend ctranslate2 is faster; with `int8`, 8-bit integers, both are faster still at slightly other numbers.
    """
    made = translate_best(
        run, texts, n_best=1, beam_size=beam_size, length_penalty=length_penalty, backend=backend, int8=int8
    )
    return [best[0] for best in made]


def translate_best(
    run: str | Path | Run,
    texts: str | Sequence[str],
    *,
    n_best: int = 4,
    beam_size: int = 4,
    length_penalty: float = 1.0,
    backend: Backend = "torch",
    int8: bool = False,
) -> list[list[Translation]]:
    """Return the best few translations of each sentence, best first; an empty one stays empty."""
    run = translator(run)
    if backend not in get_args(Backend):
        raise UserError(f"unknown backend {backend!r}{did_you_mean(backend, get_args(Backend))}")
    texts = [texts] if isinstance(texts, str) else list(texts)
    search = Search(beam_size, length_penalty)
    if not 1 <= n_best <= beam_size:
        raise UserError(f"{n_best} translations asked for of each sentence; choose from 1 to the beam, {beam_size}")
    tokenizer, context = run.tokenizer, run.recipe.shape.context
    sources = [np.array(ids) for ids in tokenizer.encode_many(texts)]
    _warn_of_long([len(source) for source in sources], context)
    sources = [source[: context - 1] for source in sources]
    full = [i for i, text in enumerate(texts) if text.strip()]
    limits = [longest_target(len(sources[i]), context) for i in full]
    found: list[list[Hypothesis]] = [[Hypothesis([], 0.0)] for _ in texts]
    asked, words = [sources[i] for i in full], translation_vocabulary(tokenizer, run.recipe.vocab_size)
    if backend == "ctranslate2":
        made = search_ctranslate2(run, asked, limits, search, words, int8=int8)
    else:
        made = search_all(load(run, prepacked=not int8, int8=int8), asked, limits, search, words)
    for i, hypotheses in zip(full, made, strict=True):
        found[i] = hypotheses[:n_best]
    return [
        [Translation(text, tokenizer.decode(h.tokens), h.score) for h in hypotheses]
        for text, hypotheses in zip(texts, found, strict=True)
    ]


def translator(run: str | Path | Run) -> Run:
    """Open a run that translates, or say why it does not."""
    run = Run.open(run)
    if run.recipe.objective != "seq2seq":
        raise UserError(
            f"{run.path} is a {run.recipe.objective} run, no translator; train one with "
            "`greffon pretrain --objective seq2seq --source F --target F --out RUN`"
        )
    return run


def _warn_of_long(lengths: Sequence[int], context: int) -> None:
    long = sum(length >= context for length in lengths)
    if long:
        warnings.warn(
            f"{long:,} of {len(lengths):,} sentences are longer than the context of {context} tokens and were cut",
            stacklevel=3,
        )


def sentences(file: str | Path, text_column: str = "source") -> list[str]:
    """Read sentences to translate: a line each, empty ones too, or a column of a table."""
    file = Path(file)
    if file.name.endswith(SUFFIXES) and suffix_of(file) != ".txt":
        return texts_of(file, text_column)
    return [line for _, line in lines(file)]
