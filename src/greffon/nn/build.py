"""Build the model of a recipe: the one place where bodies and heads are put together."""

import torch

from greffon.core.recipe import Recipe
from greffon.core.rng import derive
from greffon.nn.body import Body, Decoder, Encoder
from greffon.nn.encoder_decoder import EncoderDecoder
from greffon.nn.heads import (
    ContrastHead,
    MaskedHead,
    NoHead,
    PairHead,
    Transform,
    VocabularyHead,
)
from greffon.nn.model import Model
from greffon.nn.task_heads import head_of

BODIES: dict[str, type[Body]] = {"decoder": Decoder, "encoder": Encoder}


def vocabulary_head(body: Body | EncoderDecoder, recipe: Recipe) -> VocabularyHead:
    """Build a vocabulary head, tied to the body's embedding if the shape says so."""
    shape = recipe.shape
    return VocabularyHead(
        body.hidden_size,
        recipe.vocab_size,
        bias=shape.head_bias if shape.tie_embeddings else shape.bias and shape.untied_head_bias,
        tied=body.embedding if shape.tie_embeddings else None,
        transform=Transform(shape) if shape.head_transform else None,
    )


def language_model(recipe: Recipe) -> Model:
    """Build a body with a vocabulary head, and a masked one with the head of its auxiliary loss."""
    body = BODIES[recipe.body](recipe.shape, recipe.vocab_size)
    head, masking = vocabulary_head(body, recipe), recipe.masking
    if masking is not None and masking.next_sentence:
        return Model(body, MaskedHead(head, PairHead(body.hidden_size)))
    return Model(body, head)


def classifier(recipe: Recipe) -> Model:
    """Build a body with the head of its task."""
    assert recipe.graft is not None
    body = BODIES[recipe.body](recipe.shape, recipe.vocab_size)
    return Model(body, head_of(recipe)(body.hidden_size, recipe.outputs, recipe.graft, recipe.shape.norm_epsilon))


def translator(recipe: Recipe) -> Model:
    """Build an encoder-decoder with a vocabulary head; tied, one matrix is the embedding of both sides and the head."""
    body = EncoderDecoder(recipe.shape, recipe.vocab_size)
    return Model(body, vocabulary_head(body, recipe))


def contrastive(recipe: Recipe) -> Model:
    """Build a body with the head of a contrastive objective."""
    body = BODIES[recipe.body](recipe.shape, recipe.vocab_size)
    return Model(body, ContrastHead(body.hidden_size, recipe.vocab_size))


def bare_body(recipe: Recipe) -> Model:
    """Build a body without a head."""
    return Model(BODIES[recipe.body](recipe.shape, recipe.vocab_size), NoHead())


MODELS = {
    "causal": language_model,
    "masked": language_model,
    "contrastive": contrastive,
    "classify": classifier,
    "seq2seq": translator,
    "body": bare_body,
}


def make_model(recipe: Recipe) -> Model:
    """Build the model of a recipe with new weights, drawn from its seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(recipe.training.seed, "weights"))
        return MODELS[recipe.objective](recipe)
