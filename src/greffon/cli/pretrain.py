"""`greffon pretrain TEXT… --out RUN`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from greffon.cli import say_out
from greffon.cli.options import (
    BudgetOptions,
    ContrastOptions,
    CorpusOptions,
    Flag,
    LaunchOptions,
    MaskingOptions,
    OutRun,
    PairOptions,
    ShapeOptions,
    StartOptions,
    Texts,
    TrainingMachineOptions,
    TrainingOptions,
)
from greffon.cli.parsing import given, parse


@dataclass(frozen=True)
class Args:
    """Pretrain a Transformer body on text files, or train a translator on sentence pairs."""

    texts: Texts = ()
    """Text files, directories or globs (.txt, .csv, .tsv, .jsonl, .parquet; also .gz and .xz)."""
    out: OutRun = None
    """Run directory to create. A dry run needs none."""
    force: Flag = False
    """Replace an existing run."""
    dry_run: Flag = False
    """Estimate time and memory on this machine, and write nothing."""
    start: StartOptions = field(default_factory=StartOptions)  # type: ignore[valid-type]
    corpus: CorpusOptions = field(default_factory=CorpusOptions)  # type: ignore[valid-type]
    pairs: PairOptions = field(default_factory=PairOptions)  # type: ignore[valid-type]
    budget: BudgetOptions = field(default_factory=BudgetOptions)  # type: ignore[valid-type]
    launch: LaunchOptions = field(default_factory=LaunchOptions)  # type: ignore[valid-type]
    machine: TrainingMachineOptions = field(default_factory=TrainingMachineOptions)  # type: ignore[valid-type]
    masking: MaskingOptions = field(default_factory=MaskingOptions)  # type: ignore[valid-type]
    contrast: ContrastOptions = field(default_factory=ContrastOptions)  # type: ignore[valid-type]
    shape: ShapeOptions = field(default_factory=ShapeOptions)  # type: ignore[valid-type]
    training: TrainingOptions = field(default_factory=TrainingOptions)  # type: ignore[valid-type]


def main(words: Sequence[str]) -> None:
    """Pretrain, or estimate the cost."""
    args = parse(Args, "pretrain", words)

    from greffon.cli.outcome import outcome
    from greffon.core.errors import UserError, setting
    from greffon.training.estimate import cost_line
    from greffon.training.pretrain import estimate, pretrain

    settings = given(args, "texts", "out", "dry_run", "force", "launch")
    if args.dry_run:
        if idle := given(args.launch) | {name: True for name in ("force",) if args.force}:
            unused = setting(next(iter(idle)))
            raise UserError(f"--dry-run measures one process and writes nothing; leave out {unused}")
        say_out(cost_line(estimate(args.texts, **settings)))
        return
    if args.out is None:
        raise UserError("no place for the run; name a directory with --out")
    run = pretrain(args.texts, out=args.out, force=args.force, **given(args.launch), **settings)
    say_out(outcome(run))
