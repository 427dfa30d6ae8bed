"""A head for each task, from the file to the answer: trained, scored, asked, stopped and resumed."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from tiny import TinyRuns

import greffon
from greffon.cli import run as command
from greffon.core.errors import UserError
from greffon.core.rng import generator
from greffon.inference.tasks.multilabel import THRESHOLD
from greffon.runs.run import Run

ANIMALS, VERBS = ["chat", "chien", "vache", "oiseau"], ["mange", "dort", "court", "chante"]
SETTINGS = {"epochs": 12, "quiet": True, "learning_rate": 0.01, "batch_size": 8}


def sentences(count: int, name: str) -> list[list[tuple[str, str]]]:
    random = generator(0, name)
    return [
        [(ANIMALS[random.integers(4)], VERBS[random.integers(4)]) for _ in range(random.integers(1, 4))]
        for _ in range(count)
    ]


def written(clauses: list[tuple[str, str]]) -> str:
    return ", ".join(f"le {animal} {verb}" for animal, verb in clauses)


def multilabel(folder: Path, name: str, count: int) -> Path:
    rows = [f'"{written(s)}",{"|".join(sorted({a for a, _ in s}))}' for s in sentences(count, name)]
    return _write(folder / f"labels-{name}.csv", ["text,labels", *rows])


def regression(folder: Path, name: str, count: int) -> Path:
    rows = [f'"{written(s)}",{10 * sum(v == "dort" for _, v in s) + 100}' for s in sentences(count, name)]
    return _write(folder / f"scores-{name}.csv", ["text,score", *rows])


def pairs(folder: Path, name: str, count: int) -> Path:
    random, rows = generator(1, name), []
    for s in sentences(count, name):
        animal = s[0][0] if random.integers(2) else ANIMALS[random.integers(4)]
        rows.append(f'"{written(s[:1])}",un {animal},{"same" if animal == s[0][0] else "other"}')
    return _write(folder / f"pairs-{name}.csv", ["text_a,text_b,label", *rows])


def tokens(folder: Path, name: str, count: int) -> Path:
    lines = []
    for s in sentences(count, name):
        for animal, verb in s:
            lines += ["le O", f"{animal} {'B-PET' if animal[0] == 'c' else 'B-BEAST'}", f"{verb} O"]
        lines.append("")
    return _write(folder / f"{name}.conll", lines)


def _write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


MAKERS = {"multilabel": multilabel, "regression": regression, "pairs": pairs, "tokens": tokens}
KEYS = {
    "multilabel": {"micro_f1", "macro_f1", "average_precision", "by_label"},
    "regression": {"mae", "rmse", "pearson", "spearman"},
    "pairs": {"accuracy", "macro_f1", "labels", "confusion"},
    "tokens": {"span_f1", "precision", "recall", "by_label"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tasks")


@pytest.fixture(scope="module")
def runs(folder: Path, tiny: TinyRuns) -> dict[str, Run]:
    return {
        task: greffon.finetune(
            tiny.causal,
            train=make(folder, "train", 120),
            valid=make(folder, "valid", 40),
            out=folder / task,
            **SETTINGS,
        )
        for task, make in MAKERS.items()
    }


@pytest.mark.parametrize("task", MAKERS)
def test_the_task_is_guessed_learned_and_scored(task: str, runs: dict[str, Run], folder: Path) -> None:
    run = runs[task]
    assert run.recipe.task == task
    scores = greffon.evaluate(run, MAKERS[task](folder, "test", 60)).to_json()
    assert set(scores) - {"expected_calibration_error"} == {"metric", "interval", "n", *KEYS[task]}
    low, high = scores["interval"]
    assert low <= scores[scores["metric"]] <= high
    assert scores["n"] == 60
    assert {"multilabel": 0.9, "regression": 0.0, "pairs": 0.6, "tokens": 0.95}[task] < scores[scores["metric"]]
    if task == "regression":
        assert scores["mae"] < 3
        assert scores["spearman"] > 0.8


def test_answers_have_the_form_of_their_task(runs: dict[str, Run]) -> None:
    text = "le chat mange, le oiseau dort"
    (labels,) = greffon.classify(runs["multilabel"], text)
    assert labels.labels == ["chat", "oiseau"]
    (rating,) = greffon.classify(runs["regression"], text)
    assert rating.score == pytest.approx(110, abs=6)
    (marking,) = greffon.classify(runs["tokens"], f"  {text}")
    assert [(s.text, s.label) for s in marking.spans] == [("chat", "PET"), ("oiseau", "BEAST")]
    assert [marking.text[s.start : s.end] for s in marking.spans] == [s.text for s in marking.spans]
    assert marking.line() == "le [PET chat] mange, le [BEAST oiseau] dort"
    (pair,) = greffon.classify(runs["pairs"], [("le chat dort", "un chat")])
    assert pair.label in ("same", "other")
    with pytest.raises(UserError, match="reads pairs of texts: give two each"):
        greffon.classify(runs["pairs"], text)
    with pytest.raises(UserError, match="reads single texts, not pairs"):
        greffon.classify(runs["tokens"], [(text, text)])
    with pytest.raises(UserError, match="is a run for tokens; give one that gives each text a class"):
        greffon.occlude(runs["tokens"], text)


def test_an_empty_text_and_a_long_one_are_answered(runs: dict[str, Run]) -> None:
    long = ", ".join(["le chat mange"] * 40)
    assert len(runs["tokens"].tokenizer.encode(long)) > 3 * runs["tokens"].recipe.shape.context
    empty, marked = greffon.classify(runs["tokens"], ["", long])
    assert empty.spans == []
    assert sum(span.text == "chat" for span in marked.spans) == 40  # also those in the last row
    for task in ("multilabel", "regression"):
        assert len(greffon.classify(runs[task], ["", long])) == 2
    assert len(greffon.classify(runs["pairs"], [("", long), (long, "")])) == 2


def test_nothing_improbable_is_said_if_asked(runs: dict[str, Run]) -> None:
    pair = [("le chat dort", "un chien")]
    assert greffon.classify(runs["pairs"], pair, min_probability=1.0)[0].label is None
    assert greffon.classify(runs["tokens"], "le chat dort", min_probability=1.0)[0].spans == []
    with pytest.raises(UserError, match="gives scores, which have no probabilities"):
        greffon.classify(runs["regression"], "le chat", min_probability=0.5)


def test_thresholds_are_chosen_on_validation(runs: dict[str, Run]) -> None:
    run = runs["multilabel"]
    chosen = {name: value for name, value in run.scores.items() if name.startswith(THRESHOLD)}
    assert set(chosen) == {THRESHOLD + animal for animal in ANIMALS}
    (found,) = greffon.classify(run, "le chat dort")
    assert found.labels == [a for a, p in found.probabilities.items() if p >= chosen[THRESHOLD + a]]


def test_a_regression_is_learned_in_standard_deviations(runs: dict[str, Run]) -> None:
    mean, deviation = runs["regression"].recipe.score_scale
    assert 100 < mean < 120
    assert 3 < deviation < 12
    first = runs["regression"].metrics()[0]
    assert first["valid"]["loss"] == pytest.approx(1, abs=0.3)  # the error of always saying the mean


@pytest.mark.parametrize("task", MAKERS)
def test_a_stopped_run_ends_bit_for_bit_as_if_it_had_not_been(
    task: str, runs: dict[str, Run], folder: Path, tiny: TinyRuns
) -> None:
    whole = runs[task]

    class Stop:
        looked = 0

        @property
        def asked(self) -> bool:
            self.looked += 1
            return self.looked > 20

    @contextmanager
    def stop_signals() -> Iterator[Stop]:
        yield Stop()

    out, data = folder / f"{task}-cut", whole.recipe.data
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("greffon.training.trainer._stop_signals", stop_signals)
        with pytest.raises(KeyboardInterrupt):
            greffon.finetune(tiny.causal, train=data.train[0], valid=data.valid[0], out=out, **SETTINGS)
    run = greffon.resume(out, quiet=True)
    assert (run.path / "model.safetensors").read_bytes() == (whole.path / "model.safetensors").read_bytes()


@pytest.mark.parametrize("task", MAKERS)
def test_a_table_comes_back_with_its_answers(
    task: str, runs: dict[str, Run], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = MAKERS[task](folder, "table", 5), folder / f"{task}.jsonl"
    assert command(["classify", str(runs[task].path), "--file", str(file), "--out", str(out)]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 5
    assert all(row["prediction"] or task == "multilabel" for row in rows)
    if task != "tokens":
        first = file.read_text().splitlines()[0].split(",")
        assert [*rows[0]][: len(first)] == first
    capsys.readouterr()
    command(["classify", str(runs[task].path), "--file", str(file), "--json"])
    assert len([json.loads(line) for line in capsys.readouterr().out.splitlines()]) == 5


def test_a_pair_is_given_on_the_command_line(runs: dict[str, Run], capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["classify", str(runs["pairs"].path), "--pair", "le chat dort", "un chat", "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == {"text_a", "text_b", "label", "probabilities"}
    assert command(["classify", str(runs["pairs"].path), "--pair", "le chat dort"]) == 1
    assert "--pair takes two texts, not 1" in capsys.readouterr().err


@pytest.mark.parametrize("body", ["causal", "masked"])
def test_pairs_are_read_as_one_text_or_each_on_its_own(body: str, tiny: TinyRuns, folder: Path) -> None:
    file = pairs(folder, "few", 24)
    for reading in ("cross", "towers"):
        run = greffon.finetune(
            getattr(tiny, body),
            train=file,
            out=folder / f"{body}-{reading}",
            epochs=1,
            pair_reading=reading,
            quiet=True,
        )
        asked = [("le chat dort", "un chien"), ("la vache", "le chien court et le chat dort, la vache mange")]
        together = [found.probabilities for found in greffon.classify(run, asked)]
        alone = [greffon.classify(run, [pair])[0].probabilities for pair in asked]
        for one, other in zip(together, alone, strict=True):
            assert one == pytest.approx(other, abs=1e-5)


def test_pairs_with_scores_are_a_regression(tiny: TinyRuns, folder: Path) -> None:
    rows = [f"le chat {verb},un {animal},{len(animal)}" for animal in ANIMALS for verb in VERBS]
    file = _write(folder / "pair-scores.csv", ["text_a,text_b,score", *rows])
    run = greffon.finetune(tiny.causal, train=file, out=folder / "pair-scores", epochs=1, quiet=True)
    assert set(greffon.evaluate(run, file).to_json()) >= {"mae", "pearson"}
    assert isinstance(greffon.classify(run, [("a", "b")])[0].score, float)


def test_balanced_weights_are_those_of_scikit_learn(tiny: TinyRuns, folder: Path) -> None:
    from sklearn.utils.class_weight import compute_class_weight

    labels = ["a"] * 15 + ["b"] * 5
    file = _write(folder / "few.csv", ["text,label", *(f"le chat {i},{label}" for i, label in enumerate(labels))])
    run = greffon.finetune(
        tiny.causal, train=file, valid=file, out=folder / "balanced", epochs=1, class_weights="balanced", quiet=True
    )
    wanted = compute_class_weight("balanced", classes=np.array(["a", "b"]), y=np.array(labels))
    assert run.recipe.class_weights == pytest.approx(wanted)
    with pytest.raises(UserError, match=r"^class_weights is for classes and labels"):
        greffon.finetune(
            tiny.causal, train=tokens(folder, "few", 10), out=folder / "no", class_weights="balanced", quiet=True
        )


def test_what_a_run_did_not_learn_is_refused(runs: dict[str, Run], folder: Path) -> None:
    file = _write(folder / "unknown.csv", ["text,labels", "le chat,chat|lion"])
    with pytest.raises(UserError, match=r"unknown\.csv:2: the run does not know the label 'lion'"):
        greffon.evaluate(runs["multilabel"], file)
    file = _write(folder / "scored.csv", ["text_a,text_b,score", "le chat,un chat,1"])
    with pytest.raises(UserError, match=r"has scores of pairs, which .* did not learn"):
        greffon.evaluate(runs["pairs"], file)
