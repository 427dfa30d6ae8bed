"""How a contrastive pretraining begins: at the latent semantic analysis of its own text.

The mean of the states is then, before the first step, nearly the mean of the token embeddings, which already tells
documents apart; training only has to make it better.
"""

import math

import numpy as np
import torch

from greffon.core.recipe import Recipe
from greffon.core.rng import derive
from greffon.data.lsa import MOST_DOCUMENTS, SCALE, lsa_embeddings
from greffon.data.tokenizer import Tokenizer
from greffon.nn.body import Body
from greffon.nn.heads import ContrastHead
from greffon.nn.model import Model
from greffon.objectives.corpus import training_documents, word_statistics

NORMS = (torch.nn.LayerNorm, torch.nn.RMSNorm)
QUIET = 0.01
"""Factor of the output layers of all sublayers: at first a body adds next to nothing to its embeddings."""
WORDS_SCALE = 0.3
"""Size of the word predictor's vectors, as a share of the embeddings': predictions begin near the mean of all texts."""


@torch.no_grad()
def begin_with_lsa(model: Model, recipe: Recipe, tokenizer: Tokenizer) -> None:
    """Set embeddings and word predictor from the text; a text that is too small for that leaves them as they are."""
    seed, width = derive(recipe.training.seed, "lsa"), recipe.shape.hidden_size
    tokens = [tokenizer.text([i]) if tokenizer.byte_lengths[i] else "" for i in range(tokenizer.size)]
    tokens += [""] * (recipe.vocab_size - tokenizer.size)
    made = lsa_embeddings(training_documents(recipe, tokenizer, MOST_DOCUMENTS), tokens, width, seed)
    if made is None:
        return
    body, head, found = model.body, model.head, torch.from_numpy(made)
    assert isinstance(body, Body)
    assert isinstance(head, ContrastHead)
    body.embedding.weight.copy_(found / (math.sqrt(width) if recipe.shape.scale_embeddings else 1.0))
    head.words.weight.copy_(found * WORDS_SCALE)
    words = word_statistics(recipe, tokenizer)
    expected = words.weights * words.counts + 0.1
    head.words.bias.copy_(torch.from_numpy(np.log(expected / expected.sum())))
    for block in body.blocks:
        for linear in block.output_linears:  # type: ignore[union-attr]
            linear.weight.mul_(QUIET)
    if isinstance(body.embedding_norm, NORMS):
        body.embedding_norm.weight.fill_(SCALE)
    if isinstance(body.norm, NORMS):
        body.norm.weight[0] = 0.0  # the feature that takes what tokens do not say
