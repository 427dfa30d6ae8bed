"""`greffon finetune RUN --train F --valid F --out RUN`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from greffon.cli import say_out
from greffon.cli.parsing import GraftSettings, OptionalFile, Run, given, parse


@dataclass(frozen=True)
class Args:
    """Graft a class head on a pretrained body and train it on labelled texts."""

    run: Run
    """The pretrained run."""
    train: Path
    """Labelled texts (.csv, .tsv, .jsonl, .parquet) with the columns `text` and `label`."""
    out: Path
    """The run directory to make."""
    valid: OptionalFile = None
    """Texts that choose the best epoch; by default a stratified fifth of the training texts."""
    test: OptionalFile = None
    """Texts that are scored beside, and choose nothing."""
    epochs: int = 15
    seed: int = 0
    """What all random numbers are derived from."""
    freeze: bool = False
    """Train the head alone."""
    adapt: bool = False
    """First go on pretraining on the task's own text."""
    gradual_unfreezing: bool = False
    """Let one more layer learn with each epoch, from the top."""
    text_column: str = "text"
    label_column: str = "label"
    processes: int = 1
    """Processes on this machine that share the work; the batches and losses are those of one."""
    fsdp: bool = False
    """Keep a share of the weights in each process instead of a copy, for bodies that do not fit."""
    force: bool = False
    """Replace a run that is there already."""
    settings: GraftSettings = field(default_factory=GraftSettings)  # type: ignore[valid-type]


def main(words: Sequence[str]) -> None:
    """Fine-tune, and tell the best validation accuracy."""
    args = parse(Args, "finetune", words)

    from greffon.cli.outcome import outcome
    from greffon.training.finetune import finetune

    what = {name: value for name, value in vars(args).items() if name not in ("run", "settings")}
    run = finetune(args.run, **what, **given(args.settings))
    say_out(outcome(run, args.epochs))
