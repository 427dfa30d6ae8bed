"""What the bodies have seen of the test texts."""

from dataclasses import replace
from pathlib import Path

import pytest
from tiny import TinyRuns

import greffon
from greffon.comparison.seen import in_pretraining, lineage, share_embedded, share_read
from greffon.core.recipe import Embedding
from greffon.runs.run import Run


def test_test_texts_are_found_in_the_pretraining_text_however_they_are_spaced(tiny: TinyRuns) -> None:
    first, second, *_ = tiny.text.read_text(encoding="utf-8").splitlines()
    texts = [first, f"  {second.upper()} ", first, "un texte que personne n'a lu", first[:-2], ""]
    assert in_pretraining(tiny.causal, texts) == 3


def test_a_body_has_seen_what_the_runs_before_it_have(tiny: TinyRuns, tmp_path: Path) -> None:
    old, new = tiny.text.read_text(encoding="utf-8").splitlines()[0], "la vache et le chien dorment"
    (tmp_path / "more.txt").write_text(f"{new}\nle chat\nle chien\n", encoding="utf-8")
    later = greffon.pretrain(
        [tmp_path / "more.txt"], out=tmp_path / "later", init_from=tiny.causal.path, steps=1, quiet=True
    )
    assert [run.path for run in lineage(later)] == [later.path, tiny.causal.path]
    assert in_pretraining(later, [old, new, "autre chose"]) == 2
    assert in_pretraining(tiny.causal, [old, new, "autre chose"]) == 1
    (tmp_path / "more.txt").unlink()
    assert in_pretraining(later, [old, new]) is None, "what is not there any more may have held them"


def test_of_an_imported_body_nothing_is_known(tiny: TinyRuns) -> None:
    imported = Run(tiny.causal.path, replace(tiny.causal.recipe, imported="somebody/encoder"))
    assert in_pretraining(imported, ["le chat"]) is None


def test_a_text_too_large_to_read_again_is_not_read(tiny: TinyRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("greffon.comparison.seen.MOST_BYTES", tiny.text.stat().st_size - 1)
    assert in_pretraining(tiny.causal, ["le chat"]) is None


def test_the_share_read_is_that_of_the_first_tokens(tiny: TinyRuns) -> None:
    run = tiny.causal
    texts = [tiny.long.read_text(encoding="utf-8").splitlines()[0], "le chat dort"]
    long, short = (len(ids) for ids in run.tokenizer.encode_many(texts))
    room = run.recipe.shape.context - 1  # the start token takes one place
    assert short < room < long
    wanted = pytest.approx((room + short) / (long + short))
    assert share_embedded(run, texts, "truncate") == wanted
    assert share_embedded(run, texts, "windows") == 1.0
    graft = tiny.classifier.recipe.graft
    assert graft is not None
    truncating = replace(tiny.classifier.recipe, graft=replace(graft, long_texts="truncate"))
    assert share_read(run, truncating, texts) == wanted
    assert share_read(run, tiny.classifier.recipe, texts) == 1.0


def test_the_share_of_a_sentence_encoder_is_that_of_its_own_length(tiny: TinyRuns) -> None:
    embedding = Embedding(max_length=11)
    run = Run(tiny.causal.path, replace(tiny.causal.recipe, embedding=embedding))
    text = tiny.long.read_text(encoding="utf-8").splitlines()[0]
    (ids,) = run.tokenizer.encode_many([text])
    assert share_embedded(run, [text], "truncate") == pytest.approx(10 / len(ids))
