"""Fine-tuning as a scikit-learn classifier: `greffon.GreffonClassifier`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from greffon.core.choices import PretrainingObjective
from greffon.estimators.run_estimator import RunEstimator, Workplace
from greffon.estimators.texts import as_texts
from greffon.inference.classify import classify
from greffon.inference.tasks.classes import Classification
from greffon.runs.run import Run
from greffon.training.finetune import finetune


class GreffonClassifier(ClassifierMixin, RunEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Label texts with a fine-tuned body.

    >>> model = GreffonClassifier("runs/body").fit(texts, labels)  # doctest: +SKIP
    >>> model.predict(["Un livre magnifique."])  # doctest: +SKIP
    array(['positive'], dtype='<U8')

    `body` is the pretrained Run, or its path, whose body is fine-tuned. Without it, each `fit` first pretrains one on
    its own texts, with `objective`, for `minutes` (10 by default) or `steps`; `pretraining` holds further settings of
    `greffon.pretrain`, such as `{"preset": "lab"}`.

    `finetuning` holds settings of `greffon.finetune`, such as `{"epochs": 5, "freeze": True}`. `random_state` seeds
    both trainings.

    The run is made in `run_dir/classifier`, where a fit replaces that of an earlier one; by default in a temporary
    directory, which is removed together with the estimator.

    A fitted classifier has the sorted labels, `classes_`, and the fine-tuned Run, `run_`.
    """

    def __init__(
        self,
        body: Run | str | Path | None = None,
        *,
        objective: PretrainingObjective = "causal",
        minutes: float | None = None,
        steps: int | None = None,
        pretraining: Mapping[str, Any] | None = None,
        finetuning: Mapping[str, Any] | None = None,
        random_state: Any = 0,
        run_dir: str | Path | None = None,
    ) -> None:
        self.body = body
        self.objective = objective
        self.minutes = minutes
        self.steps = steps
        self.pretraining = pretraining
        self.finetuning = finetuning
        self.random_state = random_state
        self.run_dir = run_dir

    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803 (scikit-learn's name)
        """Fine-tune on texts and their labels.

        Cross-validation selects the number of epochs; from 200 texts on, a stratified fifth of them does.
        """
        texts = as_texts(X, self)
        labels = _labels(y, self)
        check_consistent_length(texts, labels)
        classes, numbers = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs two classes or more, and y has one class: {classes.tolist()[0]!r}"
            )
        place, seed, names = Workplace(self.run_dir), self._seed(), _names(classes)
        body = self._body(texts, place, seed)
        rows = ({"text": text, "label": names[number]} for text, number in zip(texts, numbers, strict=True))
        settings = {"seed": seed, **(self.finetuning or {})}
        file, out = place.write("train.jsonl", rows), place.path / "classifier"
        run = finetune(body, train=file, task="classes", out=out, force=True, quiet=True, **settings)
        run.drop_checkpoints()
        self.classes_ = classes
        return self._settle(place, run)

    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the probability of each class of `classes_` for each text."""
        check_is_fitted(self)
        found = classify(self.run_, as_texts(X, self))
        rows = [one.probabilities for one in found if isinstance(one, Classification)]
        return np.array([[row[name] for name in _names(self.classes_)] for row in rows])

    def predict(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the most probable class of each text."""
        check_is_fitted(self)
        best: np.ndarray = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return best


def _labels(y: Any, who: object) -> np.ndarray:
    """Return the labels as an array; raise a `ValueError` for what is none."""
    if y is None:
        raise ValueError(f"{type(who).__name__} requires y to be passed, but the target y is None")
    labels: np.ndarray = column_or_1d(y, warn=True)
    check_classification_targets(labels)
    return labels


def _names(classes: np.ndarray) -> list[str]:
    """Name the classes for the run: by themselves where that is unambiguous, else by number."""
    names = [str(label) for label in classes.tolist()]
    whole = all(name.strip() for name in names) and len({*names}) == len(names)
    return names if whole else [str(i) for i in range(len(names))]
