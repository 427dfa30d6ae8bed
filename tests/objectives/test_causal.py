import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from greffon.core.shape import Shape
from greffon.nn.body import Decoder
from greffon.nn.heads import VocabularyHead
from greffon.nn.model import Model
from greffon.objectives.batch import IGNORE
from greffon.objectives.causal import Causal

PAD, START, END = 0, 1, 2
CAUSAL = Causal(PAD, START, length=12, byte_lengths=np.arange(40))


def window(*documents: list[int]) -> np.ndarray:
    return np.array([token for d in documents for token in (START, *d, END)])[:13]


@given(st.lists(st.lists(st.integers(3, 39), max_size=6), min_size=1, max_size=5), st.integers(0, 4))
def test_targets_are_the_next_tokens_of_the_same_document(documents: list[list[int]], skip: int) -> None:
    tokens = window(*documents)[skip:]
    if len(tokens) < 2:
        return
    batch = CAUSAL.batch([tokens])
    assert batch.tokens.shape == (1, 12)
    for i in range(12):
        following = int(tokens[i + 1]) if i + 1 < len(tokens) else None
        wanted = IGNORE if following in (None, START) else following
        assert batch.targets[0, i] == wanted
    real = batch.targets[batch.targets != IGNORE]
    assert batch.count == len(real)
    assert batch.bytes == int(real.sum())  # byte_lengths is the identity here


@pytest.mark.parametrize("positions", ["rotary", "sinusoidal"])
def test_loss_is_that_of_each_document_alone(positions: str) -> None:
    torch.manual_seed(0)
    shape = Shape(layers=2, hidden_size=16, heads=2, intermediate_size=32, context=12, positions=positions)
    body = Decoder(shape, 40)
    model = Model(body, VocabularyHead(16, 40))
    documents = [[5, 6, 7], [8], [9, 10]]
    packed = CAUSAL.score(model, CAUSAL.batch([window(*documents)]))
    alone = 0.0
    for document in documents:
        tokens = torch.tensor([[START, *document, END]])
        alone += F.cross_entropy(model(tokens[:, :-1])[0], tokens[0, 1:], reduction="sum").item()
    assert packed.count == sum(len(d) + 1 for d in documents)
    torch.testing.assert_close(packed.loss.item(), alone, atol=1e-4, rtol=1e-5)
