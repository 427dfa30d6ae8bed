"""The estimators among scikit-learn's tools, on texts: pipelines, searches, cross-validation, pickles."""

import copy
import gc
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer
from tiny import SHAPE, TinyRuns

import greffon
from greffon import GreffonClassifier, GreffonEmbedder
from greffon.core.errors import UserError
from greffon.runs.run import Run

ANIMALS = {"chat": "poil", "chien": "poil", "vache": "corne", "chèvre": "corne"}
TEXTS = [f"le {animal} {verb} {i}" for i in range(5) for animal in ANIMALS for verb in ("dort", "mange")]
LABELS = np.array([ANIMALS[text.split()[1]] for text in TEXTS])
QUICK = {"finetuning": {"epochs": 1}}
SMALL = {**SHAPE, "batch_size": 4, "vocab_size": 290}


@pytest.fixture(scope="module")
def fitted(tiny: TinyRuns) -> GreffonClassifier:
    return GreffonClassifier(tiny.causal.path, **QUICK).fit(TEXTS, LABELS)


def test_the_classifier_says_what_the_verbs_say(tiny: TinyRuns, fitted: GreffonClassifier, tmp_path: Path) -> None:
    table = tmp_path / "train.csv"
    rows = [f"{text},{label}" for text, label in zip(TEXTS, LABELS, strict=True)]
    table.write_text("text,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    run = greffon.finetune(tiny.causal, train=table, out=tmp_path / "run", epochs=1, quiet=True)
    said = greffon.classify(run, TEXTS)
    assert fitted.classes_.tolist() == ["corne", "poil"]
    assert fitted.predict(TEXTS).tolist() == [one.label for one in said]
    expected = [[one.probabilities[label] for label in fitted.classes_] for one in said]
    np.testing.assert_array_equal(fitted.predict_proba(TEXTS), expected)
    assert fitted.score(TEXTS, LABELS) == np.mean([one.label for one in said] == LABELS)


def test_the_embedder_says_what_the_verb_says(tiny: TinyRuns) -> None:
    for pooling in ("mean", "last"):
        model = GreffonEmbedder(tiny.causal, pooling=pooling).fit(TEXTS)
        np.testing.assert_array_equal(model.transform(TEXTS), greffon.embed(tiny.causal, TEXTS, pooling=pooling))
    assert model.get_feature_names_out().tolist() == [f"greffonembedder{i}" for i in range(SHAPE["hidden_size"])]


def test_fit_pretrains_where_no_body_is_given(tmp_path: Path) -> None:
    model = GreffonClassifier(objective="masked", steps=2, pretraining=SMALL, run_dir=tmp_path / "fit", **QUICK)
    model.fit(TEXTS, LABELS)
    body = Run.open(tmp_path / "fit" / "body")
    assert (body.recipe.objective, body.recipe.training.steps) == ("masked", 2)
    assert model.run_.path == tmp_path / "fit" / "classifier"
    assert model.run_.recipe.origin == str(body.path)
    before = model.predict_proba(TEXTS)
    model.set_params(random_state=1).fit(TEXTS, LABELS)  # the same directory again
    assert model.run_.recipe.training.seed == 1
    assert not np.array_equal(before, model.predict_proba(TEXTS))
    vectors = GreffonEmbedder(steps=1, pretraining=SMALL).fit_transform(TEXTS)
    assert vectors.shape == (len(TEXTS), SHAPE["hidden_size"])


def test_only_the_texts_of_a_fold_are_pretrained_on(tmp_path: Path) -> None:
    folded = GreffonEmbedder(steps=1, pretraining=SMALL, run_dir=tmp_path / "fold").fit(TEXTS[:20])
    assert folded.run_.recipe.data.train == (str(tmp_path / "fold" / "texts.jsonl"),)
    assert (tmp_path / "fold" / "texts.jsonl").read_text().count("\n") == 20


def test_in_pipelines_searches_and_cross_validation(tiny: TinyRuns) -> None:
    class_of_vectors = make_pipeline(GreffonEmbedder(tiny.causal), LogisticRegression())
    scores = cross_val_score(class_of_vectors, TEXTS, LABELS, cv=2)
    assert scores.shape == (2,)
    grid = {"greffonembedder__pooling": ["mean", "last"]}
    found = GridSearchCV(class_of_vectors, grid, cv=2, error_score="raise").fit(TEXTS, LABELS)
    assert found.best_params_["greffonembedder__pooling"] in ("mean", "last")
    assert found.predict(TEXTS[:3]).shape == (3,)
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    model = make_pipeline(lower, GreffonClassifier(tiny.causal, **QUICK))
    assert set(cross_val_score(model, np.array(TEXTS, dtype=object), LABELS, cv=2, error_score="raise")) <= set(
        np.arange(21) / 20
    )
    search = GridSearchCV(GreffonClassifier(tiny.causal), {"finetuning": [{"epochs": 1}, {"epochs": 2}]}, cv=2)
    search.fit(TEXTS, LABELS)
    assert search.best_estimator_.run_.recipe.labels == ("corne", "poil")


def test_in_processes_of_their_own(tiny: TinyRuns) -> None:
    alone = cross_val_score(GreffonClassifier(tiny.causal.path, **QUICK), TEXTS, LABELS, cv=2, error_score="raise")
    shared = cross_val_score(
        GreffonClassifier(tiny.causal, **QUICK), TEXTS, LABELS, cv=2, n_jobs=2, error_score="raise"
    )
    np.testing.assert_array_equal(alone, shared)


def test_as_one_column_of_a_table_and_beside_other_vectors(tiny: TinyRuns) -> None:
    table = np.array([[text, str(i)] for i, text in enumerate(TEXTS)], dtype=object)
    vectors = greffon.embed(tiny.causal, TEXTS)
    for column in (0, [0]):
        columns = ColumnTransformer([("text", GreffonEmbedder(tiny.causal), column)])
        np.testing.assert_array_equal(columns.fit_transform(table), vectors)
    union = make_union(GreffonEmbedder(tiny.causal), GreffonEmbedder(tiny.causal, pooling="last"))
    assert union.fit_transform(TEXTS).shape == (len(TEXTS), 2 * SHAPE["hidden_size"])


def test_parameters_are_untouched(tiny: TinyRuns) -> None:
    given: dict[str, Any] = {"body": str(tiny.causal.path), "finetuning": {"epochs": 1}, "random_state": 3}
    model = GreffonClassifier(**given)
    assert {name: model.get_params()[name] for name in given} == given
    assert model.get_params()["finetuning"] is given["finetuning"]
    model.fit(TEXTS, LABELS)
    assert clone(model).get_params() == model.get_params()
    assert given["finetuning"] == {"epochs": 1}
    with pytest.raises(NotFittedError):
        clone(model).predict(TEXTS)


def test_labels_of_any_kind_come_back(tiny: TinyRuns) -> None:
    for labels in (LABELS == "poil", np.where(LABELS == "poil", 7, -2), np.where(LABELS == "poil", " ", "a b")):
        model = GreffonClassifier(tiny.causal, **QUICK).fit(TEXTS, labels.tolist())
        assert model.classes_.tolist() == sorted(set(labels.tolist()))
        assert set(model.predict(TEXTS).tolist()) <= set(labels.tolist())


def test_a_pickle_holds_the_files_of_the_run(fitted: GreffonClassifier, tiny: TinyRuns, tmp_path: Path) -> None:
    expected, folder = fitted.predict_proba(TEXTS), fitted.run_.path
    for again in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted)):
        assert again.run_.path != folder
        np.testing.assert_array_equal(again.predict_proba(TEXTS), expected)
        for name in ("model.safetensors", "recipe.json", "tokenizer.json"):
            assert (again.run_.path / name).read_bytes() == (folder / name).read_bytes()
    assert b"torch" not in pickle.dumps(fitted)  # no tensor is pickled
    joblib.dump(GreffonEmbedder(tiny.masked).fit(TEXTS), tmp_path / "embedder.joblib")
    embedder = joblib.load(tmp_path / "embedder.joblib")
    np.testing.assert_array_equal(embedder.transform(TEXTS), greffon.embed(tiny.masked, TEXTS))
    np.save(tmp_path / "expected.npy", expected)
    (tmp_path / "model.pickle").write_bytes(pickle.dumps(fitted))
    code = (
        "import pickle, numpy as np; model = pickle.load(open('model.pickle', 'rb'));"
        f"np.testing.assert_array_equal(model.predict_proba({TEXTS!r}), np.load('expected.npy'))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


def test_its_temporary_directory_goes_with_it(tiny: TinyRuns) -> None:
    model = GreffonClassifier(tiny.causal, **QUICK).fit(TEXTS, LABELS)
    again = pickle.loads(pickle.dumps(model))
    first, second = model.run_.path.parent, again.run_.path.parent
    model.fit(TEXTS, LABELS)
    gc.collect()
    assert not first.exists()
    assert second.exists()
    third = model.run_.path.parent
    del model, again
    gc.collect()
    assert not second.exists()
    assert not third.exists()
    assert tiny.causal.path.exists()  # the body is the user's


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ("le chat", "put it into a list"),
        ([], "0 samples"),
        ([["a", "b"]], "sample 0 is list"),
        (np.zeros((3, 2)), r"array of shape \(3, 2\)"),
        (np.zeros(3), "sample 0 is float"),
        (["a", None], "sample 1 is NoneType"),
        (["a", float("nan")], "sample 1 is float"),
    ],
)
def test_what_is_no_text_is_refused(texts: Any, said: str, tiny: TinyRuns) -> None:
    for kind in (GreffonClassifier, GreffonEmbedder):
        with pytest.raises(ValueError, match=said):
            kind(tiny.causal).fit(texts, ["x"] * len(texts))
    with pytest.raises(TypeError, match="got int"):
        GreffonEmbedder(tiny.causal).fit(3)


def test_mistakes_are_told(tiny: TinyRuns, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one class: 'poil'"):
        GreffonClassifier(tiny.causal).fit(TEXTS, ["poil"] * len(TEXTS))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        GreffonClassifier(tiny.causal).fit(TEXTS, LABELS[:-1])
    with pytest.raises(ValueError, match="Unknown label type"):
        GreffonClassifier(tiny.causal).fit(TEXTS, np.linspace(0, 1, len(TEXTS)))
    with pytest.raises(UserError, match="steps has no effect with a body"):
        GreffonClassifier(tiny.causal, steps=3).fit(TEXTS, LABELS)
    with pytest.raises(UserError, match="unknown setting 'epoch'"):
        GreffonClassifier(tiny.causal, finetuning={"epoch": 3}).fit(TEXTS, LABELS)
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="choose another run_dir"):
        GreffonClassifier(tiny.causal, run_dir=tmp_path / "file").fit(TEXTS, LABELS)


def test_importing_greffon_imports_neither_torch_nor_scikit_learn() -> None:
    code = "import sys, greffon; dir(greffon); sys.exit(any(name in sys.modules for name in ('torch', 'sklearn')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
