"""Classification with embeddings pushed uphill, against its own first order and against texts alone."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from greffon.core.graft import Graft
from greffon.core.shape import Shape
from greffon.nn.body import Body, Decoder, Encoder
from greffon.nn.heads import ClassHead
from greffon.nn.model import Model
from greffon.objectives.classify import Classify

TEXTS = [np.array(text) for text in ([5, 6, 7], [8, 9, 10, 11, 12], [13, 5, 13, 6])]
LABELS = [0, 1, 1]


def classifier(kind: type[Body], words: bool, scaled: bool) -> Model:
    torch.manual_seed(0)
    body = kind(
        Shape(
            layers=2, hidden_size=16, heads=2, intermediate_size=32, context=16, dropout=0.0, scale_embeddings=scaled
        ),
        20,
    )
    model = Model(body, ClassHead(16, 2, Graft(pooling="mean", concat_embeddings=words)))
    torch.nn.init.normal_(model.head.out.weight)
    return model.train()


@pytest.mark.parametrize("kind", [Decoder, Encoder])
@pytest.mark.parametrize("words", [True, False])
@pytest.mark.parametrize("scaled", [True, False])
def test_a_small_push_costs_what_the_slope_says(kind: type[Body], words: bool, scaled: bool) -> None:
    model, size = classifier(kind, words, scaled).double(), 1e-3
    batch = Classify(0).batch(TEXTS[1:2], LABELS[1:2])
    embedded = model.body.token_embeddings(batch.tokens).detach()
    push = torch.zeros_like(embedded, requires_grad=True)
    clean = F.cross_entropy(model(batch.tokens, batch.document_ids, None, push), batch.targets)
    (slope,) = torch.autograd.grad(clean, push)
    both = Classify(0, adversarial_epsilon=size).score(model, batch).loss
    rise = 2 * (both - clean)
    expected = size * embedded.norm(dim=-1).mean() * slope.norm()
    torch.testing.assert_close(rise, expected, rtol=0.05, atol=0.0)


def test_each_text_is_pushed_on_its_own_and_only_while_training() -> None:
    model, objective = classifier(Encoder, words=False, scaled=False), Classify(0, adversarial_epsilon=1.0)
    alone = [
        objective.score(model, objective.batch([text], [label])).loss for text, label in zip(TEXTS, LABELS, strict=True)
    ]
    together = objective.batch(TEXTS, LABELS)
    torch.testing.assert_close(objective.score(model, together).loss, torch.stack(alone).sum())
    model.eval()
    assert torch.equal(objective.score(model, together).loss, Classify(0).score(model, together).loss)


def test_every_weight_learns_from_both_readings() -> None:
    model, objective = classifier(Decoder, words=False, scaled=True), Classify(0, adversarial_epsilon=0.5)
    batch = objective.batch(TEXTS, LABELS)
    clean = torch.autograd.grad(Classify(0).score(model, batch).loss, list(model.parameters()))
    pushed = torch.autograd.grad(objective.score(model, batch).loss, list(model.parameters()))
    assert all(not torch.equal(one, other) for one, other in zip(clean, pushed, strict=True) if one.abs().max() > 0)
