"""The run directory of a fine-tuning, and in it the body that first goes on pretraining on the task's own text."""

import json
from dataclasses import replace
from pathlib import Path

from greffon.core.errors import UserError, setting
from greffon.core.files import write_atomically
from greffon.core.preset import Preset
from greffon.core.presets import PRESETS
from greffon.core.recipe import Data, Recipe
from greffon.core.training import Training
from greffon.data.splits import load_splits
from greffon.runs.run import Run

ADAPTED = "adapted"
"""Where, inside the new run, the body adapted to the task's own text is kept."""


def prepare(source: Run, recipe: Recipe, out: Path, *, adapt: bool = False) -> Run:
    """Make the run directory of a fine-tuning, with the tokenizer of its body.

    The recipe comes last: where it stands, all that it relies on is there.
    """
    if adapt and source.recipe.objective == "body":
        raise UserError(f"{source.path} has no head to go on pretraining with; leave out {setting('adapt')}")
    inner = out / ADAPTED
    try:
        (inner if adapt else out).mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UserError(f"cannot write the run {out}: {problem.strerror}; choose another {setting('out')}") from None
    source.tokenizer.save(out)
    if not adapt:
        return Run.create(out, recipe)
    found = PRESETS[recipe.preset]()
    # Only what the classifier will learn from: texts that choose or judge are not to be seen before.
    learned = [text for example in load_splits(recipe.data).train for text in (example.text, example.second or "")]
    texts = [{"text": text} for text in learned if text.strip()]
    file = inner.resolve() / "texts.jsonl"
    write_atomically(file, "".join(json.dumps(text) + "\n" for text in texts).encode())
    source.tokenizer.save(inner)
    contrasts = source.recipe.contrast is not None
    training = _contrastive_adaptation(found) if contrasts else found.adaptation
    Run.create(inner, adaptation_recipe(source, recipe, training, file))
    return Run.create(out, replace(recipe, origin=str(inner.resolve())))


def _contrastive_adaptation(found: Preset) -> Training:
    """Adapt as long as for other objectives, with the batches and rates that contrast needs."""
    usual = found.adaptation
    return replace(found.contrastive, steps=usual.steps, patience=usual.patience, warmup_steps=usual.warmup_steps)


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
