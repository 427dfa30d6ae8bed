import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from test_baselines import reviews

from greffon.comparison import tfidf
from greffon.comparison.text_table import TextTable, write_table
from greffon.comparison.tfidf import fit_tfidf, tfidf_features
from greffon.core.errors import UserError


@pytest.fixture(scope="module")
def features():
    texts, labels = reviews(90, 1)
    others, gold = reviews(60, 2)
    names = sorted(set(labels))
    made = tfidf_features(texts, [*texts, *others])
    return made[:90], [names.index(each) for each in labels], made[90:], [names.index(each) for each in gold]


def test_a_fit_in_the_span_of_the_texts_is_scikit_learns_fit_on_all_features(features):
    train, labels, test, _ = features
    found = fit_tfidf(train, labels, test, classes=3)
    oracle = LogisticRegression(C=found.strength, max_iter=5000, tol=1e-7).fit(train, labels)
    assert found.test == pytest.approx(oracle.predict_proba(test), abs=2e-3)


def test_the_span_is_left_for_many_texts_and_gives_the_same(features, monkeypatch):
    train, labels, test, _ = features
    within = fit_tfidf(train, labels, test, classes=3)
    monkeypatch.setattr(tfidf, "DENSE", 10)
    directly = fit_tfidf(train, labels, test, classes=3)
    assert directly.strength == within.strength
    assert directly.test == pytest.approx(within.test, abs=2e-3)


def test_no_text_is_judged_by_a_fit_that_has_seen_its_label(features):
    train, labels, test, gold = features
    found = fit_tfidf(train, labels, test, classes=3)
    assert np.mean(found.test.argmax(axis=1) == gold) > 0.8
    # A label changed for one text changes what the other texts are told, but not the text itself.
    changed = list(labels)
    changed[0] = (labels[0] + 1) % 3
    other = tfidf.out_of_fold(train, np.array(changed), np.arange(90) % 5, 10.0, 3)
    first = tfidf.out_of_fold(train, np.array(labels), np.arange(90) % 5, 10.0, 3)
    assert other[::5] == pytest.approx(first[::5], abs=1e-9)
    assert not np.allclose(other, first)


def test_a_class_with_one_text_is_not_judged_and_another_may_be_missing(features):
    train, _, test, _ = features
    found = fit_tfidf(train[:5], [0, 0, 1, 1, 2], test, classes=4)
    assert np.isnan(found.held_out[4]).all()
    assert not np.isnan(found.held_out[:4]).any()
    assert (found.test[:, 3] == 0).all()


def test_texts_without_words_are_refused():
    with pytest.raises(UserError, match="hold no words"):
        tfidf_features([" ", "!"], ["a text"])


@pytest.mark.parametrize("sparse", [True, False])
def test_a_table_gives_each_text_its_row(tmp_path, sparse):
    rows = np.arange(12.0).reshape(4, 3)
    texts = ["one", "two", "three\n", "half \ud800"]
    write_table(tmp_path / "deep" / "table.npz", texts, csr_array(rows) if sparse else rows)
    table = TextTable.read(tmp_path / "deep" / "table.npz")
    found = table.of(["three\n", "one", "one"])
    assert np.asarray(found.todense() if sparse else found).tolist() == [rows[2].tolist(), *[rows[0].tolist()] * 2]
    assert table.covers(texts)
    assert not table.covers(["four"])
