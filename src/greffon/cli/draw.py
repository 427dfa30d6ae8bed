"""`greffon draw WHAT … --out F`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from greffon.cli import say_out
from greffon.cli.options import (
    Column,
    Count,
    Flag,
    MachineOptions,
    MaskedText,
    Number,
    OptionalFile,
    OptionalRun,
    Run,
    Runs,
    SomeText,
    Word,
)
from greffon.cli.parsing import given, parse, use_machine
from greffon.core.choices import Pool
from greffon.core.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Kind = Annotated[
    Literal["self", "source", "target", "cross"] | None,
    tyro.conf.arg(metavar="self|source|target|cross", help_behavior_hint=""),
]
Out = Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")]


@dataclass(frozen=True)
class Mask:
    """Draw the attention mask: which token may attend to which."""

    length: Count = 10
    """Length of the sequence, in tokens."""
    objective: Literal["causal", "masked", "seq2seq"] = "causal"
    """Objective whose mask to draw."""
    padding: Count = 0
    """Number of padding tokens at the end of the sequence."""
    out: Out = None
    """File to write; its ending selects .png, .svg or .pdf (default: mask.png)."""


def mask(words: Sequence[str]) -> None:
    """Draw a mask."""
    args = parse(Mask, "draw mask", words)

    from greffon.plots.masks import mask_figure

    _write(args.out, "mask", lambda: mask_figure(args.length, args.objective, args.padding))


@dataclass(frozen=True)
class Positions:
    """Draw the position encoding as a heat map, and the similarity of positions by distance."""

    run: OptionalRun = None
    """Run directory (default: draw a preset)."""
    preset: Word = None
    """Preset: compact (default), or another one of `greffon pretrain --help`."""
    length: Number = None
    """Number of positions (default: the context)."""
    out: Out = None
    """File to write; its ending selects .png, .svg or .pdf (default: positions.png)."""


def positions(words: Sequence[str]) -> None:
    """Draw a position encoding."""
    args = parse(Positions, "draw positions", words)

    from greffon.plots.positions import positions_figure

    _write(args.out, "positions", lambda: positions_figure(args.run, preset=args.preset, length=args.length))


@dataclass(frozen=True)
class Attention:
    """Draw the attention weights of each head on a text, and print a table that describes each head."""

    run: Run
    """Run directory."""
    text: MaskedText
    """Text to read."""
    to: SomeText = None
    """Translation of the text (default: the one that the run produces; translator)."""
    kind: Kind = None
    """Attention to draw: self; of a translator source, target or cross (target to source, the default)."""
    layer: Number = None
    """Layer to draw, counted from 1 (default: all)."""
    head: Number = None
    """Head to draw, counted from 1 (default: all)."""
    out: Out = None
    """File to write; its ending selects .png, .svg or .pdf (default: attention.png)."""
    machine: MachineOptions = field(default_factory=MachineOptions)  # type: ignore[valid-type]


def attention(words: Sequence[str]) -> None:
    """Draw attention, and print a table of the heads."""
    args = parse(Attention, "draw attention", words)
    use_machine(args)

    from greffon.inference.attention import attention as look
    from greffon.plots.attention import habits_table, weights_figure

    found = look(args.run, args.text, args.to, kind=args.kind)
    name = args.run.resolve().name
    _write(args.out, "attention", lambda: weights_figure(found, layer=args.layer, head=args.head, name=name))
    say_out("\n".join(habits_table(found, args.layer, args.head)))


@dataclass(frozen=True)
class Complexity:
    """Measure how the cost of attention, recurrence and convolution grows with length, width and kernel size.

    This takes about 15 seconds.
    """

    quick: Flag = False
    """Measure small sizes only, in about a second; the exponents are then inexact."""
    out: Out = None
    """File to write; its ending selects .png, .svg or .pdf (default: complexity.png)."""


def complexity(words: Sequence[str]) -> None:
    """Measure and draw the cost of layers, and print the exponents."""
    args = parse(Complexity, "draw complexity", words)

    from greffon.plots.complexity import complexity_figure, exponents_table
    from greffon.plots.layer_costs import QUICK, layer_costs

    costs = layer_costs(QUICK if args.quick else None)
    _write(args.out, "complexity", lambda: complexity_figure(costs))
    say_out("\n".join(exponents_table(costs)))


@dataclass(frozen=True)
class Extrapolation:
    """Draw the loss by position, up to several times the length that the runs were trained on."""

    runs: Runs = ()
    """One or more causal or masked runs."""
    file: OptionalFile = None
    """File of texts, which should be long enough (default: the validation text of each run)."""
    times: Count = 4
    """Longest length, as a multiple of the trained one."""
    texts: Count = 64
    """Maximum number of texts."""
    text_column: Column = "text"
    """Column with the text, in files that have columns."""
    out: Out = None
    """File to write; its ending selects .png, .svg or .pdf (default: extrapolation.png)."""
    machine: MachineOptions = field(default_factory=MachineOptions)  # type: ignore[valid-type]


def extrapolation(words: Sequence[str]) -> None:
    """Draw the loss by position."""
    args = parse(Extrapolation, "draw extrapolation", words)
    use_machine(args)

    from greffon.plots.extrapolation import extrapolation_figure

    _write(args.out, "extrapolation", lambda: extrapolation_figure(args.runs, **given(args, "runs", "out", "machine")))


@dataclass(frozen=True)
class Curves:
    """Draw learning curves: training and validation loss."""

    runs: Runs = ()
    """Run directories, finished or in training."""
    by: Literal["step", "minutes"] = "step"
    """Horizontal axis."""
    out: Out = None
    """File to write; its ending selects .png, .svg or .pdf (default: curves.png)."""


def curves(words: Sequence[str]) -> None:
    """Draw learning curves."""
    args = parse(Curves, "draw curves", words)

    from greffon.plots.curves import curves_figure

    _write(args.out, "curves", lambda: curves_figure(args.runs, by=args.by))


@dataclass(frozen=True)
class Embeddings:
    """Draw the vectors of labelled texts, projected to two dimensions."""

    run: Run
    """Run directory; its body is used without the head."""
    file: OptionalFile = None
    """File of labelled texts (required): classes, several labels, scores or spans (not pairs)."""
    pooling: Pool = "mean"
    """Vector of a text: the mean of its hidden states, the last one, or that of [CLS]."""
    text_column: Column = "text"
    """Column with the text."""
    label_column: Word = None
    """Column with the label (default: the usual one of the task)."""
    out: Out = None
    """File to write; its ending selects .png, .svg or .pdf (default: embeddings.png)."""
    machine: MachineOptions = field(default_factory=MachineOptions)  # type: ignore[valid-type]


def embeddings(words: Sequence[str]) -> None:
    """Draw texts on a plane."""
    args = parse(Embeddings, "draw embeddings", words)
    use_machine(args)
    file = args.file
    if file is None:
        raise UserError("no texts; name a file of labelled ones with --file")

    from greffon.plots.embeddings import embeddings_figure

    def figure() -> "Figure":
        return embeddings_figure(
            args.run, file, pooling=args.pooling, text_column=args.text_column, label_column=args.label_column
        )

    _write(args.out, "embeddings", figure)


FIGURES: dict[str, tuple[Callable[[Sequence[str]], None], type, str]] = {
    "mask": (mask, Mask, "the attention mask of an objective"),
    "positions": (positions, Positions, "the position encoding of a run or a preset"),
    "attention": (attention, Attention, "the attention weights of each head on a text"),
    "complexity": (complexity, Complexity, "the measured cost of attention, recurrence and convolution"),
    "extrapolation": (extrapolation, Extrapolation, "the loss by position, beyond the trained length"),
    "curves": (curves, Curves, "training and validation loss"),
    "embeddings": (embeddings, Embeddings, "the vectors of labelled texts in two dimensions"),
}


def main(words: Sequence[str]) -> None:
    """Draw one figure, and say where it is."""
    if words and words[0] in ("-h", "--help"):
        lines = [f"  {name:<14} {what}" for name, (_, _, what) in FIGURES.items()]
        say_out("\n".join(["usage: greffon draw FIGURE … [--out FILE]", "", *lines, "", _MORE]))
        raise SystemExit(0)
    if not words:
        raise UserError(f"no figure named; choose from {', '.join(FIGURES)}")
    if words[0] not in FIGURES:
        raise UserError(f"unknown figure {words[0]!r}{did_you_mean(words[0], FIGURES)}")
    FIGURES[words[0]][0](words[1:])


_MORE = "`greffon draw FIGURE --help` lists the options; the ending of --out selects .png, .svg or .pdf."


def _write(out: Path | None, name: str, make: "Callable[[], Figure]") -> None:
    from greffon.plots.style import check_name, save

    path = Path(f"{name}.png") if out is None else out
    check_name(path)  # before the work, so that none is lost
    figure = make()
    try:
        say_out(f"figure: {save(figure, path)}")
    except OSError as problem:
        raise UserError(f"{path}: the figure cannot be written ({problem.strerror}); choose another --out") from None
