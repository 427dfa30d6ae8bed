"""A new head on a pretrained body: `greffon.finetune`."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from greffon.core.config import FREE, Data, Graft, Recipe, Shape, Training, check_names, override, refuse_pair_settings
from greffon.core.console import say
from greffon.core.errors import UserError
from greffon.core.files import write_atomically
from greffon.core.presets import PRESETS
from greffon.core.settings import Finetuning, Labels, Launch, part, refuse_conflicts, takes
from greffon.data.lint import Finding, lint
from greffon.data.splits import Splits, load_splits
from greffon.runs.run import Run
from greffon.training.distributed.launch import begin, process_group
from greffon.training.jobs import steps_of_epoch

ADAPTED = "adapted"
"""Where, inside the new run, the body adapted to the task's own text is kept."""

EPOCHS = Finetuning().epochs
MOST_EPOCHS = 10_000


@takes(Labels, Finetuning, Launch, Graft, Shape, Training)
def finetune(
    run: str | Path | Run,
    *,
    train: str | Path,
    out: str | Path,
    force: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> Run:
    """Graft a class head on a run's body, train it on labelled texts, and return the new Run.

    `settings` are the fields of `Labels`, `Finetuning` and `Launch` in `greffon.core.settings`, and of `Graft`, `Shape`
    (dropout and context) and `Training` in `greffon.core.config`, under the names of the command line's options.
    `freeze` trains the head alone; `gradual_unfreezing` unfreezes one more layer with each epoch, from the top;
    `adapt` first continues pretraining on the training texts.
    """
    check_names(settings, Labels, Finetuning, Launch, Graft, Shape, Training)
    settings = {name: value for name, value in settings.items() if value is not None}
    launch, settings = part(Launch(), settings)
    labels, settings = part(Labels(), settings)
    tuning, settings = part(Finetuning(), settings)
    group = process_group(launch.processes, launch.fsdp)
    with group.report_once(f"greffon resume {out}"):
        source = Run.open(run)
        data = labelled_data(train, **vars(labels))
        splits = load_splits(data)
        recipe = graft_recipe(
            source,
            data,
            splits,
            epochs=tuning.epochs,
            seed=settings.get("seed") or 0,
            gradual_unfreezing=tuning.gradual_unfreezing,
            settings=settings,
        )
        findings = check(splits, source, recipe.shape.context) + check_body(source)
        if group.is_main and not quiet:
            for finding in findings:
                say(str(finding))

        def lay_out(path: Path) -> Run:
            return prepare(source, recipe, path, adapt=tuning.adapt)

        return begin(out, lay_out, force=force, quiet=quiet, group=group, **vars(launch))


def labelled_data(
    train: str | Path, valid: str | Path | None, test: str | Path | None, text_column: str, label_column: str
) -> Data:
    """Name labelled files so that a run can be resumed from any folder."""

    def named(file: str | Path | None) -> tuple[str, ...]:
        return () if file is None else (str(Path(file).resolve()),)

    return Data(
        train=named(train),
        valid=named(valid),
        test=named(test),
        text_column=text_column,
        label_column=label_column,
    )


def check(splits: Splits, source: Run, context: int) -> list[Finding]:
    """Look over the labelled texts; an error among the findings ends the matter."""
    parts = {"train": splits.train, "valid": splits.valid}
    if splits.test:
        parts["test"] = splits.test
    counts = {
        name: [1 + len(ids) for ids in source.tokenizer.encode_many([example.text for example in part])]
        for name, part in parts.items()
    }
    findings = lint(parts, token_counts=counts, context=context)
    errors = [finding.message for finding in findings if finding.severity == "error"]
    if errors:
        raise UserError(" ".join(errors))
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
        raise UserError(f"epochs is {epochs}; choose a number from 1 to {MOST_EPOCHS:,}")
    check_names(settings, Graft, Shape, Training)
    refuse_conflicts({**settings, "gradual_unfreezing": gradual_unfreezing})
    refuse_pair_settings(settings)
    base = source.recipe
    found = PRESETS[base.preset]()
    form = {name: value for name, value in settings.items() if name in FREE}
    fixed = [name for name in settings if hasattr(base.shape, name) and name not in form]
    if fixed:
        raise UserError(f"{fixed[0]} is a fixed part of {source.path}; only dropout and context can change")
    shape = override(base.shape, {"dropout": found.finetuning_dropout, **form})
    if shape.positions == "learned" and shape.context > base.shape.context:
        raise UserError(f"{source.path} learned {base.shape.context} positions; context {shape.context} is beyond them")
    training = override(found.finetuning, {**settings, "seed": seed})
    epoch = steps_of_epoch(len(splits.train), training)
    training = replace(
        training,
        steps=epochs * epoch,
        evaluate_every=training.evaluate_every or epoch,
        unfreeze_every=epoch if gradual_unfreezing else training.unfreeze_every,
    )
    graft = override(found.graft, {"pooling": _pooling(base), **settings})
    if graft.pooling == "cls" and base.body == "decoder":
        raise UserError(f"{source.path} reads forward, so its first token has seen nothing; choose another --pooling")
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
        labels=splits.labels,
    )


def _check_body_fits(source: Run) -> None:
    """Refuse a run whose body cannot be fine-tuned."""
    recipe = source.recipe
    if recipe.objective == "classify":
        came = "import the checkpoint of its body alone" if recipe.imported else "fine-tune the run that it came from"
        raise UserError(f"{source.path} is a classifier; {came}")
    if recipe.objective == "seq2seq":
        raise UserError(f"{source.path} is a translator; fine-tune a pretrained body instead")


def _pooling(base: Recipe) -> str | None:
    """Return the pooling that suits how a body was pretrained, or None for the preset's."""
    if base.contrast is not None or (base.masking is not None and base.masking.gist):
        return "mean"
    return "cls" if base.body == "encoder" else None


def prepare(source: Run, recipe: Recipe, out: Path, *, adapt: bool = False) -> Run:
    """Make the run directory of a fine-tuning, with the tokenizer of its body.

    The recipe comes last: where it stands, all that it relies on is there.
    """
    if adapt and source.recipe.objective == "body":
        raise UserError(f"{source.path} has no head to go on pretraining with; leave out --adapt")
    inner = out / ADAPTED
    try:
        (inner if adapt else out).mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UserError(f"cannot write the run {out}: {problem.strerror}; choose another --out") from None
    source.tokenizer.save(out)
    if not adapt:
        return Run.create(out, recipe)
    found = PRESETS[recipe.preset]()
    # Only what the classifier will learn from: texts that choose or judge are not to be seen before.
    texts = [{"text": example.text} for example in load_splits(recipe.data).train if example.text.strip()]
    file = inner.resolve() / "texts.jsonl"
    write_atomically(file, "".join(json.dumps(text) + "\n" for text in texts).encode())
    source.tokenizer.save(inner)
    Run.create(inner, adaptation_recipe(source, recipe, found.adaptation, file))
    return Run.create(out, replace(recipe, origin=str(inner.resolve())))


def adaptation_recipe(source: Run, recipe: Recipe, training: Training, texts: Path) -> Recipe:
    """Describe how a body goes on pretraining on the texts, without the labels, of a task."""
    return replace(
        source.recipe,
        training=replace(training, seed=recipe.training.seed),
        data=Data(train=(str(texts),)),
        origin=str(source.path.resolve()),
        imported="",
        cost={},
    )
