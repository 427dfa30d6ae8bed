"""A new head on a pretrained body: `greffon.finetune`."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from greffon.core.choices import Task
from greffon.core.config import check_names, override
from greffon.core.conflicts import FINETUNING_RULES, LABEL_RULES, refuse_idle
from greffon.core.console import say
from greffon.core.errors import UserError, out_of_range, setting
from greffon.core.graft import Graft
from greffon.core.presets import PRESETS
from greffon.core.recipe import Data, Recipe
from greffon.core.settings import Finetuning, Labels, Launch, Machine, part, takes
from greffon.core.shape import FREE, Shape
from greffon.core.training import Training
from greffon.data.corpora import Labelled
from greffon.data.lint import Finding
from greffon.data.splits import Splits, load_splits
from greffon.data.tasks import FORMS, with_task
from greffon.objectives.task_texts import task_texts
from greffon.runs.huggingface.fit import export_note
from greffon.runs.run import Run
from greffon.training.adaptation import prepare
from greffon.training.distributed.launch import begin, launched
from greffon.training.head_form import PROBE_LEARNING_RATE, make_grafts
from greffon.training.jobs import steps_of_epoch

EPOCHS = Finetuning().epochs
MOST_EPOCHS = 10_000


@takes(Labels, Finetuning, Launch, Machine, Graft, Shape, Training)
def finetune(
    run: str | Path | Run,
    *,
    train: str | Path,
    out: str | Path,
    force: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Graft a head on a run's body, train it on labelled texts, and return the new Run.

    `settings` are the fields of `Labels`, `Finetuning`, `Launch`, `Machine`, `Graft`, `Shape` (dropout and context)
    and `Training` in `greffon.core`, under the names of the command line's options.
    `freeze` trains the head alone; `gradual_unfreezing` unfreezes one more layer with each epoch, from the top;
    `adapt` first continues pretraining on the training texts.
    """
    check_names(settings, Labels, Finetuning, Launch, Machine, Graft, Shape, Training)
    settings = {name: value for name, value in settings.items() if value is not None}
    launch, settings = part(Launch(), settings)
    asked, (labels, settings) = settings, part(Labels(), settings)
    tuning, settings = part(Finetuning(), settings)
    machine, settings = part(Machine(), settings)
    with launched(launch, machine, f"greffon resume {out}") as group:
        source = Run.open(run)
        data = replace(labelled_data(train, **vars(labels)), selection="folds" if labels.valid is None else "held-out")
        refuse_idle(LABEL_RULES, {**asked, "task": data.task})
        splits = load_splits(data)
        if data.selection == "folds":
            _refuse_without_valid(settings)
        recipe = graft_recipe(
            source,
            data,
            splits,
            epochs=tuning.epochs,
            seed=settings.get("seed") or 0,
            gradual_unfreezing=tuning.gradual_unfreezing,
            settings=settings,
        )
        if group.is_main and not quiet and labels.task is None:
            say(guessed(data))
        findings = check(splits, source, recipe) + check_body(source)
        if group.is_main and not quiet:
            for told in (*findings, *_better_body(source)):
                say(str(told))
            if not recipe.tried and (note := export_note(recipe)):
                say(note)

        def lay_out(path: Path) -> Run:
            return prepare(source, recipe, path, adapt=tuning.adapt)

        return begin(out, lay_out, force=force, quiet=quiet, group=group, launch=launch)


def _refuse_without_valid(settings: Mapping[str, Any]) -> None:
    """Refuse settings that need validation texts, where the epoch is selected by cross-validation."""
    if settings.get("average_checkpoints"):
        raise UserError(
            f"{setting('average_checkpoints')} keeps the mean if it is better on validation texts; "
            f"add {setting('valid')}"
        )


def labelled_data(
    train: str | Path,
    valid: str | Path | None,
    test: str | Path | None,
    text_column: str,
    label_column: str | None,
    task: Task | None = "classes",
    pair_columns: tuple[str, ...] = Data().pair_columns,
    label_separator: str = Data().label_separator,
) -> Data:
    """Name labelled files so that a run can be resumed from any folder; a task of None is guessed from the first."""

    def named(file: str | Path | None) -> tuple[str, ...]:
        if not isinstance(file, str | Path | None):
            raise UserError(
                f"labelled texts are a file, not a {type(file).__name__}; write them into a .csv, "
                "or give them to greffon.GreffonClassifier"
            )
        return () if file is None else (str(Path(file).resolve()),)

    data = Data(
        train=named(train),
        valid=named(valid),
        test=named(test),
        text_column=text_column,
        label_column=label_column,
        pair_columns=tuple(pair_columns),
        label_separator=label_separator,
    )
    return with_task(Path(train), data, task)


def guessed(data: Data) -> str:
    """Say which task the training file was taken for."""
    return f"task: {data.task}, as {Path(data.train[0]).name} reads ({setting('task')} names another)"


def check(splits: Splits, source: Run, recipe: Recipe) -> list[Finding]:
    """Look over the labelled texts; an error among the findings ends the matter."""
    context = task_texts(recipe, source.tokenizer).most_tokens
    parts = {"train": splits.train}
    parts |= {name: part for name, part in (("valid", splits.valid), ("test", splits.test)) if part}
    counts = {
        name: [1 + len(ids) for ids in source.tokenizer.encode_many([example.whole for example in part])]
        for name, part in parts.items()
    }
    findings = FORMS[splits.task].lint(parts, counts, context)
    errors = [finding.message for finding in findings if finding.severity == "error"]
    if errors:
        raise UserError(errors[0])
    return findings


def check_body(source: Run) -> list[Finding]:
    """Tell of a body that was hardly trained: what it can show is not what pretraining can."""
    if not source.has_model:
        source.load_model()  # which says what to do
    best, steps = source.scores.get("step"), source.recipe.training.steps
    if best == 0:
        return [Finding("warning", "untrained-body", f"The weights of {source.path} are those of step 0: untrained.")]
    if not source.finished:
        message = f"{source.path} stopped before its end; its weights are those of step {best:,} of {steps:,}."
        return [Finding("warning", "unfinished-body", message)]
    return []


def _better_body(source: Run) -> list[str]:
    """Tell how a body is made that does better with few labels, unless this is one."""
    recipe = source.recipe
    if recipe.imported or recipe.objective not in ("causal", "masked"):
        return []
    data = recipe.data
    words = ["greffon", "pretrain", *data.train, "--objective", "contrastive"]
    words += ["--mix", *map(str, data.mix)] if data.mix else []
    words += ["--text-column", data.text_column] if data.text_column != Data().text_column else []
    return [
        f"a contrastive body does better with few labels than this {recipe.objective} one: "
        f"{shlex.join([*words, '--out', 'RUN'])}"
    ]


def graft_recipe(
    source: Run,
    data: Data,
    splits: Splits,
    *,
    epochs: int,
    seed: int,
    gradual_unfreezing: bool = False,
    scratch: bool = False,
    settings: Mapping[str, Any],
) -> Recipe:
    """Describe a fine-tuning of a run's body; with `scratch`, of a new body of the same shape."""
    _check_body_fits(source)
    if not 1 <= epochs <= MOST_EPOCHS:
        raise out_of_range("epochs", epochs, f"choose a number from 1 to {MOST_EPOCHS:,}")
    check_names(settings, Graft, Shape, Training)
    base = source.recipe
    found = PRESETS[base.preset]()
    form = {name: value for name, value in settings.items() if name in FREE}
    fixed = [name for name in settings if hasattr(base.shape, name) and name not in form]
    if fixed:
        raise UserError(f"{setting(fixed[0])} is a fixed part of {source.path}; only dropout and context can change")
    read = {} if base.embedding is None else {"context": base.embedding.max_length}
    shape = override(base.shape, {"dropout": found.finetuning_dropout, **read, **form})
    if shape.positions == "learned" and shape.context > base.shape.context:
        raise UserError(f"{source.path} learned {base.shape.context} positions; context {shape.context} is beyond them")
    grafts = make_grafts(found.graft, base, data, settings, scratch=scratch)
    graft = next(iter(grafts.values()))
    training = found.finetuning
    if graft.head_init == "probe":  # what the probe knows is soon lost at the rates that a new head needs
        rate, patience = min(training.learning_rate, PROBE_LEARNING_RATE), min(training.patience, PROBE_PATIENCE)
        training = replace(training, learning_rate=rate, patience=patience)
    if gradual_unfreezing or settings.get("unfreeze_every"):  # the last layers to be trained must have their turn
        training = replace(training, patience=0)
    training = override(training, {**settings, "seed": seed})
    asked = {**settings, "gradual_unfreezing": gradual_unfreezing}
    refuse_idle(FINETUNING_RULES, asked, vars(training))
    epoch = steps_of_epoch(len(splits.train), training)
    training = replace(
        training,
        steps=epochs * epoch,
        evaluate_every=training.evaluate_every or epoch,
        unfreeze_every=epoch if gradual_unfreezing else training.unfreeze_every,
    )
    if any(each.pooling == "cls" for each in grafts.values()) and base.body == "decoder":
        raise UserError(
            f"{source.path} reads forward, so its first token has seen nothing; choose another {setting('pooling')}"
        )
    return Recipe(
        objective="classify",
        preset=base.preset,
        shape=shape,
        training=training,
        data=data,
        vocab_size=base.vocab_size,
        tokenizer_digest=source.tokenizer.digest,
        origin="" if scratch else str(source.path.resolve()),
        body=base.body,
        graft=graft,
        tried=grafts if len(grafts) > 1 else {},
        labels=splits.labels,
        class_weights=FORMS[data.task].weights(splits.train) if graft.class_weights == "balanced" else (),
        score_scale=_scale(splits.train),
    )


PROBE_PATIENCE = 3
"""Highest default patience of a head that starts as a probe: it has nothing to learn before it gets better."""


def _scale(examples: Sequence[Labelled]) -> tuple[float, ...]:
    """Return the mean and the standard deviation of scores; nothing where there are none."""
    scores = [example.score for example in examples if example.score is not None]
    return (float(np.mean(scores)), float(np.std(scores)) or 1.0) if scores else ()


def _check_body_fits(source: Run) -> None:
    """Refuse a run whose body cannot be fine-tuned."""
    recipe = source.recipe
    if recipe.objective == "classify":
        came = "import the checkpoint of its body alone" if recipe.imported else "fine-tune the run that it came from"
        raise UserError(f"{source.path} is a classifier; {came}")
    if recipe.objective == "seq2seq":
        raise UserError(f"{source.path} is a translator; fine-tune a pretrained body instead")
