"""scikit-learn's own checks of an estimator.

They give tables of numbers, and an estimator of texts takes texts: so `check_estimator` alone checks cloning
and no more. Here a subclass writes each row of numbers as a text, and all checks run, with none left out.
"""

from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks
from sklearn.utils.validation import check_is_fitted, validate_data

import greffon
from greffon import GreffonClassifier, GreffonEmbedder

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SMALL = {"layers": 1, "hidden_size": 8, "heads": 2, "intermediate_size": 8, "context": 24, "vocab_size": 262}


def spelt(rows: np.ndarray) -> list[str]:
    """Write each number of a row as a letter, so that near numbers have near letters."""
    places = np.mod(np.round(3 * np.asarray(rows, dtype=float)), len(LETTERS)).astype(int)
    return ["".join(LETTERS[place] for place in row[:20]) for row in places]


class _OnNumbers:
    """Read rows of numbers as texts."""

    def fit(self, X: Any, y: Any = None) -> Any:  # noqa: N803
        rows, y = (validate_data(self, X), None) if y is None else validate_data(self, X, y)
        return super().fit(spelt(rows), y)

    def _texts(self, X: Any) -> list[str]:  # noqa: N803
        check_is_fitted(self)
        return spelt(validate_data(self, X, reset=False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = False
        tags.input_tags.two_d_array = True
        if tags.classifier_tags is not None:
            tags.classifier_tags.poor_score = True  # of a body that was pretrained for one step
        return tags


class ClassifierOfNumbers(_OnNumbers, GreffonClassifier):
    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        return super().predict_proba(self._texts(X))


class EmbedderOfNumbers(_OnNumbers, GreffonEmbedder):
    def transform(self, X: Any) -> np.ndarray:  # noqa: N803
        return super().transform(self._texts(X))


@pytest.fixture(autouse=True, scope="module")
def _body(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Pretrain the body that all these estimators name, in the directory that they look in."""
    folder = tmp_path_factory.mktemp("checks")
    (folder / "letters.txt").write_text("\n".join(LETTERS for _ in range(20)))
    run = greffon.pretrain([folder / "letters.txt"], out=folder / "body", steps=1, batch_size=2, quiet=True, **SMALL)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(run.path.parent)
        yield


ESTIMATORS = [
    ClassifierOfNumbers("body", finetuning={"epochs": 1}),
    EmbedderOfNumbers("body"),
]


@parametrize_with_checks(ESTIMATORS)
def test_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("kind", [GreffonClassifier, GreffonEmbedder])
def test_check_estimator_itself(kind: type) -> None:
    with pytest.warns(match="Can't test estimator"):
        assert check_estimator(kind())
