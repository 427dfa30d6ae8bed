import numpy as np
import pytest
import torch
import torch.nn.functional as F

from greffon.core.recipe import Data, Recipe
from greffon.core.shape import Shape
from greffon.core.training import Training
from greffon.nn.build import make_model
from greffon.objectives.seq2seq import Pair, Seq2Seq

SIZE = 40
OBJECTIVE = Seq2Seq(padding=0, start=1, end=2, byte_lengths=np.full(SIZE, 3), smoothing=0.1)
SHAPE = Shape(layers=1, hidden_size=16, heads=2, intermediate_size=32, context=16)


def pairs() -> list[Pair]:
    return [(np.array([5, 6, 7]), np.array([8])), (np.array([9]), np.array([10, 11, 12]))]


def test_a_batch_shows_each_target_what_came_before_it() -> None:
    batch = OBJECTIVE.batch(pairs())
    assert batch.source.tolist() == [[5, 6, 7, 2], [9, 2, 0, 0]]
    assert batch.source_document_ids is not None
    assert batch.source_document_ids.tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    assert batch.tokens.tolist() == [[1, 8, 2, 0], [1, 10, 11, 12]]  # what follows an end predicts nothing
    assert batch.targets.tolist() == [[8, 2, -100, -100], [10, 11, 12, 2]]
    assert (batch.count, batch.bytes, batch.num_positions, batch.padded) == (6, 18, 16, 4)


@pytest.mark.parametrize("tied", [True, False])
def test_the_loss_is_smoothed_in_training_only(tied: bool) -> None:
    shape = Shape(**{**vars(SHAPE), "tie_embeddings": tied})
    model = make_model(Recipe("seq2seq", "small", shape, Training(), Data(), SIZE))
    batch = OBJECTIVE.batch(pairs())
    logits = model.head(model.body(batch.source, batch.tokens, batch.source_document_ids)).flatten(0, 1)
    for training, smoothing in ((True, 0.1), (False, 0.0)):
        wanted = F.cross_entropy(logits, batch.targets.flatten(), reduction="sum", label_smoothing=smoothing)
        found = OBJECTIVE.score(model.train(training), batch)
        assert found.count == 6
        torch.testing.assert_close(found.loss, wanted)


def test_padding_changes_no_gradient() -> None:
    model = make_model(Recipe("seq2seq", "small", SHAPE, Training(), Data(), SIZE))
    together = OBJECTIVE.score(model, OBJECTIVE.batch(pairs())).loss
    alone = sum(OBJECTIVE.score(model, OBJECTIVE.batch([pair])).loss for pair in pairs())
    found = [torch.autograd.grad(loss, list(model.parameters())) for loss in (together, alone)]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_a_batch_moves_with_its_source() -> None:
    pairs = [(np.array([5, 6, 7]), np.array([8])), (np.array([5]), np.array([8, 9]))]
    batch = Seq2Seq(0, 1, 2, np.ones(20)).batch(pairs)
    moved = batch.to(torch.device("meta"))
    tensors = (moved.tokens, moved.document_ids, moved.targets, moved.source, moved.source_document_ids)
    assert [tensor.device.type for tensor in tensors] == ["meta"] * 5
    assert (moved.count, moved.num_positions) == (batch.count, batch.num_positions)
