"""`greffon compare RUN… --train F --out RUN`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from greffon.cli import say_out
from greffon.cli.options import (
    ComparingOptions,
    ComparisonGraftOptions,
    ComparisonTrainingOptions,
    File,
    FinetuningOptions,
    Flag,
    GraftShapeOptions,
    LabelOptions,
    NewRun,
    Runs,
    TrainingMachineOptions,
)
from greffon.cli.parsing import given, parse


@dataclass(frozen=True)
class Args:
    """Compare pretrained bodies with the same bodies trained from scratch and with TF-IDF, over several seeds."""

    runs: Runs
    """One or more pretrained runs."""
    train: File
    """Labelled training texts (.csv, .tsv, .jsonl, .parquet)."""
    out: NewRun
    """Directory to create, with all trained runs, results.json, report.html and accuracy.png."""
    force: Flag = False
    """Replace an existing comparison."""
    json: Flag = False
    """Print results.json."""
    comparing: ComparingOptions = field(default_factory=ComparingOptions)  # type: ignore[valid-type]
    labels: LabelOptions = field(default_factory=LabelOptions)  # type: ignore[valid-type]
    finetuning: FinetuningOptions = field(default_factory=FinetuningOptions)  # type: ignore[valid-type]
    graft: ComparisonGraftOptions = field(default_factory=ComparisonGraftOptions)  # type: ignore[valid-type]
    shape: GraftShapeOptions = field(default_factory=GraftShapeOptions)  # type: ignore[valid-type]
    machine: TrainingMachineOptions = field(default_factory=TrainingMachineOptions)  # type: ignore[valid-type]
    training: ComparisonTrainingOptions = field(default_factory=ComparisonTrainingOptions)  # type: ignore[valid-type]


def main(words: Sequence[str]) -> None:
    """Compare, and print the verdict and where the report is."""
    args = parse(Args, "compare", words)

    from greffon.comparison.compare import Comparison, compare

    made = compare(args.runs, **given(args, "runs", "json"))
    if args.json:
        say_out(json.dumps(made.results.to_json(), ensure_ascii=False))
        return
    say_out(made.results.verdict)
    say_out(f"report: {made.report}")
    say_out(f"figure: {made.figure}")
    if isinstance(made, Comparison) and made.results.train_sizes:
        say_out(f"train sizes: {made.train_sizes_figure}")
