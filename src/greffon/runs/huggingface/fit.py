"""Which family of checkpoints a model fits, and what stands in the way where it fits none."""

from typing import Any

from greffon.core.config import Recipe, Shape
from greffon.data.tokenizer import Tokenizer
from greffon.runs.folding import can_fold_embedding_scale
from greffon.runs.huggingface.families import BERT, FAMILIES, M2M100, ROBERTA, Family, token_graft


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
    return nearest if not count[nearest.kind] or not own else own[0]


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
    if recipe.task == "pairs" and recipe.graft is not None and recipe.graft.pair_reading == "towers":
        found.append("two texts, each on its own (none of the families reads so; --pair-reading cross)")
    elif recipe.graft is not None:
        for name, possible in (token_graft(family) if recipe.task == "tokens" else family.graft).items():
            if (value := getattr(recipe.graft, name)) not in possible:
                found.append(f"{name} {_told(value)} ({family.title}: {' or '.join(map(_told, possible))})")
    if recipe.masking is not None and recipe.masking.next_sentence and family is not BERT:
        found.append("next-sentence prediction (BERT alone has it)")
    elif not family.serves(use_for(recipe)):
        found.append(f"objective {recipe.objective} ({family.title} has no such head)")
    return found


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
    family = fitting_family(recipe)
    problems = misfits(family, recipe)
    if not problems:
        return ""
    return f"This model cannot be exported to transformers: it is no {family.title} ({'; '.join(problems)})."
