"""`greffon demo [classification|translation]`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from greffon.cli import say_out
from greffon.cli.parsing import OutRun, parse


@dataclass(frozen=True)
class Args:
    """Run the main job on real text that arrives with the install (classification: about 8 minutes on two cores).

    classification: movie reviews; tokenizer, pretraining, comparison, report. translation: footnotes of
    statistical tables, English to French; tokenizer, a French body, a translator, its score.
    """

    what: Positional[Literal["classification", "translation"]] = "classification"
    """Which demo."""
    out: OutRun = None
    """Where to work (default: demo-run or demo-translation); repeated, the demo goes on where it was."""


def main(words: Sequence[str]) -> None:
    """Run a demo, and end on what it found and where."""
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
    say_out(f"figure: {made.figure}")


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
