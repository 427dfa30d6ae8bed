"""What would be computed beside the weights, put into them: what was fitted on validation, or on the scores of the
training texts, and the scale of the embeddings. Thresholds of labels, which weights cannot hold, have their name here.

A folded model needs no more than its weights: the logits of a classifier are divided by their temperature, so that its
softmax or its sigmoids are calibrated, and a head that gives scores gives them in the units of the file.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from greffon.core.recipe import Recipe
from greffon.nn.body import Body
from greffon.nn.heads import ClassHead
from greffon.nn.model import Model

TEMPERATURE = "calibration/temperature"
"""Name under which the temperature stands among the held-out scores."""
THRESHOLD = "threshold/"
"""Beginning of the name under which a label's threshold stands among the held-out scores."""


def threshold_of(label: str, scores: Mapping[str, float]) -> float:
    """Return the probability from which on a label is given; ½ where none was chosen on other texts than training."""
    return scores.get(THRESHOLD + label, 0.5) if scores.get("cross_validated") != 0 else 0.5


@torch.no_grad()
def fold_temperature(model: Model, scores: Mapping[str, float]) -> Model:
    """Divide the logits of a classifier by their temperature, in place.

    One that was fitted on the training texts themselves, for want of others, says nothing.
    """
    temperature = scores.get(TEMPERATURE, 1.0) if scores.get("cross_validated") != 0 else 1.0
    if temperature != 1.0 and isinstance(model.head, ClassHead):
        for p in model.head.out.parameters():
            p.div_(temperature)
    return model


@torch.no_grad()
def fold_scale(model: Model, recipe: Recipe) -> Model:
    """Let a head give scores in the units of the file, in place.

    The mean becomes part of the head's bias; of a head without one, that of the norm below it, or else the head gets
    a bias.
    """
    if not recipe.score_scale:
        return model
    assert isinstance(model.head, ClassHead)
    mean, deviation = recipe.score_scale
    out = model.head.out
    bias: Tensor | None = out.bias
    out.weight.mul_(deviation)
    if bias is not None:
        bias.mul_(deviation).add_(mean)
    elif mean_folds_into_norm(recipe):
        assert isinstance(model.body, Body)
        assert isinstance(model.body.norm, nn.LayerNorm)
        row = out.weight[0]
        model.body.norm.bias.add_(mean * row / row.square().sum())
    else:
        out.bias = nn.Parameter(out.weight.new_full((1,), mean))
    return model


def mean_folds_into_norm(recipe: Recipe) -> bool:
    """Whether a head without a bias reads the states of a last norm that has one, so that it can shift the scores."""
    shape, graft = recipe.shape, recipe.graft
    return (
        graft is not None
        and (shape.norm, shape.norm_place, shape.bias) == ("layer", "pre", True)
        and graft.pooling in ("cls", "last", "mean")
        and graft.pooler_activation == "none"
        and not graft.concat_embeddings
        and not (recipe.task == "pairs" and graft.reads_apart)
    )


def can_fold_embedding_scale(recipe: Recipe) -> bool:
    """Whether the scale of the embeddings can become part of the weights.

    Where a vocabulary head shares the embedding, the last norm must take the scale back.
    """
    return not _shares_embedding(recipe) or (recipe.shape.norm_place == "pre" and not recipe.shape.head_transform)


def fold_embedding_scale(tensors: Mapping[str, Tensor], recipe: Recipe) -> dict[str, Tensor]:
    """Multiply the embedding by √width, and divide the last norm by it where a head shares the embedding."""
    assert can_fold_embedding_scale(recipe)
    scale = math.sqrt(recipe.shape.hidden_size)
    folded = {**tensors, "body.embedding.weight": tensors["body.embedding.weight"] * scale}
    if _shares_embedding(recipe):
        folded |= {name: tensor / scale for name, tensor in tensors.items() if name.startswith("body.norm.")}
    return folded


def _shares_embedding(recipe: Recipe) -> bool:
    return recipe.objective in ("causal", "masked", "seq2seq") and recipe.shape.tie_embeddings
