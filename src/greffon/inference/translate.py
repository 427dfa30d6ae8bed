"""Translate texts: `greffon.translate`."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from greffon.core.answering import Decoding
from greffon.core.conflicts import Idle, beside, refuses
from greffon.core.errors import UserError, out_of_range, setting
from greffon.core.json_results import JsonResult
from greffon.core.settings import takes
from greffon.data.corpora import texts_of
from greffon.data.readers import has_columns, lines
from greffon.inference.beam import Hypothesis, search_all
from greffon.inference.ctranslate2 import search_ctranslate2
from greffon.inference.loading import load
from greffon.inference.scoring import longest_target
from greffon.inference.vocabulary import Vocabulary, vocabulary_of
from greffon.runs.run import Run


@dataclass(frozen=True)
class Translation(JsonResult):
    """A text and one translation of it."""

    source: str
    """The sentence."""
    translation: str
    """Its translation."""
    score: float
    """Log-probability / length ** length_penalty, in tokens, with the end of the text counted."""


TRANSLATION_RULES = (
    Idle(("length_penalty",), beside("beam_size", 1, "greedy search has no other translation to choose")),
)
"""What has no effect on a translation, and when."""


@refuses(*TRANSLATION_RULES)
@takes(Decoding)
def translate(
    run: str | Path | Run,
    texts: str | Sequence[str],
    **settings: Any,
) -> list[Translation]:
    """Translate sentences: `translate("runs/en-fr", "Two dogs run.")[0].translation`.

    `settings` are the fields of `Decoding` in `greffon.core`, under the names of the command's options. A `beam_size`
    of 1 is greedy search. The backend `ctranslate2` is faster than `torch`. With `int8`
    either computes in 8-bit integers: faster, with slightly different scores. A translator of many languages
    takes `source_lang` and `target_lang` by its own names, such as fr_XX (mBART), fr (M2M100) and fra_Latn (NLLB).
    """
    return [best[0] for best in decode(translator(run), texts, 1, Decoding(**settings))]


@refuses(*TRANSLATION_RULES)
@takes(Decoding)
def translate_best(
    run: str | Path | Run,
    texts: str | Sequence[str],
    *,
    n_best: int = 4,
    **settings: Any,
) -> list[list[Translation]]:
    """Return the `n_best` translations of each sentence, best first; an empty sentence stays empty."""
    return decode(translator(run), texts, n_best, Decoding(**settings))


def decode(run: Run, texts: str | Sequence[str], n_best: int, decoding: Decoding) -> list[list[Translation]]:
    """Return the `n_best` translations of each sentence: what all functions that translate call."""
    texts = [texts] if isinstance(texts, str) else list(texts)
    if not 1 <= n_best <= decoding.beam_size:
        raise out_of_range("n_best", n_best, f"choose from 1 to {setting('beam_size')}, {decoding.beam_size}")
    tokenizer, context = run.tokenizer, run.recipe.shape.context
    encoded = tokenizer.encode_many(texts)
    room = context - 1 - (tokenizer.languages is not None)
    _warn_of_truncation([len(ids) for ids in encoded], room, context)
    words, sources = routed(run, [ids[:room] for ids in encoded], decoding.source_lang, decoding.target_lang)
    full = [i for i, text in enumerate(texts) if text.strip()]
    limits = [longest_target(len(sources[i]), context) for i in full]
    found: list[list[Hypothesis]] = [[Hypothesis([], 0.0)] for _ in texts]
    asked = [sources[i] for i in full]
    if decoding.backend == "ctranslate2":
        made = search_ctranslate2(run, asked, limits, decoding, words, int8=decoding.int8)
    else:
        model = load(run, prepacked=not decoding.int8, int8=decoding.int8)
        made = search_all(model, asked, limits, decoding, words)
    for i, hypotheses in zip(full, made, strict=True):
        found[i] = hypotheses[:n_best]
    return [
        [Translation(text, tokenizer.decode(h.tokens), h.score) for h in hypotheses]
        for text, hypotheses in zip(texts, found, strict=True)
    ]


def routed(
    run: Run, encoded: Sequence[Sequence[int]], source_lang: str, target_lang: str
) -> tuple[Vocabulary, list[np.ndarray]]:
    """Return sources with their language tokens, where a translator has some, and how their targets begin."""
    tokenizer, languages = run.tokenizer, run.tokenizer.languages
    words = vocabulary_of(tokenizer, run.recipe.vocab_size, run.recipe.generation)
    if languages is None:
        if source_lang or target_lang:
            given = f"{setting('source_lang')} and {setting('target_lang')}"
            raise UserError(f"{run.path} has no language tokens; leave out {given}")
        return words, [np.array(ids) for ids in encoded]
    source, known = languages.source_id(source_lang), {*languages.ids.values()}
    if languages.after:
        words = replace(words, source_end=source)
        sources = [np.array([*ids, tokenizer.end]) for ids in encoded]
    else:
        sources = [np.array([source, *ids]) for ids in encoded]
    usual = words.start if languages.starts else words.generation.forced_bos_token_id
    if not target_lang and usual in known:  # the checkpoint says it
        return words, sources
    target = languages.target_id(target_lang)
    if languages.starts:
        return replace(words, start=target), sources
    return replace(words, generation=replace(words.generation, forced_bos_token_id=target)), sources


def translator(run: str | Path | Run) -> Run:
    """Open a seq2seq run; raise a `UserError` for any other."""
    run = Run.open(run)
    if run.recipe.objective != "seq2seq":
        raise UserError(
            f"{run.path} is a {run.recipe.objective} run, no translator; train one with "
            "`greffon pretrain --objective seq2seq --source F --target F --out RUN`"
        )
    return run


def _warn_of_truncation(lengths: Sequence[int], room: int, context: int) -> None:
    long = sum(length > room for length in lengths)
    if long:
        warnings.warn(
            f"{long:,} of {len(lengths):,} sentences are longer than the context of {context} tokens and were cut",
            stacklevel=4,
        )


def sentences(file: str | Path, text_column: str = "source") -> list[str]:
    """Read sentences to translate: the lines of a text file, empty ones included, or a column of a table."""
    file = Path(file)
    if has_columns(file):
        return texts_of(file, text_column)
    return [line for _, line in lines(file)]
