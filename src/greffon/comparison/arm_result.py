"""What one arm of a comparison reached, as in `results.json`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from greffon.inference.calibration import ReliabilityBin
from greffon.inference.metrics import ClassScore

Interval = tuple[float, float]
ArmKind = Literal["neural", "classical", "ensemble"]


@dataclass(frozen=True)
class Accuracy:
    """Accuracy on the test texts."""

    mean: float
    """Mean over the seeds."""
    interval: Interval
    """95 % interval, from a bootstrap over seeds and test texts."""
    by_seed: tuple[float, ...]
    """Accuracy of each seed; classical arms have one value."""


@dataclass(frozen=True)
class ValidAccuracy:
    """Accuracy on the validation texts, without an interval: epoch, C and weights were chosen to maximise it."""

    mean: float
    """Mean over the seeds."""
    by_seed: tuple[float, ...]
    """Accuracy of each seed; classical arms have one value."""


@dataclass(frozen=True)
class CurvePoint:
    """Accuracies after one epoch; a training that stopped early keeps its last score."""

    epoch: int
    """Number of epochs trained; 0 is before training."""
    valid: float
    """Mean validation accuracy over the seeds."""
    test: float
    """Mean test accuracy over the seeds."""
    valid_range: Interval
    """Lowest and highest validation accuracy of a seed."""
    test_range: Interval
    """Lowest and highest test accuracy of a seed."""
    seeds: int
    """Number of seeds that trained this epoch."""


@dataclass(frozen=True)
class Mistake:
    """A test text that was classified wrongly."""

    text: str
    """The text."""
    gold: str
    """True label."""
    predicted: str
    """Predicted label."""
    probability: float
    """Probability of the predicted label, mean over the seeds that predicted it."""
    seeds: int
    """Number of seeds that predicted this label."""


@dataclass(frozen=True)
class ArmResult:
    """What one arm reached."""

    kind: ArmKind
    """Whether it was trained over epochs, fitted by scikit-learn, or combines two other arms."""
    body: str | None
    """Pretrained arm whose body a frozen arm or an ensemble uses; null for the other arms."""
    test_accuracy: Accuracy
    """Accuracy on the test texts, at the epoch chosen on validation."""
    test_score: Accuracy
    """The score that `metric` names, on the same texts; for classes it is the accuracy."""
    valid_accuracy: ValidAccuracy
    """Accuracy on the validation texts, at the same epoch."""
    macro_f1: float
    """Macro F1 on the test texts, mean over the seeds."""
    without_overlap: float | None
    """Test accuracy without the texts that are also in train; null without such texts."""
    chosen_epoch: tuple[int, ...]
    """Epoch chosen on validation, one for each seed; empty unless the arm is neural."""
    parameters: int | None
    """Number of parameters of a neural arm."""
    seconds: tuple[float, ...]
    """Duration of each training or fit; empty for ensembles."""
    curve: tuple[CurvePoint, ...]
    """Accuracy after each epoch, from epoch 0; empty unless the arm is neural."""
    per_class: Mapping[str, ClassScore]
    """Precision, recall, F1 and number of texts by label, from the predictions of all seeds."""
    confusion: tuple[tuple[int, ...], ...]
    """Confusion matrix (true × predicted, in the order of `labels`), summed over the seeds."""
    mistakes: tuple[Mistake, ...]
    """Wrong predictions with the highest probability, the highest first."""
    reliability: tuple[ReliabilityBin, ...]
    """Probability of the predicted labels, and the share of right ones, from the predictions of all seeds."""
    weights: tuple[tuple[float, float], ...] = ()
    """Weights of the body and of TF-IDF in an ensemble, one pair for each seed."""

    @property
    def is_frozen(self) -> bool:
        """Whether the arm is logistic regression on the vectors of a frozen body."""
        return self.kind == "classical" and self.body is not None
