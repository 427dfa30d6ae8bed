"""Which family of checkpoints a model fits, and what stands in the way where it fits none."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from greffon.core.choices import Task
from greffon.core.errors import UserError, setting
from greffon.core.recipe import Data, Recipe
from greffon.core.shape import Shape
from greffon.data.tokenizer import Tokenizer
from greffon.runs.folding import can_fold_embedding_scale, mean_folds_into_norm
from greffon.runs.huggingface.configs import PROBLEMS
from greffon.runs.huggingface.families import BERT, FAMILIES, M2M100, ROBERTA
from greffon.runs.huggingface.family import Family, token_graft


def use_for(recipe: Recipe) -> str:
    """Return what the head of an export is for: the projection of a contrastive body stays behind."""
    if recipe.masking is not None and recipe.masking.next_sentence:
        return "pairs"
    if recipe.task == "tokens":
        return "tokens"
    return "body" if recipe.objective == "contrastive" else recipe.objective


def fitting_family(recipe: Recipe) -> Family:
    """Return the family that a model fits; if there is none, that of its preset, or else the nearest."""
    families = [family for family in FAMILIES.values() if family.body == recipe.body]
    own = [family for family in families if recipe.preset in (family.offered, family.preset)]
    count = {family.kind: len(misfits(family, recipe)) for family in families}
    fitting = [family for family in families if family.offered or not count[family.kind]]
    nearest = min([*own, *fitting], key=lambda family: count[family.kind])
    return nearest if not count[nearest.kind] or not own else min(own, key=lambda family: count[family.kind])


def misfits(family: Family, recipe: Recipe, tokenizer: Tokenizer | None = None) -> list[str]:
    """Return the settings of a model that the family does not have; none if it fits exactly."""
    shape, found = recipe.shape, []
    for name, wanted in family.fixed.items():
        folded = name == "scale_embeddings" and not wanted and can_fold_embedding_scale(recipe)
        if getattr(shape, name) != wanted and not folded:
            found.append(f"{name} {_told(getattr(shape, name))} ({family.title}: {_told(wanted)})")
    if recipe.objective in ("masked", "causal", "seq2seq"):
        found += _head_misfits(family, shape)
    known = {*family.activations.values()}
    if shape.activation not in known:
        found.append(f"activation {shape.activation} ({family.title}: {', '.join(sorted(known))})")
    if "segments" in family.names and not shape.segments:
        found.append(f"segments 0 ({family.title}: 1 or more)")
    counts_from_padding = family in (ROBERTA, M2M100)
    if counts_from_padding and shape.position_offset == 0:
        found.append(f"position_offset 0 ({family.title}: 1 or more)")
    elif counts_from_padding and tokenizer is not None and tokenizer.pad != shape.position_offset - 1:
        found.append(f"padding id {tokenizer.pad} ({family.title}: {shape.position_offset - 1})")
    if recipe.graft is not None and recipe.answer not in (*PROBLEMS.values(), "tokens"):
        found.append(f"a head for {recipe.task} (none of the families has one)")
    elif recipe.graft is not None:
        for name, (value, possible) in graft_misfits(family, recipe).items():
            found.append(f"{name} {_told(value)} ({family.title}: {' or '.join(map(_told, possible))})")
        if recipe.score_scale and not recipe.graft.class_bias and not mean_folds_into_norm(recipe):
            found.append(
                f"scores around a mean of {recipe.score_scale[0]:g} ({family.title} has no bias to hold it; ONNX does)"
            )
    if recipe.masking is not None and recipe.masking.next_sentence and family is not BERT:
        found.append("next-sentence prediction (BERT alone has it)")
    elif not family.serves(use_for(recipe)):
        found.append(f"objective {recipe.objective} ({family.title} has no such head)")
    return found


def graft_misfits(family: Family, recipe: Recipe) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """Return the settings of a grafted head that the family does not have, each with the values that it has."""
    assert recipe.graft is not None
    known = token_graft(family) if recipe.task == "tokens" else family.graft
    own = {name: (getattr(recipe.graft, name), possible) for name, possible in known.items()}
    return {name: (value, possible) for name, (value, possible) in own.items() if value not in possible}


def head_form(recipe: Recipe, task: Task) -> dict[str, Any]:
    """Return the settings of a head for a task on a run's body, as its family has it; none if it is of no family."""
    body = _body_alone(recipe)
    family = fitting_family(body)
    return {} if misfits(family, body) else _form(token_graft(family) if task == "tokens" else family.graft)


def _body_alone(recipe: Recipe) -> Recipe:
    return replace(recipe, objective="body", masking=None, contrast=None, graft=None, data=Data())


def _form(known: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
    """Choose one value of each setting."""
    return {name: _PREFERRED[name] if _PREFERRED.get(name) in values else values[0] for name, values in known.items()}


_PREFERRED = {"pooling": "mean", "pooler_activation": "identity", "pooler_bias": True}
"""What learns best of the heads that a family allows (the form in which a head can start as a probe)."""


def reads_apart(recipe: Recipe) -> bool:
    """Whether a head reads the two texts of a pair each on its own, as no exported model does."""
    return recipe.task == "pairs" and recipe.graft is not None and recipe.graft.reads_apart


def _head_misfits(family: Family, shape: Shape) -> list[str]:
    """Compare the head over the vocabulary."""
    found = []
    bias = shape.head_bias if shape.tie_embeddings else shape.bias and shape.untied_head_bias
    for name, value, wanted in (
        ("head_transform", shape.head_transform, family.transform),
        ("head_bias", bias, family.head_bias),
    ):
        if value != wanted:
            found.append(f"{name} {_told(value)} ({family.title}: {_told(wanted)})")
    if family.always_tied and not shape.tie_embeddings:
        found.append(f"tie_embeddings no ({family.title}: yes)")
    return found


def _told(value: Any) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def export_note(recipe: Recipe) -> str:
    """Say in one sentence that a model will not be exported to `transformers`, and why; empty if it will."""
    if reads_apart(recipe):
        return (
            "This model cannot be exported: it reads the two texts of a pair each on its own, as no exported model "
            f"does; {setting('pair_reading', 'cross')} reads them as one."
        )
    family = fitting_family(recipe)
    problems = misfits(family, recipe)
    if not problems:
        return ""
    return f"This model cannot be exported to transformers: it is no {family.title} ({'; '.join(problems)})."


def remedy(family: Family, recipe: Recipe) -> str:
    """Say how to make a model that fits a family: with which body, and with which settings of the head."""
    misfit = recipe.graft is None or misfits(family, _body_alone(recipe))
    offered = f"; a body of {_offer(family)} fits" if misfit and family.offered else ""
    if recipe.graft is None or not (differing := graft_misfits(family, recipe)):
        return offered
    wanted = _form({name: possible for name, (_, possible) in differing.items()})
    if recipe.graft.head_init == "probe":  # which is a form of its own
        wanted["head_init"] = "random"
    options = " ".join(setting(name, value) for name, value in wanted.items())
    return f"{offered}; fine-tune with {options}"


def _offer(family: Family) -> str:
    """Name the preset that is offered for a family, and the settings beside it."""
    preset, *words = family.offered.split()
    named = {
        name.removeprefix("--").replace("-", "_"): value for name, value in zip(words[::2], words[1::2], strict=True)
    }
    written = {"true": True, "false": False}
    return " ".join(setting(name, written.get(value, value)) for name, value in {"preset": preset, **named}.items())


def refuse_apart(recipe: Recipe, where: Path) -> None:
    """Raise a `UserError` for a head that reads the two texts of a pair each on its own."""
    if reads_apart(recipe):
        raise UserError(
            f"{where} reads the two texts of a pair each on its own, as no exported model does; "
            f"fine-tune with {setting('pair_reading', 'cross')} to export it"
        )
