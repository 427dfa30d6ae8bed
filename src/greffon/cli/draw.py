"""`greffon draw WHAT … --out F`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from greffon.cli import say_out
from greffon.cli.parsing import MaskedText, Number, OptionalFile, OptionalRun, Run, Runs, SomeText, Word, parse
from greffon.core.config import Pool
from greffon.core.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Out = Annotated[Path | None, tyro.conf.arg(metavar="F", help_behavior_hint="")]


@dataclass(frozen=True)
class Mask:
    """Draw who may look at whom."""

    length: int = 10
    """Tokens of the row."""
    objective: Literal["causal", "masked", "seq2seq"] = "causal"
    """Whose mask."""
    padding: int = 0
    """How many of the tokens, the last ones, only fill the row."""
    out: Out = None
    """Where to write: a name that ends in .png, .svg or .pdf (default: mask.png)."""


def mask(words: Sequence[str]) -> None:
    """Draw a mask."""
    args = parse(Mask, "draw mask", words)

    from greffon.plots.masks import mask_figure

    _write(args.out, "mask", lambda: mask_figure(args.length, args.objective, args.padding))


@dataclass(frozen=True)
class Positions:
    """Draw the position encoding as a heat map, and how alike near positions are."""

    run: OptionalRun = None
    """A run directory; without one, a preset is drawn."""
    preset: Word = None
    """compact (default), lab, small or base."""
    length: Number = None
    """How many positions (default: the context)."""
    out: Out = None
    """Where to write: a name that ends in .png, .svg or .pdf (default: positions.png)."""


def positions(words: Sequence[str]) -> None:
    """Draw a position encoding."""
    args = parse(Positions, "draw positions", words)

    from greffon.plots.positions import positions_figure

    _write(args.out, "positions", lambda: positions_figure(args.run, preset=args.preset, length=args.length))


@dataclass(frozen=True)
class Attention:
    """Draw where each head looks on a text, and tell what each head does."""

    run: Run
    """The run directory."""
    text: MaskedText
    """The text."""
    to: SomeText = None
    """Its translation (default: the translator's own)."""
    kind: Annotated[Literal["self", "source", "target", "cross"] | None, tyro.conf.arg(help_behavior_hint="")] = None
    """Of a translator: source or target, each on itself, or cross, the target on the source (default)."""
    layer: Number = None
    """One layer, counted from 1 (default: all)."""
    head: Number = None
    """One head, counted from 1 (default: all)."""
    out: Out = None
    """Where to write: a name that ends in .png, .svg or .pdf (default: attention.png)."""


def attention(words: Sequence[str]) -> None:
    """Draw attention, and print a table of the heads."""
    args = parse(Attention, "draw attention", words)

    from greffon.inference.attention import attention as look
    from greffon.plots.attention import habits_table, weights_figure

    found = look(args.run, args.text, args.to, kind=args.kind)
    name = args.run.resolve().name
    _write(args.out, "attention", lambda: weights_figure(found, layer=args.layer, head=args.head, name=name))
    say_out("\n".join(habits_table(found, args.layer, args.head)))


@dataclass(frozen=True)
class Complexity:
    """Measure what attention, recurrence and convolution cost against length, width and kernel (about 15 seconds)."""

    quick: bool = False
    """Measure small sizes only, in a second: too small for good exponents."""
    out: Out = None
    """Where to write: a name that ends in .png, .svg or .pdf (default: complexity.png)."""


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
    """Draw the loss by position, beyond the length that runs were trained on."""

    runs: Runs = ()
    """Causal or masked runs."""
    file: OptionalFile = None
    """Texts that are long enough (default: what each run held out)."""
    times: int = 4
    """How far, in trained lengths."""
    texts: int = 64
    """How many texts at most."""
    text_column: str = "text"
    """The column with the text, in files that have columns."""
    out: Out = None
    """Where to write: a name that ends in .png, .svg or .pdf (default: extrapolation.png)."""


def extrapolation(words: Sequence[str]) -> None:
    """Draw the loss by position."""
    args = parse(Extrapolation, "draw extrapolation", words)

    from greffon.plots.extrapolation import extrapolation_figure

    column = args.text_column
    _write(
        args.out,
        "extrapolation",
        lambda: extrapolation_figure(args.runs, args.file, times=args.times, texts=args.texts, text_column=column),
    )


@dataclass(frozen=True)
class Curves:
    """Draw how training went: the loss of the steps and of held-out data."""

    runs: Runs = ()
    """Run directories, finished or not."""
    by: Literal["step", "minutes"] = "step"
    """What training is measured in."""
    out: Out = None
    """Where to write: a name that ends in .png, .svg or .pdf (default: curves.png)."""


def curves(words: Sequence[str]) -> None:
    """Draw learning curves."""
    args = parse(Curves, "draw curves", words)

    from greffon.plots.curves import curves_figure

    _write(args.out, "curves", lambda: curves_figure(args.runs, by=args.by))


@dataclass(frozen=True)
class Embeddings:
    """Draw labelled texts on a plane, by the vectors that a run makes of them."""

    run: Run
    """The run directory: its body is used, without its head."""
    file: OptionalFile = None
    """Labelled texts: .csv, .tsv or .jsonl."""
    pooling: Pool = "mean"
    """What stands for a text: the mean of its tokens, the last one, or [CLS]."""
    text_column: str = "text"
    """The column with the text."""
    label_column: str = "label"
    """The column with the label."""
    out: Out = None
    """Where to write: a name that ends in .png, .svg or .pdf (default: embeddings.png)."""


def embeddings(words: Sequence[str]) -> None:
    """Draw texts on a plane."""
    args = parse(Embeddings, "draw embeddings", words)
    file = args.file
    if file is None:
        raise UserError("no texts; name a file of labelled ones with --file")

    from greffon.plots.embeddings import embeddings_figure

    columns = {"text_column": args.text_column, "label_column": args.label_column}
    _write(args.out, "embeddings", lambda: embeddings_figure(args.run, file, pooling=args.pooling, **columns))


FIGURES: dict[str, tuple[Callable[[Sequence[str]], None], str]] = {
    "mask": (mask, "who may look at whom"),
    "positions": (positions, "the position encoding of a run or a preset"),
    "attention": (attention, "where each head looks, on a text of yours"),
    "complexity": (complexity, "what attention, recurrence and convolution cost, measured here"),
    "extrapolation": (extrapolation, "the loss beyond the trained length"),
    "curves": (curves, "how training went"),
    "embeddings": (embeddings, "labelled texts on a plane"),
}


def main(words: Sequence[str]) -> None:
    """Draw one figure, and say where it is."""
    if words and words[0] in ("-h", "--help"):
        lines = [f"  {name:<14} {what}" for name, (_, what) in FIGURES.items()]
        say_out("\n".join(["usage: greffon draw FIGURE … [--out F]", "", *lines, "", _MORE]))
        raise SystemExit(0)
    if not words:
        raise UserError(f"no figure named; choose from {', '.join(FIGURES)}")
    if words[0] not in FIGURES:
        raise UserError(f"unknown figure {words[0]!r}{did_you_mean(words[0], FIGURES)}")
    FIGURES[words[0]][0](words[1:])


_MORE = "`greffon draw FIGURE --help` tells the rest; the ending of --out chooses .png, .svg or .pdf."


def _write(out: Path | None, name: str, make: "Callable[[], Figure]") -> None:
    from greffon.plots.style import check_name, save

    path = Path(f"{name}.png") if out is None else out
    check_name(path)  # before the work, so that none is lost
    figure = make()
    try:
        say_out(f"figure: {save(figure, path)}")
    except OSError as problem:
        raise UserError(f"{path}: the figure cannot be written ({problem.strerror}); choose another --out") from None
