"""The probe: logistic regression on the frozen vectors of texts. It is also where a head for classes or labels starts.

With several labels a text (link sigmoid) it is one such regression for each label.

Vectors are centred and normalised as LayerNorm does it: subtract the centre, subtract the mean over the features,
divide by the standard deviation. So a probe is exactly a class head of ModernBERT's form: a dense layer that subtracts
the centre, LayerNorm, and a linear layer. Knows nothing of texts, runs or models.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from greffon.core.choices import Link
from greffon.core.errors import UserError
from greffon.data.splits import folds

Floats = npt.NDArray[np.float64]

STRENGTH = 5.0
"""Inverse regularisation strength C, for vectors of length one, unless another is clearly better."""
STRENGTHS = (0.1, 0.5, 1.5, 5.0, 15.0, 50.0)
"""The values of C that are tried."""
ONE_FOLD_FROM = 2000
"""From this many texts on, C is chosen on one fold: as exact as five are with fewer texts, in a fifth of the time."""
MOST_SEARCHED = 50
"""With more labels than these, each of which is a fit of its own, C is not searched for."""
EPSILON = 1e-5
"""What LayerNorm adds to the variance."""
_UNKNOWN = -30.0
"""Logit of a class that is not among the training texts."""
_MOST = 500.0
"""Largest logit whose exponential is computed."""
_TINY = 1e-12
"""Lower bound of a probability in a loss."""


@dataclass(frozen=True, eq=False)
class Probe:
    """A linear model of normalised vectors."""

    center: Floats
    """What is subtracted from a vector first: (W,)."""
    weight: Floats
    """Weights of each class or output for what LayerNorm returns: (C, W)."""
    bias: Floats
    """Bias of each class or output: (C,)."""
    strength: float
    """Inverse regularisation strength C, for vectors of length one."""
    epsilon: float = EPSILON
    link: Link = "softmax"

    def probabilities(self, vectors: npt.ArrayLike) -> Floats:
        """Return the probability of each class or label for each vector: (N, W) → (N, C)."""
        logits: Floats = normalised(vectors, self.center, self.epsilon) @ self.weight.T + self.bias
        if self.link == "sigmoid":
            return 1 / (1 + np.exp(-np.clip(logits, -_MOST, _MOST)))
        raised = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares: Floats = raised / raised.sum(axis=1, keepdims=True)
        return shares


def normalised(vectors: npt.ArrayLike, center: npt.ArrayLike, epsilon: float = EPSILON) -> Floats:
    """Centre vectors, and bring them to mean 0 and variance 1 over their features: (N, W) → (N, W)."""
    moved = np.asarray(vectors, dtype=np.float64) - np.asarray(center, dtype=np.float64)
    moved -= moved.mean(axis=1, keepdims=True)
    scaled: Floats = moved / np.sqrt(np.square(moved).mean(axis=1, keepdims=True) + epsilon)
    return scaled


@dataclass(frozen=True, eq=False)
class ProbeForm:
    """What all fits of a probe on some vectors have in common."""

    classes: int | None = None
    """Number of classes, where the last ones may be missing among the labels."""
    center: npt.ArrayLike | None = None
    """What is subtracted from a vector first; by default the mean of the vectors that a probe is fitted on."""
    epsilon: float = EPSILON
    """What LayerNorm adds to the variance."""
    class_weights: Sequence[float] = ()
    """How often a text of each class counts in a fit, or one that has each label; once if empty."""
    link: Link = "softmax"
    """What makes outputs of logits."""

    def fit(self, vectors: Floats, targets: npt.NDArray[Any], strength: float) -> Probe:
        """Fit one probe on the class of each text, (N,), or its labels as 0 and 1, (N, C)."""
        center = vectors.mean(axis=0) if self.center is None else np.asarray(self.center, dtype=np.float64)
        width = vectors.shape[1]
        unit = normalised(vectors, center, self.epsilon) / np.sqrt(width)
        fitted = {"softmax": self._of_classes, "sigmoid": self._of_labels}[self.link]
        weight, bias = fitted(unit, targets, strength)
        return Probe(center, weight / np.sqrt(width), bias, strength, self.epsilon, self.link)

    def _of_classes(self, unit: Floats, labels: npt.NDArray[Any], strength: float) -> tuple[Floats, Floats]:
        """Fit logistic regression; classes that are not among the labels get next to no probability."""
        from sklearn.linear_model import LogisticRegression

        classes = self.among(labels)
        weight, bias = np.zeros((classes, unit.shape[1])), np.full(classes, _UNKNOWN)
        present = np.unique(labels)
        if len(present) == 1:
            bias[present] = 0.0
            return weight, bias
        weights = {number: self.class_weights[number] for number in present} if self.class_weights else None
        model = LogisticRegression(C=strength, max_iter=1000, class_weight=weights).fit(unit, labels)
        coefficients, intercepts = model.coef_, model.intercept_
        if len(present) == 2:  # one row, of the second class against the first
            coefficients = np.concatenate((-coefficients, coefficients)) / 2
            intercepts = np.concatenate((-intercepts, intercepts)) / 2
        weight[present], bias[present] = coefficients, intercepts
        return weight, bias

    def _of_labels(self, unit: Floats, bits: npt.NDArray[Any], strength: float) -> tuple[Floats, Floats]:
        """Fit logistic regression for each label; one that every text has, or none, is always or never given."""
        from sklearn.linear_model import LogisticRegression

        weight, bias = np.zeros((bits.shape[1], unit.shape[1])), np.zeros(bits.shape[1])
        for i, own in enumerate(bits.T.astype(int)):
            if len(np.unique(own)) == 1:
                bias[i] = -_UNKNOWN if own[0] else _UNKNOWN
                continue
            weights = {0: 1.0, 1: self.class_weights[i]} if self.class_weights else None
            model = LogisticRegression(C=strength, max_iter=1000, class_weight=weights).fit(unit, own)
            weight[i], bias[i] = model.coef_[0], model.intercept_[0]
        return weight, bias

    def among(self, targets: npt.NDArray[Any]) -> int:
        """Return the number of classes or labels."""
        if self.link != "softmax":
            return int(targets.shape[1])
        return int(targets.max()) + 1 if self.classes is None else self.classes

    def strata(self, targets: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the group of each text for cross-validation: its class; labels have none."""
        return targets if self.link == "softmax" else np.zeros(len(targets), dtype=np.int64)

    def losses(self, outputs: Floats, targets: npt.NDArray[Any]) -> Floats:
        """Return the loss of each text that was judged, summed over its labels."""
        judged = ~np.isnan(outputs).any(axis=1)
        found, truth = outputs[judged], targets[judged]
        if self.link == "softmax":
            loss: Floats = -np.log(np.maximum(found[np.arange(len(truth)), truth], _TINY))
        else:
            loss = -np.log(np.maximum(np.where(truth > 0, found, 1 - found), _TINY)).sum(axis=1)
        return loss


def fit_probe(
    vectors: npt.ArrayLike,
    targets: npt.ArrayLike,
    form: ProbeForm | None = None,
    *,
    strengths: Sequence[float] = STRENGTHS,
    valid: tuple[npt.ArrayLike, npt.ArrayLike] | None = None,
    seed: int = 0,
) -> Probe:
    """Fit a probe on vectors, (N, W), and the class number of each, or its labels as 0 and 1.

    C is 5, unless another of `strengths` has a lower loss, by more than one standard error of the paired difference, on
    `valid` or, without it, in cross-validation.
    """
    given = np.asarray(vectors, dtype=np.float64)
    wanted = np.asarray(targets)
    if len(np.unique(wanted, axis=0)) < 2:
        raise UserError(
            "all labelled texts have one label, so there is nothing to tell apart; give texts of two classes"
        )
    if np.allclose(given, given[0], rtol=1e-6, atol=1e-9):
        raise UserError("all labelled texts have the same vector, so nothing tells them apart; give other texts")
    form = _complete(form, wanted)
    if form.link == "sigmoid" and form.among(wanted) > MOST_SEARCHED:
        strengths = (STRENGTH,)
    tried = sorted({*strengths} | ({STRENGTH} if not strengths else set()))
    if len(tried) == 1:
        return form.fit(given, wanted, tried[0])
    if valid is not None:
        held, truth = np.asarray(valid[0], dtype=np.float64), np.asarray(valid[1])
        said = [form.fit(given, wanted, c).probabilities(held) for c in tried]
    else:
        judged = _judged(given, form.strata(wanted), seed)
        said = [_out_of_fold(given, wanted, judged, form, c) for c in tried]
        truth = wanted
    return form.fit(given, wanted, _chosen(tried, [form.losses(found, truth) for found in said]))


def out_of_fold(
    vectors: npt.ArrayLike,
    labels: Sequence[int],
    form: ProbeForm | None = None,
    *,
    strength: float = STRENGTH,
    seed: int = 0,
) -> Floats:
    """Return the probabilities of each text by a probe that has not seen it: (N, C).

    The row of a text whose class has no other text is NaN: no probe without it knows its class.
    """
    given, wanted = np.asarray(vectors, dtype=np.float64), np.asarray(labels)
    return _out_of_fold(given, wanted, folds(wanted, copies(given), seed), _complete(form, wanted), strength)


def _complete(form: ProbeForm | None, labels: npt.NDArray[Any]) -> ProbeForm:
    """Set the number of classes: a part of the labels may lack the last ones."""
    form = form or ProbeForm()
    return replace(form, classes=form.among(labels))


def copies(vectors: Floats) -> npt.NDArray[np.int64]:
    """Return a number for each vector that equal ones share: (N,)."""
    _, number = np.unique(np.round(vectors, 5), axis=0, return_inverse=True)
    found: npt.NDArray[np.int64] = number.reshape(-1)
    return found


def _judged(vectors: Floats, labels: npt.NDArray[Any], seed: int) -> npt.NDArray[np.int64]:
    """Return the fold of each text; of many texts, those of the first fold alone are judged."""
    fold = folds(labels, copies(vectors), seed)
    return fold if len(labels) < ONE_FOLD_FROM else np.where(fold == 0, 0, -1)


def _out_of_fold(
    vectors: Floats, labels: npt.NDArray[Any], fold: npt.NDArray[np.int64], form: ProbeForm, strength: float
) -> Floats:
    """Judge the texts of each fold by a probe of the others; NaN for texts of no fold."""
    out = np.full((len(labels), form.among(labels)), np.nan)
    for number in range(int(fold.max()) + 1):
        held = fold == number
        out[held] = form.fit(vectors[~held], labels[~held], strength).probabilities(vectors[held])
    return out


def _chosen(strengths: Sequence[float], losses: Sequence[Floats]) -> float:
    """Choose the strength: the usual one, unless the best is better by more than one standard error."""
    best = int(np.argmin([loss.mean() if len(loss) else 0.0 for loss in losses]))
    if STRENGTH not in strengths:
        return strengths[best]
    gain = losses[strengths.index(STRENGTH)] - losses[best]
    if len(gain) < 2 or gain.mean() <= gain.std(ddof=1) / np.sqrt(len(gain)):
        return STRENGTH
    return strengths[best]
