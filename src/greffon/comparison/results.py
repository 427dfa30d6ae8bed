"""The typed content of `results.json`: what a comparison found.

Accuracies and differences are shares between 0 and 1. The module holds data only; `assemble.py` computes
it, `verdict.py`, `report.py` and `figures.py` read it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from greffon.comparison.arm_result import ArmKind, ArmResult, Interval
from greffon.core.config import from_dict
from greffon.core.errors import UserError, setting
from greffon.core.files import read_json
from greffon.data.lint import Finding


@dataclass(frozen=True)
class Difference:
    """Difference in test accuracy between two arms on the same texts."""

    a: str
    """First arm."""
    b: str
    """Second arm, whose accuracy is subtracted."""
    mean: float
    """Accuracy of `a` minus accuracy of `b`."""
    interval: Interval
    """95 % interval of the difference."""
    p: float
    """Two-sided p of a paired permutation test over the texts."""


@dataclass(frozen=True)
class BaselineResult:
    """The TF-IDF baseline."""

    name: str
    """Name for a reader."""
    accuracy: float
    """Test accuracy."""
    interval: Interval
    """95 % interval of the test accuracy."""
    c: float | None
    """Inverse regularisation strength C, chosen on validation."""
    valid_accuracy: float
    """Validation accuracy."""
    seconds: float
    """Duration of the fit."""


@dataclass(frozen=True)
class TimeToScratch:
    """Fine-tuning until an arm is as good on validation as scratch at its best."""

    epochs: int
    """Number of epochs."""
    seconds: float
    """Duration, mean over the seeds; pretraining is not counted."""


@dataclass(frozen=True)
class SizeResult:
    """Test score of one arm with a number of labels."""

    mean: float
    """Mean over the draws."""
    interval: Interval
    """95 % interval, from a bootstrap over draws and test texts."""
    by_draw: tuple[float, ...]
    """Score of each draw of labels; each draw is also another seed."""
    chosen_epoch: tuple[int, ...] = ()
    """Epoch chosen within the labels of each draw, 0 being the head before any training; of neural arms."""
    strength: tuple[float, ...] = ()
    """Inverse regularisation strength C chosen within the labels of each draw; of classical arms."""
    weights: tuple[tuple[float, float], ...] = ()
    """Weights of the body and of TF-IDF, fitted within the labels of each draw; of ensembles."""


@dataclass(frozen=True)
class TrainSize:
    """All arms with one number of labels."""

    size: int
    """Number of labelled training texts."""
    arms: Mapping[str, SizeResult]
    """Result of each arm."""
    differences: tuple[Difference, ...] = ()
    """Paired differences between arms, over the draws that they share."""

    def difference(self, a: str, b: str) -> Difference | None:
        """Return the paired difference a − b, or None if it was not measured."""
        return next((entry for entry in self.differences if (entry.a, entry.b) == (a, b)), None)


@dataclass(frozen=True)
class LabelSaving:
    """How many labels the TF-IDF baseline needs for what an arm reaches."""

    arm: str
    """The arm."""
    size: int
    """Its number of labels."""
    score: float
    """Its test score."""
    baseline_size: int | None
    """Labels that TF-IDF needs for this score, interpolated on a log scale; null if more than the largest size."""


@dataclass(frozen=True)
class Tuning:
    """What the search for the settings of one arm found (`--tune`); every arm has the same number of trials."""

    arm: str
    """The arm."""
    trials: int
    """Number of trials: trainings with one seed, or values of C."""
    settings: Mapping[str, Any]
    """Settings with the best validation score (C of a classical arm); empty where the usual ones were the best."""
    usual: float | None
    """Validation accuracy of the first trial, with the usual settings; null for classical arms."""
    best: float
    """Validation accuracy of the best trial."""


@dataclass(frozen=True)
class DataSummary:
    """The labelled texts."""

    train: int
    """Number of training texts."""
    valid: int
    """Number of validation texts."""
    test: int
    """Number of test texts."""
    train_test_overlap: int
    """Number of test texts that are also in train."""
    pretraining_overlap: Mapping[str, int | None] = field(default_factory=dict)
    """For each pretrained arm, the number of test texts that are also in its pretraining text; null if unknown."""
    tokens_read: Mapping[str, float] = field(default_factory=dict)
    """For each neural arm, the share of the tokens of the test texts that it reads."""
    findings: tuple[Finding, ...] = ()
    """Findings of the checks before training."""
    files: Mapping[str, str] = field(default_factory=dict)
    """File of each split that was given."""


@dataclass(frozen=True)
class Settings:
    """What was asked for, and how the classifiers were trained."""

    seeds: int
    """Number of seeds."""
    epochs: int
    """Number of epochs of each training at most."""
    runs: Mapping[str, str] = field(default_factory=dict)
    """Directory of each pretrained run."""
    columns: tuple[str, ...] = ("text", "label")
    """Columns of the text and of the label."""
    adapt: bool = False
    """Whether the bodies were first pretrained further on the texts of the task."""
    gradual_unfreezing: bool = False
    """Whether one more layer was trained with each epoch."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """Training settings that all trainings have in common."""
    training_by_arm: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Training settings in which the neural arms differ: the value of each arm, by setting."""


@dataclass(frozen=True)
class Results:
    """Everything that `results.json` holds."""

    verdict: str
    """Conclusion in plain words."""
    arms: Mapping[str, ArmResult]
    """Result of each arm, by name."""
    differences: tuple[Difference, ...]
    """Paired differences between arms."""
    baseline: BaselineResult | None
    """The TF-IDF baseline."""
    scratch: Mapping[str, str]
    """For each pretrained arm, the scratch arm of the same architecture."""
    time_to_scratch: Mapping[str, TimeToScratch | None]
    """For each neural arm, when its mean validation accuracy reaches the best of its scratch arm; null if never."""
    scratch_target: Mapping[str, float]
    """Best mean validation accuracy of each scratch arm."""
    labels: tuple[str, ...]
    """Labels, in the order of the confusion matrices."""
    data: DataSummary
    """The labelled texts."""
    pretraining: Mapping[str, float | None]
    """Seconds that each body was pretrained; null if it was imported."""
    settings: Settings
    """What was asked for."""
    versions: Mapping[str, str]
    """Version of Python and of each package."""
    train_sizes: tuple[TrainSize, ...] = ()
    """The label curve; present only if it was asked for."""
    label_savings: tuple[LabelSaving, ...] = ()
    """How many labels TF-IDF needs for what each arm reaches; present only with a label curve."""
    tuning: tuple[Tuning, ...] = ()
    """What the search for settings found; present only if it was asked for."""
    metric: str = "accuracy"
    """Name of the score that `test_score`, `train_sizes` and `differences` hold."""

    def to_json(self) -> dict[str, Any]:
        """Return the content of `results.json`."""
        content = asdict(self)
        if not self.train_sizes:
            del content["train_sizes"], content["label_savings"]
        if not self.tuning:
            del content["tuning"]
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any], where: str = "results.json") -> "Results":
        """Read the content of `results.json`; unknown and missing fields are errors."""
        return from_dict(cls, content, where)

    @classmethod
    def read(cls, path: Path) -> "Results":
        """Read a file, or say that another version of greffon wrote it."""
        content = read_json(path)
        try:
            return cls.from_json(content, str(path))
        except UserError as problem:
            raise UserError(
                f"{problem}; another version of greffon wrote this file: repeat `greffon compare` with the same "
                f"{setting('out')}, and it is written anew"
            ) from None

    def difference(self, a: str, b: str) -> Difference | None:
        """Return the paired difference a − b, or None if it was not measured."""
        return next((entry for entry in self.differences if (entry.a, entry.b) == (a, b)), None)

    def arms_of(self, kind: ArmKind) -> dict[str, ArmResult]:
        """Return the arms of one kind, by name."""
        return {name: arm for name, arm in self.arms.items() if arm.kind == kind}
