"""`greffon label TEXT… --body RUN --labels A,B --out DIR`."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, get_args

import tyro

from greffon.cli import say_out
from greffon.cli.options import (
    ONE_WORD,
    Column,
    Columns,
    Count,
    Flag,
    NewDirectory,
    OptionalFile,
    OptionalReal,
    OutRun,
    Word,
)
from greffon.cli.parsing import given, parse
from greffon.core.console import say
from greffon.core.errors import UserError, setting
from greffon.labelling.answers import LabelTask
from greffon.labelling.strategy import Strategy

Heap = Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TEXT…", help_behavior_hint="")]
Host = Annotated[str, tyro.conf.arg(metavar="ADDRESS")]
Sizes = Annotated[tuple[int, ...], tyro.conf.arg(metavar="N,N,…", help_behavior_hint=""), ONE_WORD]
Names = Annotated[str, tyro.conf.arg(metavar="A,B,…", help_behavior_hint="")]
Chosen = Annotated[Strategy | None, tyro.conf.arg(metavar="|".join(get_args(Strategy)), help_behavior_hint="")]
TaskName = Annotated[LabelTask | None, tyro.conf.arg(metavar="|".join(get_args(LabelTask)), help_behavior_hint="")]
Author = Annotated[str, tyro.conf.arg(metavar="NAME", help_behavior_hint="")]


@dataclass(frozen=True)
class Args:
    """Label texts on a local page, the most useful ones first; Ctrl-C stops, and the same --out goes on.

    With --simulate, answers come from a labelled file, and chosen labels are compared with random ones.
    """

    out: NewDirectory
    """Directory of the session, to begin or to go on with: every label, labels.csv, and aside.csv."""
    texts: Heap = ()
    """Text files, directories or globs to choose from."""
    body: OutRun = None
    """Pretrained run; its vectors choose the texts."""
    labels: Names = ""
    """Names of the labels, separated by commas."""
    task: TaskName = None
    """One class for each text, any number of labels, or one class for each pair of texts (default: guessed from the
    file)."""
    author: Author = ""
    """Your name, written beside each label."""
    strategy: Chosen = None
    """How texts are chosen: a mix (default: mixed), or one of its parts alone. A session that goes on may change it."""
    random_share: OptionalReal = None
    """Share of the texts that is drawn at random and trained on (default: 0.1)."""
    aside_share: OptionalReal = None
    """Share of the texts that is kept aside as a test set, drawn at random and never trained on (default: 0.1)."""
    aim: OptionalReal = None
    """Accuracy, or F1 of several labels, to reach, such as 0.9: the page says how many labels that may still take."""
    simulate: OptionalFile = None
    """Labelled file with the answers: run a study instead of the page."""
    test: OptionalFile = None
    """Labelled file that judges the study (default: a random fifth of the texts)."""
    train_sizes: Sizes = (20, 50, 100, 200)
    """Numbers of labels of the study (default: 20,50,100,200)."""
    seeds: Count = 10
    """Number of seeds of the study."""
    text_column: Column = "text"
    """Column with the text, in files that have columns."""
    pair_columns: Columns = ("text_a", "text_b")
    """Columns with the two texts of a pair."""
    label_column: Word = None
    """Column with the label, in the files of a study (default: as for finetune)."""
    seed: Count = 0
    """Random seed of the session: which texts are kept aside, and how the others are chosen."""
    host: Host = "127.0.0.1"
    """Address to listen on."""
    port: Count = 8000
    """Port to listen on; 0 for any free port."""
    force: Flag = False
    """Replace an existing study."""
    json: Flag = False
    """Print results.json of the study."""


_STUDY = ("simulate", "test", "train_sizes", "seeds", "label_column", "force", "json")
_SESSION = ("labels", "author", "aside_share", "aim", "seed", "host", "port")


def main(words: Sequence[str]) -> None:
    """Serve the page until Ctrl-C, or run the study."""
    args = parse(Args, "label", words)
    asked = given(args)
    for name in _SESSION if args.simulate else _STUDY:
        if name in asked:
            where = "the page" if args.simulate else "a study; give --simulate, too"
            raise UserError(f"{setting(name)} is an option of {where}")
    if args.simulate is not None:
        _study(args)
        return

    from greffon.labelling.label import label
    from greffon.web import serve_labelling

    with label(**given(args, "host", "port")) as session:
        say(session.settings.choosing.kept_aside)
        serve_labelling(session, host=args.host, port=args.port)


def _study(args: Args) -> None:
    from greffon.labelling.study import FIGURE, label_study

    if args.body is None:
        raise UserError(f"{setting('body')} is missing: give a pretrained run, whose vectors choose the texts")
    results = label_study(**given(args, "json"))
    if args.json:
        say_out(json.dumps(results.to_json(), ensure_ascii=False))
        return
    for name, points in results.arms.items():
        for point in points:
            low, high = point.score.interval
            classes = f"{point.classes.mean:.0f} {'classes' if results.metric == 'accuracy' else 'labels'} seen"
            say_out(
                f"{name:<12} {point.labels:>6,} labels  {point.score.mean:.1%} ({low:.1%} to {high:.1%}), {classes}"
            )
    say_out(results.verdict)
    say_out(f"figure: {args.out / FIGURE}")
