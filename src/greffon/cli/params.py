"""`greffon params RUN`, or `greffon params --preset P --vocab-size N`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from greffon.cli import say_out
from greffon.cli.parsing import Number, OptionalRun, ShapeSettings, Word, given, parse


@dataclass(frozen=True)
class Args:
    """Account for every parameter of a run or a preset: formula, numbers put in, count."""

    run: OptionalRun = None
    """A run directory; without one, the preset is accounted for."""
    preset: Word = None
    """compact (default), lab, bert-mini or gpt2-mini; small, base or marian-small, which translate."""
    vocab_size: Number = None
    """Tokens of the vocabulary (default: the preset's)."""
    classes: Number = None
    """Count a classifier with this many classes instead of a language model."""
    json: bool = False
    """Print JSON."""
    shape: ShapeSettings = field(default_factory=ShapeSettings)  # type: ignore[valid-type]


def main(words: Sequence[str]) -> None:
    """Print the ledger."""
    args = parse(Args, "params", words)

    from greffon.core.json_results import json_text
    from greffon.runs.params import params

    what = {"preset": args.preset, "vocab_size": args.vocab_size, "classes": args.classes}
    ledger = params(args.run, **what, **given(args.shape))  # type: ignore[arg-type]
    if args.json:
        say_out(json_text(ledger))
        return
    lines = [(c.name, c.formula, f"{c.count:,}") for c in ledger.components]
    lines.append(("total", "", f"{ledger.total:,}"))
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    for name, formula, count in lines:
        say_out(f"{name:<{widths[0]}}  {formula:<{widths[1]}}  {count:>{widths[2]}}")
