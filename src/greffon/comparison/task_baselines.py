"""Classical baselines of other tasks than classes: what anyone would try first, on the same labels.

One-vs-rest logistic regression for several labels, ridge regression for scores, TF-IDF of each text with difference and
product for pairs, and a linear-chain CRF over the shapes of words for spans. Each takes labelled texts and returns what
`inference/measures.py` scores, as a head does. scikit-learn and python-crfsuite are imported when needed.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from greffon.comparison.baselines import C_GRID
from greffon.comparison.tfidf import vectoriser
from greffon.core.choices import Answer
from greffon.core.errors import UserError
from greffon.data.corpora import Labelled
from greffon.data.tasks.tokens import spans_of, tags_of_spans, words_of
from greffon.inference.tasks.base import Outputs
from greffon.inference.tasks.multilabel import gold_bits

ALPHAS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Penalties of ridge regression that are tried."""
Score = Callable[[Sequence[Labelled], Outputs], float]
"""How good the outputs for labelled texts are; higher is better."""


@dataclass(frozen=True)
class Fit:
    """A fitted baseline."""

    name: str
    """Name for a reader."""
    strength: float | None
    """C, or the penalty of ridge regression; None where nothing is chosen."""
    outputs: Callable[[Sequence[Labelled]], Outputs]
    """What it says of texts, as a head would."""


Matrix = Any
"""A sparse matrix of SciPy."""
Model = Callable[[Matrix], npt.NDArray[np.float64]]


def features_of(train: Sequence[Labelled]) -> Callable[[Sequence[Labelled]], Matrix]:
    """Return the function that makes TF-IDF vectors, whose words are those of some texts.

    The vector of a pair is both texts' with their difference and product.
    """
    from scipy.sparse import hstack

    paired = any(example.second is not None for example in train)
    vectors = vectoriser(len(train))
    texts = [example.text for example in train] + [example.second or "" for example in train if paired]
    try:
        vectors.fit(texts)
    except ValueError as error:  # scikit-learn's "empty vocabulary"
        raise UserError("the training texts hold no words, so TF-IDF has nothing to count") from error

    def of(examples: Sequence[Labelled]) -> Matrix:
        first = vectors.transform([example.text for example in examples])
        if not paired:
            return first
        second = vectors.transform([example.second or "" for example in examples])
        return hstack([first, second, abs(first - second), first.multiply(second)]).tocsr()

    return of


def _scores(labels: Sequence[str], known: Matrix, train: Sequence[Labelled]) -> list[tuple[float, Model]]:
    from sklearn.linear_model import Ridge

    scores = np.array([example.score for example in train], dtype=np.float64)
    ridges = [(alpha, Ridge(alpha=alpha).fit(known, scores)) for alpha in ALPHAS]
    return [(alpha, lambda x, m=model: m.predict(x)[:, None]) for alpha, model in ridges]  # type: ignore[misc]


def _bits(labels: Sequence[str], known: Matrix, train: Sequence[Labelled]) -> list[tuple[float, Model]]:
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    bits = gold_bits(labels, train).astype(int)
    rests = [(c, OneVsRestClassifier(LogisticRegression(C=c, max_iter=1000)).fit(known, bits)) for c in C_GRID]
    return [(c, lambda x, m=model: m.predict_proba(x)) for c, model in rests]  # type: ignore[misc]


def _classes(labels: Sequence[str], known: Matrix, train: Sequence[Labelled]) -> list[tuple[float, Model]]:
    from sklearn.linear_model import LogisticRegression

    numbers = [labels.index(example.label) for example in train]
    plain = [(c, LogisticRegression(C=c, max_iter=1000).fit(known, numbers)) for c in C_GRID]
    return [(c, _spread(model, len(labels))) for c, model in plain]


def _spread(model: Any, count: int) -> Model:
    """Return the probabilities of all classes, of which a small training set may lack some."""

    def probabilities(x: Matrix) -> npt.NDArray[np.float64]:
        out = np.zeros((x.shape[0], count))
        out[:, model.classes_] = model.predict_proba(x)
        return out

    return probabilities


def _outputs(model: Model, features: Callable[[Sequence[Labelled]], Matrix]) -> Callable[[Sequence[Labelled]], Outputs]:
    return lambda examples: list(model(features(examples)))


def _need_crf() -> None:
    try:
        import pycrfsuite  # noqa: F401
    except ImportError:
        raise UserError(
            "the baseline of spans needs a package; install it with: pip install 'greffon[tagging]'"
        ) from None


def _crf(labels: Sequence[str], train: Sequence[Labelled], valid: Sequence[Labelled], score: Score) -> Fit:
    """Fit a linear-chain CRF with the usual penalties."""
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False)
    for example in train:
        words = words_of(example.text)
        if words:
            trainer.append(shapes(example.text), tags_of_spans(words, spans_of(example.label)))
    trainer.set_params({"c1": 0.1, "c2": 0.1, "max_iterations": 100, "feature.possible_transitions": True})
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "crf")
        trainer.train(file)
        model = Path(file).read_bytes()

    def outputs(examples: Sequence[Labelled]) -> Outputs:
        tagger = pycrfsuite.Tagger()
        tagger.open_inmemory(model)
        return [_tagged(tagger, shapes(example.text), labels) for example in examples]

    return Fit("linear-chain CRF over word shapes", None, outputs)


def _tagged(tagger: Any, words: Sequence[Sequence[str]], labels: Sequence[str]) -> npt.NDArray[np.float64]:
    """Return the marginal probability of each tag, with the best sequence as the highest of each word."""
    out = np.zeros((len(words), len(labels)))
    known = {*tagger.labels()}
    for i, best in enumerate(tagger.tag(words) if words else ()):
        out[i] = [tagger.marginal(label, i) if label in known else 0.0 for label in labels]
        out[i, labels.index(best)] = out[i].max() + 1e-6
    return out


def shapes(text: str) -> list[list[str]]:
    """Return the features of each word: its form and shape, its ends, and those of its neighbours."""
    words = [text[begin:end] for begin, end in words_of(text)]
    own = [_own(word) for word in words]
    out = [["bias", *features] for features in own]
    for i, (before, after) in enumerate(pairwise(own)):
        out[i] += [f"+1:{feature}" for feature in after[:2]]
        out[i + 1] += [f"-1:{feature}" for feature in before[:2]]
    for row in (out[:1], out[-1:]):
        for features in row:
            features.append("edge")
    return out


def _kind(sign: str) -> str:
    return "X" if sign.isupper() else "x" if sign.isalpha() else "9" if sign.isdigit() else sign


def _own(word: str) -> list[str]:
    shape = "".join(map(_kind, word))
    short = "".join(sign for i, sign in enumerate(shape) if i == 0 or sign != shape[i - 1])
    return [f"word={word.lower()}", f"shape={short}", f"end={word[-3:].lower()}", f"begin={word[:3].lower()}"]


@dataclass(frozen=True)
class _Linear:
    """Linear models on TF-IDF, one for each strength."""

    name: str
    fit: Callable[[Sequence[str], Matrix, Sequence[Labelled]], list[tuple[float, Model]]]

    def __call__(
        self, labels: Sequence[str], train: Sequence[Labelled], valid: Sequence[Labelled], score: Score
    ) -> Fit:
        """Fit all, and return the one that is best on the validation texts."""
        features = features_of(train)
        models = self.fit(labels, features(train), train)
        fits = [Fit(self.name, strength, _outputs(model, features)) for strength, model in models]
        return max(fits, key=lambda one: score(valid, one.outputs(valid)))


BASELINES: dict[Answer, Callable[[Sequence[str], Sequence[Labelled], Sequence[Labelled], Score], Fit]] = {
    "classes": _Linear("TF-IDF + logistic regression", _classes),
    "multilabel": _Linear("TF-IDF + one-vs-rest logistic regression", _bits),
    "regression": _Linear("TF-IDF + ridge regression", _scores),
    "tokens": _crf,
}
"""From labels, training and validation texts to the baseline of each kind of label; one without has no baseline."""
_NEEDS: dict[Answer, Callable[[], None]] = {"tokens": _need_crf}


def check_baseline(answer: Answer, tell: Callable[[str], None]) -> None:
    """Refuse a baseline whose package is missing before anything is trained, and tell where there is none."""
    _NEEDS.get(answer, lambda: None)()
    if answer not in BASELINES:
        tell(f"there is no classical baseline for {answer}: bodies are compared with those from scratch alone")


def fit_baseline(
    answer: Answer, labels: Sequence[str], train: Sequence[Labelled], valid: Sequence[Labelled], score: Score
) -> Fit | None:
    """Fit the baseline of a task on train; its strength is chosen on the validation texts."""
    return BASELINES[answer](labels, train, valid, score) if answer in BASELINES else None
