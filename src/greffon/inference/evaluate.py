"""Score a run on files: `greffon.evaluate`."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from greffon.core.answering import Decoding, EvaluationFiles
from greffon.core.conflicts import Idle, Values, beside, refuses
from greffon.core.errors import UserError, setting
from greffon.core.json_results import JsonResult
from greffon.core.recipe import Data
from greffon.core.rng import generator
from greffon.core.settings import part, takes
from greffon.data.batching import Stream, Windows
from greffon.data.corpora import Labelled, column_pairs, line_pairs, reason_without_columns
from greffon.data.lint import overlap
from greffon.data.spans import SHORTEST
from greffon.data.splits import load_splits
from greffon.data.tasks import read_examples
from greffon.data.token_store import open_store
from greffon.inference.bleu import TranslationScores, sacrebleu, translation_scores
from greffon.inference.classify import check_task, outputs, own_columns, unknown_labels
from greffon.inference.loading import load
from greffon.inference.measures import measure_of
from greffon.inference.metrics import wilson_interval
from greffon.inference.scoring import batch_losses, contrasted_views, held_out_contrast, loss_interval, mean_losses
from greffon.inference.tasks.base import TaskScores
from greffon.inference.tasks.classes import ClassScores
from greffon.inference.tasks.multilabel import LabelScores
from greffon.inference.tasks.regression import RegressionScores
from greffon.inference.tasks.tokens import SpanScores
from greffon.inference.translate import decode
from greffon.objectives.contrastive import Contrastive
from greffon.objectives.corpus import task_of
from greffon.runs.run import Run

BATCH_ROWS = 16
MIN_BATCHES = 20
"""A short text is scored in smaller batches: the interval resamples batches, and few of them make a poor one."""


@dataclass(frozen=True)
class LanguageScores(JsonResult):
    """Scores of a language model on plain text; a masked one predicts tokens that were masked at random."""

    loss: float
    """Cross-entropy in nats per predicted token."""
    interval: tuple[float, float] | None
    """95 % bootstrap interval of the loss over batches; None if the text fits into one batch."""
    bits_per_byte: float
    """Cross-entropy in bits per byte, comparable across vocabularies."""
    n: int
    """Number of predicted tokens."""
    pair_loss: float | None = None
    """Cross-entropy of next-sentence prediction; None if the run was trained without."""
    pair_accuracy: float | None = None
    """Accuracy of next-sentence prediction; None if the run was trained without."""

    def to_json(self) -> dict[str, Any]:
        """Return the scores by name, without those of tasks that the run was not trained for."""
        optional = ("pair_loss", "pair_accuracy")
        return {name: value for name, value in super().to_json().items() if name not in optional or value is not None}


@dataclass(frozen=True)
class ContrastScores(JsonResult):
    """Scores of a contrastive run: how well the two views of a document are matched."""

    accuracy: float
    """Fraction of views whose partner is the nearest of all others in its batch; copies of one text do not count."""
    interval: tuple[float, float]
    """95 % interval of the accuracy."""
    loss: float
    """Mean loss of a view, in nats; it depends on the number of views in a batch."""
    n: int
    """Number of views that are told from others: two for each text that is long enough for two different spans."""


Scores = (
    TaskScores
    | ClassScores
    | LabelScores
    | RegressionScores
    | SpanScores
    | LanguageScores
    | ContrastScores
    | TranslationScores
)


def _only_for(kind: str, *objectives: str) -> Callable[[Values], str | None]:
    """Make the reason of settings that have no effect on runs of other objectives."""

    def reason(values: Values) -> str | None:
        run = Run.open(values["run"])
        if run.recipe.objective in objectives:
            return None
        return f"on {run.path}, a {run.recipe.objective} run: it is for {kind}; leave it out"

    return reason


def _pairs_of_lines(values: Values) -> str | None:
    if values["source"] is None:
        return None
    return f"on the lines of {setting('source')} and {setting('target')}; leave it out"


def _file_without_columns(values: Values) -> str | None:
    return None if values["file"] is None else reason_without_columns([values["file"]])


EVALUATION_RULES = (
    Idle(("source", "target", "beam_size", "length_penalty", "backend"), _only_for("translators", "seq2seq")),
    Idle(("source_column", "target_column"), _only_for("translators", "seq2seq")),
    Idle(("source_lang", "target_lang"), _only_for("translators", "seq2seq")),
    Idle(("label_column", "task", "pair_columns", "label_separator"), _only_for("classifiers", "classify")),
    Idle(("text_column",), _only_for("classifiers and language models", "classify", "causal", "masked", "contrastive")),
    Idle(("int8",), _only_for("classifiers and translators", "classify", "seq2seq")),
    Idle(("source_column", "target_column"), _pairs_of_lines),
    Idle(("text_column",), _file_without_columns),
    Idle(("length_penalty",), beside("beam_size", 1, "greedy search compares no lengths")),
)
"""Rules of `evaluate`."""


@refuses(*EVALUATION_RULES)
@takes(EvaluationFiles, Decoding)
def evaluate(
    run: str | Path | Run,
    file: str | Path | None = None,
    **settings: Any,
) -> Scores:
    """Score a run on a file: `evaluate("runs/reviews", "test.csv").to_json()`.

    The result is a `ClassScores` for a classifier (a `LabelScores`, `RegressionScores` or `SpanScores` for a run that
    gives several labels, scores or spans), a `LanguageScores` for a causal or masked language
    model, a `ContrastScores` for a contrastive body and a `TranslationScores` for a translator. A translator
    takes two files aligned line by line, `source` and `target`, or a table with both columns. A masked language
    model predicts tokens that are masked at random, the same ones each time. A `task` that is named must be the run's;
    columns of pairs and what stands between labels are by default those of its training. `settings` are the fields of
    `EvaluationFiles` and `Decoding` in `greffon.core`, under the names of the command's options.
    """
    data, settings = part(EvaluationFiles(), settings)
    decoding = Decoding(**settings)
    run = Run.open(run)
    objective = run.recipe.objective
    if objective == "seq2seq":
        sacrebleu()  # before the work, so that none is lost
        source, target = data.source, data.target
        if (source is None) != (target is None) or (file is None) == (source is None):
            raise UserError(
                f"give the pairs once: {setting('source')} and {setting('target')}, "
                "or a file with the columns source and target"
            )
        if source is not None and target is not None:
            return _evaluate_pairs(run, line_pairs(Path(source), Path(target)), f"{source} and {target}", decoding)
        assert file is not None
        pairs = column_pairs(Path(file), data.source_column, data.target_column)
        return _evaluate_pairs(run, pairs, str(file), decoding)
    if file is None:
        raise UserError("nothing to score the run on; give a FILE")
    if objective == "classify":
        check_task(run, data.task)
        named: dict[str, object] = {"text_column": data.text_column, "label_column": data.label_column}
        named |= {"pair_columns": tuple(data.pair_columns) or None, "label_separator": data.label_separator}
        return _evaluate_labels(run, file, own_columns(run, named), decoding.int8)
    if objective == "body":
        raise UserError(f"{run.path} has no head that could be scored; fine-tune it with `greffon finetune {run.path}`")
    if objective == "contrastive":
        return _evaluate_contrast(run, file, data.text_column)
    return _evaluate_text(run, file, data.text_column)


def _warn_of_overlap(run: Run, examples: Sequence[Labelled], file: str | Path) -> None:
    """Warn of texts that the run was trained on, if its training files can still be read."""
    try:
        learnt = load_splits(run.recipe.data).train
    except UserError:
        return
    shared = overlap([example.whole for example in learnt], [example.whole for example in examples])
    if shared:
        warnings.warn(
            f"{len(shared):,} of the {len(examples):,} texts in {file} are among those that {run.path} was trained on: "
            "its accuracy there is flattered",
            stacklevel=5,
        )


def _evaluate_labels(run: Run, file: str | Path, data: Data, int8: bool) -> TaskScores:
    examples = read_examples(Path(file), data)
    recipe = run.recipe
    if findings := unknown_labels(recipe, examples, file):
        raise UserError(findings)
    _warn_of_overlap(run, examples, file)
    return measure_of(recipe).scores(recipe, run.scores, examples, outputs(run, examples, int8=int8))


def _evaluate_text(run: Run, file: str | Path, text_column: str) -> LanguageScores:
    recipe, tokenizer = run.recipe, run.tokenizer
    task = task_of(recipe, tokenizer)
    windows = Windows(Stream.whole(open_store([file], tokenizer, text_column)), recipe.shape.context, seed=0)
    cut = task.cut(windows, windows)
    rows = min(BATCH_ROWS, max(1, cut.count // MIN_BATCHES))
    numbers = range(0, cut.count, rows)
    batches = (task.batch(cut.natural(n, rows), generator(0, "held out", n)) for n in numbers)
    losses = batch_losses(load(run), task.objective, batches)
    return LanguageScores(
        **mean_losses(losses), interval=loss_interval(losses), n=sum(batch.targets for batch in losses)
    )


def _evaluate_contrast(run: Run, file: str | Path, text_column: str) -> ContrastScores:
    task = task_of(run.recipe, run.tokenizer)
    assert isinstance(task.objective, Contrastive)
    store = open_store([file], run.tokenizer, text_column)
    windows = Windows(Stream.whole(store), run.recipe.shape.context, seed=0)
    cut, rows = task.cut(windows, windows), run.recipe.training.batch_size
    numbers = range(0, cut.count, rows)
    batches = [task.batch(cut.natural(n, rows), generator(0, "held out", n)) for n in numbers]
    n = contrasted_views(batches)
    if not n:
        raise UserError(
            f"{file}: every text has fewer than {2 * SHORTEST} tokens, so none gives two different spans to match; "
            "evaluate on longer texts"
        )
    found = held_out_contrast(load(run), task.objective, batches)
    interval = wilson_interval(round(found["accuracy"] * n), n)
    return ContrastScores(found["accuracy"], interval, found["loss"], n)


def _evaluate_pairs(run: Run, pairs: Iterable[tuple[str, str]], where: str, decoding: Decoding) -> TranslationScores:
    sources, references = [], []
    for number, (source, reference) in enumerate(pairs, start=1):
        if not (source.strip() and reference.strip()):
            raise UserError(f"{where}: one side of pair {number} is empty; fill it, or remove the pair on both sides")
        sources.append(source)
        references.append(reference)
    return translation_scores([best[0].translation for best in decode(run, sources, 1, decoding)], references)
