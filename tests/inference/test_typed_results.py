"""What the verbs return, and what `--json` prints: the same, in the forms that scripts rely on."""

import dataclasses
import json

import pytest
from tiny import TinyRuns

import greffon
from greffon.cli import run as command
from greffon.core.json_results import JsonResult, to_json
from greffon.inference.bleu import TranslationScores
from greffon.inference.evaluate import LanguageScores
from greffon.inference.scoring import BatchLoss, loss_interval
from greffon.inference.tasks.classes import ClassScores
from greffon.plots.layer_costs import QUICK


def printed(capsys: pytest.CaptureFixture[str], *words: object) -> list[object]:
    capsys.readouterr()
    assert command([*map(str, words), "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_evaluate_prints_what_it_returns(tiny: TinyRuns, capsys: pytest.CaptureFixture[str]) -> None:
    scores = greffon.evaluate(tiny.causal, tiny.text)
    assert isinstance(scores, LanguageScores)
    assert list(scores.to_json()) == ["loss", "interval", "bits_per_byte", "n"]
    assert printed(capsys, "evaluate", tiny.causal.path, tiny.text) == [scores.to_json()]
    low, high = scores.interval
    assert low < scores.loss < high
    lines = tiny.text.read_text(encoding="utf-8").splitlines()
    tokens = sum(len(tiny.causal.tokenizer.encode(line)) + 1 for line in lines)  # with the end; the start is given
    assert tokens - 48 < scores.n <= tokens  # a rest that fills no window is left out
    classes = greffon.evaluate(tiny.classifier, tiny.table)
    assert isinstance(classes, ClassScores)
    assert list(classes.to_json())[:6] == ["accuracy", "interval", "macro_f1", "n", "labels", "confusion"]
    assert classes.to_json()["metric"] == "accuracy"
    assert printed(capsys, "evaluate", tiny.classifier.path, tiny.table) == [classes.to_json()]


def test_evaluate_prints_the_scores_of_a_translator(tiny: TinyRuns, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sacrebleu")
    run, folder = tiny.translator, tiny.folder
    scores = greffon.evaluate(run, source=folder / "a.en", target=folder / "a.fr", beam_size=1)
    assert isinstance(scores, TranslationScores)
    files = ["--source", folder / "a.en", "--target", folder / "a.fr", "--beam-size", "1"]
    assert printed(capsys, "evaluate", run.path, *files) == [scores.to_json()]
    with pytest.raises(dataclasses.FrozenInstanceError):
        scores.bleu = 100.0


def test_the_other_verbs_print_what_they_return(tiny: TinyRuns, capsys: pytest.CaptureFixture[str]) -> None:
    text = "le chat dort"
    (label,) = greffon.classify(tiny.classifier, text)
    assert list(label.to_json()) == ["text", "label", "probabilities"]
    assert printed(capsys, "classify", tiny.classifier.path, text) == [label.to_json()]
    made = greffon.generate(tiny.causal, text)
    assert list(made.to_json()) == ["prompt", "text", "tokens", "seed"]
    assert printed(capsys, "generate", tiny.causal.path, text) == [made.to_json()]
    masks = greffon.fill(tiny.masked, "le [MASK] dort [MASK]")
    assert [list(mask.to_json()) for mask in masks] == [["text", "candidates"]] * 2
    assert [list(one.to_json()) for one in masks[0].candidates] == [["token", "probability"]] * 5
    assert printed(capsys, "fill", tiny.masked.path, "le [MASK] dort [MASK]") == [to_json(masks)]
    (translation,) = greffon.translate(tiny.translator, "one red dog")
    assert list(translation.to_json()) == ["source", "translation", "score"]
    assert printed(capsys, "translate", tiny.translator.path, "one red dog") == [translation.to_json()]
    ledger = greffon.params(tiny.causal)
    assert list(ledger.to_json()) == ["total", "components"]
    assert list(ledger.to_json()["components"][0]) == ["name", "formula", "count"]
    assert printed(capsys, "params", tiny.causal.path) == [ledger.to_json()]
    assert printed(capsys, "show", tiny.classifier.path) == [greffon.show(tiny.classifier).to_json()]


def test_results_for_looking_inside_are_json_too(tiny: TinyRuns) -> None:
    text = "le chat dort"
    looked = greffon.attention(tiny.causal, text)
    results: list[JsonResult] = [
        greffon.occlude(tiny.classifier, text),
        looked,
        looked.habits()[0],
        greffon.nearest(tiny.causal, text, ["le chien", "la vache"])[0],
        greffon.word_vectors(tiny.causal, text)[0],
        greffon.loss_by_position(tiny.causal, tiny.long),
        next(greffon.stream(tiny.causal, text)),
        greffon.layer_costs(QUICK)[0],
    ]
    for result in results:
        assert json.loads(json.dumps(result.to_json(), allow_nan=False)) == result.to_json()
        assert list(result.to_json()) == [field.name for field in dataclasses.fields(result)]


def test_the_interval_of_a_loss_resamples_batches() -> None:
    even = [BatchLoss(20.0, 10, 30, None)] * 8
    assert loss_interval(even) == (2.0, 2.0)
    assert loss_interval(even[:1]) is None
    # A batch with more tokens weighs more: the mean of the ratios would be 2.5.
    low, high = loss_interval([BatchLoss(10.0, 10, 30, None), BatchLoss(360.0, 90, 30, None)] * 50)
    assert 3.3 < low < 3.7 < high < 3.9
