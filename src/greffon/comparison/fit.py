"""The fit of a classical arm on one draw of labels, as a task: TF-IDF, or a probe of frozen vectors.

FOLDER/
  fit.json             what to fit (`Fit`)
  probabilities.json   of the drawn texts, each judged by a fit without it, and of the test texts
  fitted.json          the strength that was chosen, and the time it took
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from greffon.comparison.text_table import TextTable
from greffon.comparison.tfidf import fit_tfidf
from greffon.core.config import from_dict
from greffon.core.files import read_json, write_json
from greffon.core.recipe import Data
from greffon.data.splits import load_draw, load_pool
from greffon.inference.probe import EPSILON, ProbeForm, fit_probe, out_of_fold

FIT = "fit.json"
FITTED = "fitted.json"


@dataclass(frozen=True)
class Fit:
    """What to fit, on which labels."""

    kind: Literal["tfidf", "frozen"]
    """Features of the texts."""
    data: Data
    """Labelled files, and the draw from them."""
    labels: tuple[str, ...]
    """The classes, in order."""
    table: str
    """File with the features of the texts."""
    epsilon: float = EPSILON
    """What a probe adds to the variance of a vector: that of the body's own norms, as a class head would have it."""

    @classmethod
    def read(cls, folder: Path) -> "Fit":
        """Read the description in a directory."""
        return from_dict(cls, read_json(folder / FIT), str(folder / FIT))

    def write(self, folder: Path) -> None:
        """Write the description into a directory, which is made."""
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / FIT, asdict(self))


@dataclass(frozen=True)
class Fitted:
    """What a fit ended with."""

    strength: float
    """Inverse regularisation strength C."""
    seconds: float
    """Duration of the fit."""
    valid_score: float
    """Score in cross-validation."""

    @classmethod
    def read(cls, folder: Path) -> "Fitted":
        """Read what the fit in a directory ended with."""
        return from_dict(cls, read_json(folder / FITTED), str(folder / FITTED))


def carry_out(folder: Path) -> dict[str, Any]:
    """Fit as a directory says, and return the probabilities of its parts."""
    fit = Fit.read(folder)
    train = load_draw(fit.data)
    test = load_pool(fit.data)[1]
    wanted = [fit.labels.index(example.label) for example in train]
    began = time.perf_counter()
    table = TextTable.read(Path(fit.table))
    features, others = (table.of([example.text for example in part]) for part in (train, test))
    strength, held_out, judged = (_tfidf if fit.kind == "tfidf" else _frozen)(fit, features, wanted, others)
    known = ~np.isnan(held_out[:, 0])
    right = held_out[known].argmax(axis=1) == np.array(wanted)[known]
    score = float(right.mean()) if known.any() else 0.0
    write_json(folder / FITTED, asdict(Fitted(strength, time.perf_counter() - began, score)))
    return {"held_out": rows(held_out), "test": judged.tolist()}


def rows(probabilities: npt.NDArray[Any]) -> list[list[float] | None]:
    """Write probabilities for JSON: a row without numbers is null."""
    return [None if np.isnan(row[0]) else row.tolist() for row in probabilities]


Judged = tuple[float, npt.NDArray[Any], npt.NDArray[Any]]
"""A strength, and the probabilities of the drawn and of the test texts."""


def _tfidf(fit: Fit, features: Any, wanted: Sequence[int], others: Any) -> Judged:
    fitted = fit_tfidf(features, wanted, others, classes=len(fit.labels), seed=fit.data.draw)
    return fitted.strength, fitted.held_out, fitted.test


def _frozen(fit: Fit, features: Any, wanted: Sequence[int], others: Any) -> Judged:
    form, seed = ProbeForm(len(fit.labels), epsilon=fit.epsilon), fit.data.draw
    probe = fit_probe(features, wanted, form, seed=seed)
    held_out = out_of_fold(features, wanted, form, strength=probe.strength, seed=seed)
    return probe.strength, held_out, probe.probabilities(others)
