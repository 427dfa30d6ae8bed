"""A head for each task, from the file to the answer: trained, scored, asked, stopped and resumed."""

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from tiny import TinyRuns

import greffon
from greffon.cli import run as command
from greffon.core.errors import UserError
from greffon.core.rng import generator
from greffon.data.corpora import Labelled
from greffon.data.splits import load_splits
from greffon.inference.probe import STRENGTHS
from greffon.inference.tasks.multilabel import gold_bits
from greffon.objectives.classify import text_logits
from greffon.objectives.task_texts import task_texts
from greffon.runs.folding import TEMPERATURE, THRESHOLD
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
    calibration = set() if task == "regression" else {"expected_calibration_error", "reliability"}
    assert set(scores) == {"metric", "interval", "n", *KEYS[task]} | calibration
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
    model = run.load_model()
    texts = task_texts(run.recipe, run.tokenizer)
    plain = text_logits(model, texts.for_scoring(texts.encode([Labelled("le chat dort", "", 0)])))[0]
    assert [*found.probabilities.values()] == pytest.approx(
        (plain / run.scores[TEMPERATURE]).sigmoid().tolist(), abs=1e-5
    )
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
        patch.setattr("greffon.training.train.stop_signals", stop_signals)
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


def test_a_conll_file_comes_back_as_one(runs: dict[str, Run], folder: Path) -> None:
    lines = ["-DOCSTART- X", "", "le\tD", "chat's\tN", "dort\tV", "", "", "un D", "oiseau N"]
    file, out = _write(folder / "two.conll", lines), folder / "out.conll"
    assert command(["classify", str(runs["tokens"].path), "--file", str(file), "--out", str(out)]) == 0
    back = out.read_text().splitlines()
    assert [line.rsplit(maxsplit=1)[0] if line[:1] not in ("", "-") else line for line in back] == lines
    assert [line.split()[-1] for line in back[2:5] + back[7:]] == ["O", "B-PET", "O", "O", "B-BEAST"]
    assert back[3] == "chat's\tN\tB-PET"
    assert command(["classify", str(runs["tokens"].path), "le chat dort", "--out", str(out)]) == 0
    assert out.read_text() == "le O\nchat B-PET\ndort O\n\n"
    assert command(["classify", str(runs["multilabel"].path), "le chat", "--out", str(out)]) == 1


def test_a_table_keeps_what_it_holds(runs: dict[str, Run], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"text": "le chat", "spans": [[3, 7, "PET"]]}, {"text": "la vache dort", "id": 7, "spans": []}]
    file, out = _write(folder / "keys.jsonl", [json.dumps(row) for row in rows]), folder / "keys-out.csv"
    words = ["classify", str(runs["tokens"].path), "--file", str(file), "--out"]
    assert command([*words, str(out)]) == 0
    with out.open(newline="") as table:
        first, second = csv.DictReader(table)
    assert (json.loads(first["spans"]), first["id"], second["id"]) == (rows[0]["spans"], "", "7")
    assert json.loads(first["prediction"]) == [[3, 7, "PET"]]
    assert command([*words, str(folder / "keys-out.jsonl")]) == 0
    again = [json.loads(line) for line in (folder / "keys-out.jsonl").read_text().splitlines()]
    assert [{name: row[name] for name in row if name != "prediction"} for row in again] == rows
    capsys.readouterr()
    assert command(["classify", str(runs["tokens"].path), "--file", str(out), "--out", str(folder / "no.csv")]) == 1
    assert (
        "keys-out.csv has a column 'prediction' already, which the answers would overwrite" in capsys.readouterr().err
    )
    assert not (folder / "no.csv").exists()


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
    labelled = _write(folder / "pair-labels.csv", ["text_a,text_b,label", *rows])
    again = greffon.finetune(
        tiny.causal, train=labelled, out=folder / "pair-labels", task="regression", epochs=1, quiet=True
    )
    assert greffon.evaluate(again, labelled).to_json() == greffon.evaluate(run, file).to_json()
    words = _write(folder / "pair-words.csv", ["text_a,text_b,label", "le chat,un chien,same"])
    with pytest.raises(UserError, match=r"pair-words\.csv:2: the score \(column 'label'\) is 'same'"):
        greffon.evaluate(run, words)


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
    with pytest.raises(UserError, match=r"scored\.csv:2: the run does not know scores of pairs, but their labels"):
        greffon.evaluate(runs["pairs"], file)


def test_the_task_may_be_named_and_must_be_the_run_s(
    runs: dict[str, Run], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, path = tokens(folder, "named", 10), str(runs["tokens"].path)
    assert command(["evaluate", path, str(file), "--task", "tokens"]) == 0
    assert command(["classify", path, "--file", str(file), "--task", "tokens"]) == 0
    for words in (["evaluate", path, str(file)], ["classify", path, "le chat"], ["serve", path]):
        capsys.readouterr()
        assert command([*words, "--task", "pairs"]) == 1
        assert "is a run for tokens, not for pairs; leave out --task" in capsys.readouterr().err
    with pytest.raises(UserError, match="is a run for tokens, not for classes; leave out task"):
        greffon.evaluate(runs["tokens"], file, task="classes")
    with pytest.raises(UserError, match="not for classes"):
        greffon.classify(runs["tokens"], "le chat", task="classes")


def test_evaluate_reads_other_columns_and_separators(runs: dict[str, Run], folder: Path) -> None:
    pair = pairs(folder, "renamed", 20)
    renamed = _write(folder / "renamed.csv", pair.read_text().replace("text_a,text_b", "q,a").splitlines())
    words = ["evaluate", str(runs["pairs"].path), str(renamed), "--pair-columns", "q", "a"]
    assert command(words) == 0
    assert greffon.evaluate(runs["pairs"], renamed, pair_columns=("q", "a")) == greffon.evaluate(runs["pairs"], pair)
    labels = multilabel(folder, "separated", 20)
    separated = _write(folder / "separated.csv", labels.read_text().replace("|", ";").splitlines())
    again = greffon.evaluate(runs["multilabel"], separated, label_separator=";")
    assert again == greffon.evaluate(runs["multilabel"], labels)
    with pytest.raises(UserError, match="label_separator=; has no effect on"):
        greffon.evaluate(runs["pairs"].recipe.origin, folder / "x.txt", label_separator=";")


def test_a_file_and_a_pair_are_too_much(runs: dict[str, Run], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = pairs(folder, "much", 5)
    assert command(["classify", str(runs["pairs"].path), "--file", str(file), "--pair", "le chat", "un chat"]) == 1
    assert "too much to classify; give texts, --file F, --pair A B, or -" in capsys.readouterr().err


def test_show_tells_the_task_and_what_its_head_reads(runs: dict[str, Run], capsys: pytest.CaptureFixture[str]) -> None:
    told = {
        "tokens": "the first token of every word",
        "pairs": "|u − v| and u · v of both texts (",
        "regression": "last",
    }
    for task, head in told.items():
        assert command(["show", str(runs[task].path)]) == 0
        out = capsys.readouterr().out
        assert f"task        {task}\n" in out
        assert f"the head reads {head}" in out


@pytest.mark.parametrize(
    ("task", "setting", "why"),
    [
        ("tokens", {"pooling": "mean"}, "pooling=mean has no effect here: a head for spans reads every word"),
        ("regression", {"pair_reading": "cross"}, "pair_reading=cross has no effect here: it is for pairs of texts"),
        (
            "pairs",
            {"pair_reading": "cross", "long_texts": "windows"},
            "long_texts=windows has no effect with pair_reading=cross",
        ),
    ],
)
def test_settings_that_a_head_ignores_are_refused(
    task: str, setting: dict[str, str], why: str, tiny: TinyRuns, folder: Path
) -> None:
    with pytest.raises(UserError, match=why):
        greffon.finetune(tiny.causal, train=MAKERS[task](folder, "few", 10), out=folder / "no", quiet=True, **setting)


def test_where_no_epoch_can_be_selected_a_new_head_is_trained_for_all(
    tiny: TinyRuns, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = _write(
        folder / "five.csv", ["text,score", *(f"le {animal} {'dort ' * i},{i}" for i, animal in enumerate(ANIMALS))]
    )
    run = greffon.finetune(tiny.causal, train=file, out=folder / "five", epochs=6, learning_rate=0.01)
    told = capsys.readouterr().err
    assert "none of the scores has two texts, so no epoch can be selected: it is trained for all of them" in told
    assert run.scores["step"] == run.recipe.training.steps == 6
    untrained = run.recipe.score_scale[1]  # the error of always saying the mean, or nearly so
    assert run.scores["mae"] < 0.7 * untrained


def test_a_head_for_labels_starts_where_the_probe_ends(tiny: TinyRuns, folder: Path) -> None:
    """Before the first step it says what scikit-learn says of the body's own vectors."""
    file = multilabel(folder, "probe", 60)
    run = greffon.finetune(
        tiny.masked, train=file, valid=file, out=folder / "labels-probe", epochs=1, learning_rate=1e-9, quiet=True
    )
    assert run.recipe.graft is not None
    assert (run.recipe.graft.head_init, run.recipe.graft.pooling) == ("probe", "mean")
    examples = load_splits(run.recipe.data).train
    vectors = greffon.embed(tiny.masked, [example.text for example in examples], pooling="mean")
    moved = vectors - vectors.mean(axis=0)
    moved -= moved.mean(axis=1, keepdims=True)
    unit = moved / np.linalg.norm(moved, axis=1, keepdims=True)
    model = run.load_model()
    texts = task_texts(run.recipe, run.tokenizer)
    found = np.stack(texts.outputs(model, texts.for_scoring(texts.encode(examples))))
    bits = gold_bits(run.recipe.labels, examples).T
    models = [[LogisticRegression(C=c, max_iter=1000).fit(unit, own) for own in bits] for c in STRENGTHS]
    expected = [np.stack([one.predict_proba(unit)[:, 1] for one in each], axis=1) for each in models]
    assert min(np.abs(found - each).max() for each in expected) < 2e-2 * found.std()


@pytest.mark.parametrize("task", ["pairs", "regression", "tokens"])
def test_where_a_head_has_no_probe_none_is_promised(task: str, tiny: TinyRuns, folder: Path) -> None:
    with pytest.raises(UserError, match=f"head_init=probe has no effect here: a head for {task} has no probe"):
        greffon.finetune(
            tiny.causal, train=MAKERS[task](folder, "few", 10), out=folder / "no", head_init="probe", quiet=True
        )


@pytest.mark.parametrize("task", ["multilabel", "pairs", "tokens"])
@pytest.mark.parametrize("selection", ["valid", "folds"])
def test_training_tells_the_test_score_that_evaluate_gives(
    task: str, selection: str, tiny: TinyRuns, folder: Path
) -> None:
    """Nothing is fitted on the test texts, thresholds least of all."""
    test = MAKERS[task](folder, f"{selection}-test", 30)
    run = greffon.finetune(
        tiny.causal,
        train=MAKERS[task](folder, "small", 40),
        valid=MAKERS[task](folder, "valid", 20) if selection == "valid" else None,
        test=test,
        out=folder / f"{task}-{selection}-tested",
        **{**SETTINGS, "epochs": 2, "pair_reading": "cross" if task == "pairs" else None},
    )
    scores = greffon.evaluate(run, test).to_json()
    assert run.scores[f"test_{scores['metric']}"] == pytest.approx(scores[scores["metric"]])
