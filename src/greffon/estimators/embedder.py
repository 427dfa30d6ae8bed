"""Vectors of texts as a scikit-learn transformer: `greffon.GreffonEmbedder`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from greffon.core.choices import Pool, PretrainingObjective
from greffon.estimators.run_estimator import RunEstimator, Workplace
from greffon.estimators.texts import as_texts
from greffon.inference.embed import embed
from greffon.runs.run import Run


class GreffonEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, RunEstimator):  # type: ignore[misc]
    """Turn texts into vectors with a body.

    >>> from sklearn.linear_model import LogisticRegression  # doctest: +SKIP
    >>> make_pipeline(GreffonEmbedder("runs/body"), LogisticRegression()).fit(texts, labels)  # doctest: +SKIP

    `body` is the Run, or its path, whose body is used as it is. Without it, `fit` pretrains one on its texts, with
    `objective`, for `minutes` (10 by default) or `steps`; `pretraining` holds further settings of `greffon.pretrain`,
    such as `{"preset": "lab"}`, and `random_state` seeds it. That run is made in `run_dir/body`, where a fit replaces
    that of an earlier one; by default in a temporary directory, which is removed together with the estimator.

    `pooling` makes one vector of the hidden states of a text: their mean, the last one, or that of [CLS]; by
    default as `greffon.embed` does.

    A fitted embedder has the Run whose body is used, `run_`.
    """

    def __init__(
        self,
        body: Run | str | Path | None = None,
        *,
        objective: PretrainingObjective = "causal",
        minutes: float | None = None,
        steps: int | None = None,
        pretraining: Mapping[str, Any] | None = None,
        pooling: Pool | None = None,
        random_state: Any = 0,
        run_dir: str | Path | None = None,
    ) -> None:
        self.body = body
        self.objective = objective
        self.minutes = minutes
        self.steps = steps
        self.pretraining = pretraining
        self.pooling = pooling
        self.random_state = random_state
        self.run_dir = run_dir

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803 (scikit-learn's name)
        """Open the body, or pretrain it on the texts; `y` is ignored."""
        texts = as_texts(X, self)
        place = Workplace(self.run_dir)
        return self._settle(place, self._body(texts, place, self._seed()))

    def transform(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return a vector for each text: (N, hidden_size)."""
        check_is_fitted(self)
        return embed(self.run_, as_texts(X, self), pooling=self.pooling)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []  # vectors are float32, whatever dtype texts come in
        return tags

    @property
    def _n_features_out(self) -> int:
        return self.run_.recipe.shape.hidden_size
