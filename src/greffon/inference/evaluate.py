"""Score a run on files, whatever it is: `greffon.evaluate`."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from greffon.core.config import Backend, Recipe
from greffon.core.errors import UserError, did_you_mean
from greffon.core.rng import generator
from greffon.data.batching import Stream, Windows
from greffon.data.corpora import Labelled, column_pairs, labelled, line_pairs
from greffon.data.lint import overlap
from greffon.data.splits import load_splits
from greffon.data.token_store import open_store
from greffon.data.tokenizer import Tokenizer
from greffon.inference.bleu import sacrebleu, translation_scores
from greffon.inference.classify import probabilities
from greffon.inference.loading import load
from greffon.inference.metrics import confusion, macro_f1, wilson_interval
from greffon.inference.scoring import held_out_loss
from greffon.inference.translate import translate, translator
from greffon.nn.model import Model
from greffon.objectives.corpus import task_of
from greffon.runs.run import Run

SCORING_ROWS = 16


def evaluate(
    run: str | Path | Run,
    file: str | Path | None = None,
    *,
    source: str | Path | None = None,
    target: str | Path | None = None,
    text_column: str = "text",
    label_column: str = "label",
    source_column: str = "source",
    target_column: str = "target",
    beam_size: int = 4,
    length_penalty: float = 1.0,
    backend: Backend = "torch",
    int8: bool = False,
) -> dict[str, Any]:
    """Score a run: accuracy for a classifier, bits per byte for a language model, BLEU for a translator.

    A translator takes two files aligned line by line, `source` and `target`, or a table with both.
    """
    run = Run.open(run)
    if run.recipe.objective == "seq2seq":
        return evaluate_pairs(
            run,
            file,
            source=source,
            target=target,
            source_column=source_column,
            target_column=target_column,
            beam_size=beam_size,
            length_penalty=length_penalty,
            backend=backend,
            int8=int8,
        )
    if backend != "torch":
        raise UserError(f"{run.path} is a {run.recipe.objective} run; --backend is for translators")
    if int8 and run.recipe.objective != "classify":
        raise UserError(f"{run.path} is a {run.recipe.objective} run; --int8 is for classifiers and translators")
    if source is not None or target is not None:
        raise UserError(f"{run.path} is a {run.recipe.objective} run, no translator; give it one FILE")
    if file is None:
        raise UserError("nothing to score the run on; give a FILE")
    return _evaluate_file(run, file, text_column=text_column, label_column=label_column, int8=int8)


def _evaluate_file(
    run: str | Path | Run,
    file: str | Path,
    *,
    text_column: str = "text",
    label_column: str = "label",
    int8: bool = False,
) -> dict[str, Any]:
    """Score a run on a file: accuracy for a classifier, loss and bits per byte for a language model.

    A masked one is asked for tokens hidden at random, always the same ones.
    """
    run = Run.open(run)
    if run.recipe.objective == "classify":
        return _evaluate_classes(run, labelled(Path(file), text_column, label_column), file, int8)
    if run.recipe.objective == "body":
        raise UserError(f"{run.path} has no head that could be scored; fine-tune it with `greffon finetune {run.path}`")
    return language_scores(load(run), run.recipe, run.tokenizer, file, text_column)


def _warn_of_known(run: Run, examples: Sequence[Labelled], file: str | Path) -> None:
    """Tell of texts that the run has learnt from, as far as its files can still be read."""
    try:
        learnt = load_splits(run.recipe.data).train
    except UserError:
        return
    shared = overlap([example.text for example in learnt], [example.text for example in examples])
    if shared:
        warnings.warn(
            f"{len(shared):,} of the {len(examples):,} texts in {file} are among those that {run.path} was trained on: "
            "its accuracy there is flattered",
            stacklevel=4,
        )


def _evaluate_classes(run: Run, examples: Sequence[Labelled], file: str | Path, int8: bool) -> dict[str, Any]:
    labels = run.recipe.labels
    for example in examples:
        if example.label not in labels:
            raise UserError(
                f"{file}:{example.line}: the run does not know the label {example.label!r}"
                f"{did_you_mean(example.label, labels)}"
            )
    _warn_of_known(run, examples, file)
    gold = [example.label for example in examples]
    found = [labels[i] for i in probabilities(run, examples, int8=int8).argmax(axis=1)]
    right = sum(a == b for a, b in zip(gold, found, strict=True))
    return {
        "accuracy": right / len(gold),
        "interval": list(wilson_interval(right, len(gold))),
        "macro_f1": macro_f1(gold, found, labels),
        "n": len(gold),
        "labels": list(labels),
        "confusion": confusion(gold, found, labels),
    }


def language_scores(
    model: Model, recipe: Recipe, tokenizer: Tokenizer, file: str | Path, text_column: str
) -> dict[str, float]:
    """Score a language model on all of a file; what is hidden is always the same."""
    task = task_of(recipe, tokenizer)
    store = open_store([file], tokenizer, text_column)
    windows = Windows(Stream.whole(store), recipe.shape.context, seed=0)
    cut = task.cut(windows, windows)
    numbers = range(0, cut.count, SCORING_ROWS)
    batches = (task.batch(cut.natural(n, SCORING_ROWS), generator(0, "held out", n)) for n in numbers)
    return held_out_loss(model, task.objective, batches)


def evaluate_pairs(
    run: str | Path | Run,
    file: str | Path | None = None,
    *,
    source: str | Path | None = None,
    target: str | Path | None = None,
    source_column: str = "source",
    target_column: str = "target",
    beam_size: int = 4,
    length_penalty: float = 1.0,
    backend: Backend = "torch",
    int8: bool = False,
) -> dict[str, Any]:
    """Score a translator on pairs: BLEU with its interval and signature, and chrF."""
    run = translator(run)
    sacrebleu()  # before the work, so that none is lost
    if (source is None) != (target is None) or (file is None) == (source is None):
        raise UserError("give the pairs once: --source F --target F, or a FILE with the columns source and target")
    if source is not None and target is not None:
        pairs, where = list(line_pairs(Path(source), Path(target))), f"{source} and {target}"
    else:
        assert file is not None
        pairs, where = list(column_pairs(Path(file), source_column, target_column)), str(file)
    for number, pair in enumerate(pairs, start=1):
        if not (pair[0].strip() and pair[1].strip()):
            raise UserError(f"{where}: one side of pair {number} is empty; fill it, or remove the pair on both sides")
    lefts = [left for left, _ in pairs]
    made = translate(run, lefts, beam_size=beam_size, length_penalty=length_penalty, backend=backend, int8=int8)
    return translation_scores([one.translation for one in made], [right for _, right in pairs])
