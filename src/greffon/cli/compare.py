"""`greffon compare RUN… --train F --out RUN`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from greffon.cli import say_out
from greffon.cli.options import (
    ComparisonGraftOptions,
    ComparisonTrainingOptions,
    Count,
    File,
    FinetuningOptions,
    Flag,
    GraftShapeOptions,
    LabelOptions,
    NewRun,
    Number,
    Runs,
    TrainingMachineOptions,
)
from greffon.cli.parsing import given, parse
from greffon.core.choices import ExecutorName
from greffon.core.errors import UserError

Sizes = Annotated[str, tyro.conf.arg(metavar="N,N,…", help_behavior_hint="")]


@dataclass(frozen=True)
class Args:
    """Compare pretrained bodies with the same bodies trained from scratch and with TF-IDF, over several seeds."""

    runs: Runs
    """One or more pretrained runs."""
    train: File
    """Labelled training texts (.csv, .tsv, .jsonl, .parquet)."""
    out: NewRun
    """Directory to create, with all trained runs, results.json, report.html and accuracy.png."""
    seeds: Count = 3
    """Number of random seeds; each model is trained once per seed."""
    train_sizes: Sizes = ""
    """Numbers of labels for the label curve, for example 20,100,1000: every arm with so many labels, over --seeds
    draws; all choices are made with those labels alone."""
    tune: Flag = False
    """Search for the settings of every arm on validation first, with the same number of trials for each."""
    jobs: Number = None
    """Number of trainings that run at the same time (default: one per CPU core)."""
    executor: ExecutorName = "local"
    """Where the trainings run: in processes of this machine, on a Dask cluster, or as Slurm jobs."""
    force: Flag = False
    """Replace an existing comparison."""
    json: Flag = False
    """Print results.json."""
    labels: LabelOptions = field(default_factory=LabelOptions)  # type: ignore[valid-type]
    finetuning: FinetuningOptions = field(default_factory=FinetuningOptions)  # type: ignore[valid-type]
    graft: ComparisonGraftOptions = field(default_factory=ComparisonGraftOptions)  # type: ignore[valid-type]
    shape: GraftShapeOptions = field(default_factory=GraftShapeOptions)  # type: ignore[valid-type]
    machine: TrainingMachineOptions = field(default_factory=TrainingMachineOptions)  # type: ignore[valid-type]
    training: ComparisonTrainingOptions = field(default_factory=ComparisonTrainingOptions)  # type: ignore[valid-type]


def main(words: Sequence[str]) -> None:
    """Compare, and print the verdict and where the report is."""
    args = parse(Args, "compare", words)
    try:
        labels = tuple(int(number) for number in args.train_sizes.split(",") if number.strip())
    except ValueError:
        raise UserError(
            f"--train-sizes is {args.train_sizes!r}; give numbers separated by commas, such as 20,100"
        ) from None

    from greffon.comparison.compare import Comparison, compare

    made = compare(args.runs, train_sizes=labels, **given(args, "runs", "train_sizes", "json"))
    if args.json:
        say_out(json.dumps(made.results.to_json(), ensure_ascii=False))
        return
    say_out(made.results.verdict)
    say_out(f"report: {made.report}")
    say_out(f"figure: {made.figure}")
    if isinstance(made, Comparison) and made.results.train_sizes:
        say_out(f"train sizes: {made.train_sizes_figure}")
