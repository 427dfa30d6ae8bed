"""`greffon compare RUN… --train F --out RUN`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from greffon.cli import say_out
from greffon.cli.parsing import ComparisonSettings, Number, OptionalFile, Runs, given, parse
from greffon.core.errors import UserError


@dataclass(frozen=True)
class Args:
    """Train pretrained and scratch under the same budget over seeds, beside TF-IDF, and say who wins."""

    runs: Runs
    """Pretrained runs."""
    train: Path
    """Labelled texts (.csv, .tsv, .jsonl, .parquet) with the columns `text` and `label`."""
    out: Path
    """The directory for arms, results.json, report.html and accuracy.png."""
    valid: OptionalFile = None
    """Texts that choose the epoch; by default a stratified fifth of the training texts."""
    test: OptionalFile = None
    """Texts that judge; by default a stratified fifth of the training texts."""
    seeds: int = 3
    epochs: int = 15
    train_sizes: str = ""
    """Also draw accuracy against the number of labels, for example 100,400,1600."""
    jobs: Number = None
    """Trainings side by side (default: one a core)."""
    adapt: bool = False
    """First go on pretraining on the task's own text."""
    gradual_unfreezing: bool = False
    """Let one more layer learn with each epoch, from the top."""
    text_column: str = "text"
    label_column: str = "label"
    force: bool = False
    """Replace another comparison that is there already."""
    json: bool = False
    """Print results.json."""
    settings: ComparisonSettings = field(default_factory=ComparisonSettings)  # type: ignore[valid-type]


def main(words: Sequence[str]) -> None:
    """Compare, and print the verdict and where the report is."""
    args = parse(Args, "compare", words)
    try:
        labels = tuple(int(number) for number in args.train_sizes.split(",") if number.strip())
    except ValueError:
        raise UserError(
            f"--train-sizes is {args.train_sizes!r}; give numbers with commas between, such as 100,400"
        ) from None

    from greffon.comparison.compare import compare

    left_out = ("runs", "settings", "train_sizes", "json")
    what = {name: value for name, value in vars(args).items() if name not in left_out}
    made = compare(args.runs, train_sizes=labels, **what, **given(args.settings))
    if args.json:
        say_out(json.dumps(made.results.to_json(), ensure_ascii=False))
        return
    say_out(made.results.verdict)
    say_out(f"report: {made.report}")
    say_out(f"figure: {made.figure}")
    if made.results.train_sizes:
        say_out(f"train sizes: {made.train_sizes_figure}")
