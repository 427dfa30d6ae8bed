"""`greffon finetune RUN --train F --valid F --out RUN`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from greffon.cli import say_out
from greffon.cli.options import (
    File,
    FinetuningOptions,
    Flag,
    GraftOptions,
    GraftShapeOptions,
    GraftTrainingOptions,
    LabelOptions,
    LaunchOptions,
    NewRun,
    Run,
    TrainingMachineOptions,
)
from greffon.cli.parsing import given, parse


@dataclass(frozen=True)
class Args:
    """Graft a head on a pretrained body and train it on labelled texts."""

    run: Run
    """Pretrained run."""
    train: File
    """Labelled training texts (.csv, .tsv, .jsonl, .parquet)."""
    out: NewRun
    """Run directory to create."""
    force: Flag = False
    """Replace an existing run."""
    labels: LabelOptions = field(default_factory=LabelOptions)  # type: ignore[valid-type]
    finetuning: FinetuningOptions = field(default_factory=FinetuningOptions)  # type: ignore[valid-type]
    launch: LaunchOptions = field(default_factory=LaunchOptions)  # type: ignore[valid-type]
    machine: TrainingMachineOptions = field(default_factory=TrainingMachineOptions)  # type: ignore[valid-type]
    graft: GraftOptions = field(default_factory=GraftOptions)  # type: ignore[valid-type]
    shape: GraftShapeOptions = field(default_factory=GraftShapeOptions)  # type: ignore[valid-type]
    training: GraftTrainingOptions = field(default_factory=GraftTrainingOptions)  # type: ignore[valid-type]


def main(words: Sequence[str]) -> None:
    """Fine-tune, and print the best validation accuracy."""
    args = parse(Args, "finetune", words)

    from greffon.cli.outcome import outcome
    from greffon.training.finetune import EPOCHS, finetune

    settings = given(args, "run")
    run = finetune(args.run, **settings)
    say_out(outcome(run, settings.get("epochs", EPOCHS)))
