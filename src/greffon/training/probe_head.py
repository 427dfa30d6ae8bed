"""A head that starts where the probe ends: logistic regression on the frozen vectors, folded into the head.

The head has ModernBERT's form: a dense layer (here the identity, less the centre of the vectors), LayerNorm, and a
linear layer. It then gives exactly the probe's outputs, and body and head are fine-tuned together from there
(LP-FT, Kumar et al., 2022).
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from greffon.core.recipe import Recipe
from greffon.data.corpora import Labelled
from greffon.data.splits import load_splits
from greffon.data.tokenizer import Tokenizer
from greffon.inference.probe import Probe, ProbeForm, fit_probe
from greffon.nn.heads import ClassHead
from greffon.nn.model import Model
from greffon.objectives.classify import row_vectors, text_vectors
from greffon.objectives.labelled_texts import LINKS, LabelledTexts


def start_at_probe(model: Model, recipe: Recipe, tokenizer: Tokenizer) -> Probe:
    """Fit a probe on the training texts of a recipe, and fold it into the model's head."""
    splits, texts = load_splits(recipe.data), LabelledTexts(recipe, tokenizer)

    def columns(part: Sequence[Labelled]) -> tuple[np.ndarray, np.ndarray]:
        laid_out = texts.for_scoring(texts.encode(part))
        return text_vectors(model, laid_out, row_vectors(model)).numpy(), laid_out.targets.numpy()

    vectors, targets = columns(splits.train)
    probe = fit_probe(
        vectors,
        targets,
        ProbeForm(
            recipe.outputs,
            epsilon=recipe.shape.norm_epsilon,
            class_weights=recipe.class_weights,
            link=LINKS[recipe.task],
        ),
        # A fifth of few texts says less about the strength than cross-validation does.
        valid=columns(splits.valid) if recipe.data.valid else None,
        seed=recipe.training.seed,
    )
    assert isinstance(model.head, ClassHead)
    fold_in(model.head, probe)
    return probe


def fold_in(head: ClassHead, probe: Probe) -> None:
    """Make a head give the outputs of a probe."""
    assert head.inner is not None, "the form of a head that starts as a probe"
    assert isinstance(head.norm, nn.LayerNorm)
    with torch.no_grad():
        nn.init.eye_(head.inner.weight)
        head.inner.bias.copy_(torch.from_numpy(-probe.center))
        nn.init.ones_(head.norm.weight)
        head.out.weight.copy_(torch.from_numpy(probe.weight))
        head.out.bias.copy_(torch.from_numpy(probe.bias))
