import pytest

from greffon.inference.bleu import bleu, bleu_interval, translation_scores

sacrebleu = pytest.importorskip("sacrebleu")

REFERENCES = [f"Der Hund {i} läuft über die Wiese {i % 7}." for i in range(60)]
GUESSES = [line.replace("Wiese", "Straße") if i % 3 else line for i, line in enumerate(REFERENCES)]


def test_scores_are_sacrebleus() -> None:
    scores = translation_scores(GUESSES, REFERENCES)
    assert scores.bleu == bleu(GUESSES, REFERENCES) == sacrebleu.corpus_bleu(GUESSES, [REFERENCES]).score
    assert scores.chrf == sacrebleu.corpus_chrf(GUESSES, [REFERENCES]).score
    assert "tok:13a" in scores.signature
    assert "case:mixed" in scores.signature
    assert scores.n == 60
    low, high = scores.bleu_interval
    assert 0 < low < scores.bleu < high < 100


def test_the_interval_of_poor_translations_is_smoothed_as_their_score_is() -> None:
    poor = [f"ein Hund läuft {'schnell' if i % 3 else 'über'} {i}" for i in range(60)]  # no four words right in a row
    score = bleu(poor, REFERENCES)
    low, high = bleu_interval(poor, REFERENCES)
    assert 0 < low < score < high


def test_the_interval_is_close_to_sacrebleus_own() -> None:
    theirs = sacrebleu.BLEU().corpus_score(GUESSES, [REFERENCES], n_bootstrap=1000)
    low, high = bleu_interval(GUESSES, REFERENCES)
    assert (high - low) / 2 == pytest.approx(theirs._ci, rel=0.2)
    assert bleu_interval(REFERENCES, REFERENCES) == pytest.approx((100, 100))
    assert bleu_interval(GUESSES, REFERENCES) == (low, high), "the same draw every time"
