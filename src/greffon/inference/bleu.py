"""Quality of translations: BLEU with an interval, and chrF, both by sacreBLEU. Knows texts alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from greffon.core.errors import UserError
from greffon.core.json_results import JsonResult
from greffon.core.rng import generator

RESAMPLES = 1000


@dataclass(frozen=True)
class TranslationScores(JsonResult):
    """Scores of a translator on sentence pairs, in points from 0 to 100."""

    bleu: float
    """Corpus BLEU."""
    bleu_interval: tuple[float, float]
    """95 % bootstrap interval of BLEU over sentences."""
    chrf: float
    """Corpus chrF."""
    signature: str
    """sacreBLEU's signature of BLEU: tokenization, case and version."""
    chrf_signature: str
    """sacreBLEU's signature of chrF."""
    n: int
    """Number of sentence pairs."""


def sacrebleu() -> Any:
    """Import sacreBLEU, or say how to install it."""
    try:
        import sacrebleu
    except ImportError:
        raise UserError(
            "scoring translations needs the package sacrebleu; install it with pip install 'greffon[translation]'"
        ) from None
    return sacrebleu


def bleu(translations: Sequence[str], references: Sequence[str]) -> float:
    """Return corpus BLEU (13a, cased), in points."""
    return float(sacrebleu().BLEU().corpus_score(list(translations), [list(references)]).score)


def translation_scores(translations: Sequence[str], references: Sequence[str]) -> TranslationScores:
    """Score translations against one reference each."""
    metric, chrf = sacrebleu().BLEU(), sacrebleu().CHRF()
    return TranslationScores(
        bleu=metric.corpus_score(list(translations), [list(references)]).score,
        bleu_interval=bleu_interval(translations, references),
        chrf=chrf.corpus_score(list(translations), [list(references)]).score,
        signature=str(metric.get_signature()),
        chrf_signature=str(chrf.get_signature()),
        n=len(references),
    )


def bleu_interval(translations: Sequence[str], references: Sequence[str], seed: int = 0) -> tuple[float, float]:
    """95 % percentile bootstrap interval of BLEU, resampling sentences."""
    metric = sacrebleu().BLEU()
    counts = []
    for translation, reference in zip(translations, references, strict=True):
        alone = metric.corpus_score([translation], [[reference]])
        counts.append([*alone.counts, *alone.totals, alone.sys_len, alone.ref_len])
    n = len(counts)
    weights = generator(seed, "bootstrap").multinomial(n, np.full(n, 1 / n), size=RESAMPLES)  # (R, N)
    sums = weights @ np.array(counts, dtype=np.int64)  # (R, 10)
    smoothed = {"smooth_method": metric.smooth_method, "smooth_value": metric.smooth_value}  # as the score itself
    scores = [
        metric.compute_bleu(correct=row[:4], total=row[4:8], sys_len=row[8], ref_len=row[9], **smoothed).score
        for row in sums.tolist()
    ]
    low, high = np.percentile(scores, [2.5, 97.5])
    return float(low), float(high)
