"""`greffon params RUN`, or `greffon params --preset P --vocab-size N`."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from greffon.cli import say_out
from greffon.cli.options import Flag, Number, OptionalRun, ShapeOptions, Word
from greffon.cli.parsing import given, parse


@dataclass(frozen=True)
class Args:
    """Count the parameters of a run or a preset, component by component, with the formula of each."""

    run: OptionalRun = None
    """Run directory (default: count the preset)."""
    preset: Word = None
    """Preset: auto (default, the shape that suits the objective), compact, lab; masked also bert-mini, bert,
    distilbert, modernbert; causal also gpt2-mini, gpt2, llama; for translation small (default), base, marian-small,
    marian, mbart, m2m100."""
    vocab_size: Number = None
    """Vocabulary size (default: the preset's)."""
    classes: Number = None
    """Count a classifier with N classes instead of a language model."""
    objective: Word = None
    """Objective: causal, masked, contrastive or seq2seq (default: the first one that the preset serves)."""
    json: Flag = False
    """Print JSON."""
    shape: ShapeOptions = field(default_factory=ShapeOptions)  # type: ignore[valid-type]


def main(words: Sequence[str]) -> None:
    """Print a table of the components."""
    args = parse(Args, "params", words)

    from greffon.core.json_results import json_text
    from greffon.runs.params import params

    ledger = params(args.run, **given(args, "run", "json"))
    if args.json:
        say_out(json_text(ledger))
        return
    lines = [(c.name, c.formula, f"{c.count:,}") for c in ledger.components]
    lines.append(("total", "", f"{ledger.total:,}"))
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    for name, formula, count in lines:
        say_out(f"{name:<{widths[0]}}  {formula:<{widths[1]}}  {count:>{widths[2]}}")
