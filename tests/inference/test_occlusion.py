"""Which words mattered: against the same questions asked one by one."""

from dataclasses import replace
from pathlib import Path

import pytest

import greffon
from greffon.core.errors import UserError
from greffon.runs.run import Run

pytestmark = pytest.mark.filterwarnings("ignore:the text is too small")

TINY = {"layers": 1, "hidden_size": 16, "heads": 2, "intermediate_size": 16, "context": 16}


@pytest.fixture(scope="module", params=["causal", "masked"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder: Path = tmp_path_factory.mktemp("occlusion")
    lines = [f"un livre {('beau', 'nul')[i % 2]} numéro {i % 7}" for i in range(80)]
    (folder / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    rows = [f"{line},{('plus', 'moins')[i % 2]}" for i, line in enumerate(lines)]
    (folder / "train.csv").write_text("text,label\n" + "\n".join(rows), encoding="utf-8")
    body = greffon.pretrain(
        [folder / "text.txt"], objective=request.param, out=folder / "body", vocab_size=300, steps=3, batch_size=4,
        quiet=True, **TINY,
    )  # fmt: skip
    return greffon.finetune(
        body, train=folder / "train.csv", epochs=3, learning_rate=0.01, out=folder / "run", quiet=True
    )


def test_influence_is_what_the_probability_loses_without_the_word(run: Run) -> None:
    text = "un livre beau"
    found = greffon.occlude(run, text)
    assert [word.word for word in found.words] == ["un", " livre", " beau"]
    (whole,) = greffon.classify(run, text)
    assert (found.label, found.text, found.unread) == (whole.label, text, "")
    assert found.probabilities == pytest.approx(whole.probabilities, abs=1e-6)
    for word, left in zip(found.words, (" livre beau", "un beau", "un livre"), strict=True):
        (without,) = greffon.classify(run, left)
        expected = whole.probabilities[whole.label] - without.probabilities[whole.label]
        assert word.influence == pytest.approx(expected, abs=1e-5)


def test_another_label_is_asked_about(run: Run) -> None:
    text = "un livre beau"
    other = next(label for label in run.recipe.labels if label != greffon.occlude(run, text).label)
    found = greffon.occlude(run, text, label=other)
    assert found.label == other
    against = [word.influence for word in greffon.occlude(run, text).words]
    assert [word.influence for word in found.words] == pytest.approx([-value for value in against], abs=1e-6)
    with pytest.raises(UserError, match="does not know the label 'plis'; did you mean 'plus'"):
        greffon.occlude(run, text, label="plis")


def test_what_is_not_read_is_told(run: Run) -> None:
    text = "un livre beau numéro 3 " * 20
    assert greffon.occlude(run, text).unread == ""
    assert run.recipe.graft is not None
    run = Run.open(run.path)
    run.recipe = replace(run.recipe, graft=replace(run.recipe.graft, long_texts="truncate"))
    found = greffon.occlude(run, text)
    assert found.unread
    assert "".join(word.word for word in found.words) + found.unread == text


def test_an_empty_text_has_no_words(run: Run) -> None:
    assert greffon.occlude(run, "").words == []


def test_only_a_classifier_answers(run: Run) -> None:
    with pytest.raises(UserError, match="no classifier"):
        greffon.occlude(run.recipe.origin, "un livre")
