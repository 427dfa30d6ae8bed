import numpy as np
import pytest
import torch
import torch.nn.functional as F

from greffon.core.rng import generator
from greffon.core.shape import Shape
from greffon.data.spans import Views
from greffon.inference.scoring import held_out_contrast
from greffon.nn.body import Encoder
from greffon.nn.heads import ContrastHead
from greffon.nn.model import Model
from greffon.objectives.batch import IGNORE
from greffon.objectives.contrastive import Contrastive

OBJECTIVE = Contrastive(
    padding=0, cls=1, sep=2, temperature=0.1, common=np.zeros(40, dtype=bool), words=np.linspace(0, 1, 40)
)


def model() -> Model:
    torch.manual_seed(0)
    body = Encoder(Shape(layers=1, hidden_size=16, heads=2, intermediate_size=16, context=16), 40)
    return Model(body, ContrastHead(16, 40)).double()


def rows(number: int) -> list[Views]:
    random = generator(0, "rows")
    return [Views(*(random.integers(3, 40, size) for size in random.integers(2, 7, 2))) for _ in range(number)]


def test_the_loss_is_cross_entropy_over_all_other_views() -> None:
    torch.manual_seed(1)
    vectors = F.normalize(torch.randn(6, 5), dim=-1)
    pairs = torch.tensor([0, 0, 1, 1, 2, 2])
    expected = []
    for i in range(6):
        others = [j for j in range(6) if j != i]
        logits = torch.stack([vectors[i] @ vectors[j] / 0.1 for j in others])
        expected.append(F.cross_entropy(logits, torch.tensor(others.index(i ^ 1))))
    torch.testing.assert_close(OBJECTIVE.losses(vectors, pairs), torch.stack(expected))


def test_views_that_stand_for_nothing_change_nothing() -> None:
    torch.manual_seed(1)
    vectors = F.normalize(torch.randn(6, 5), dim=-1)
    alone = OBJECTIVE.losses(vectors[:4], torch.tensor([0, 0, 1, 1]))
    beside = OBJECTIVE.losses(vectors, torch.tensor([0, 0, 1, 1, IGNORE, IGNORE]))
    torch.testing.assert_close(beside[:4], alone)
    assert beside[4:].tolist() == [0.0, 0.0]


def test_a_batch_is_pairs_of_rows_between_special_tokens() -> None:
    batch = OBJECTIVE.batch([Views(np.array([5, 6]), np.array([7]))], generator(0, "test"))
    assert batch.tokens.tolist() == [[1, 5, 6, 2], [1, 7, 2, 0]]
    assert batch.targets.tolist() == [0, 0]
    assert batch.count == 2


def test_a_shared_token_stands_in_one_view() -> None:
    batch = OBJECTIVE.batch([Views(np.array([5, 6, 9]), np.array([7, 9]))], generator(0, "test"))
    assert (batch.tokens == 9).sum() == 1


def test_padding_changes_no_vector() -> None:
    net = model()
    views = rows(3)
    together = OBJECTIVE.vectors(net, OBJECTIVE.batch(views, generator(0, "test")))
    alone = [OBJECTIVE.vectors(net, OBJECTIVE.batch([row], generator(0, "test"))) for row in views]
    torch.testing.assert_close(together, torch.cat(alone))


def test_cached_gradients_equal_those_of_one_batch() -> None:
    net, batch = model(), OBJECTIVE.batch(rows(4), generator(0, "test"))
    whole = OBJECTIVE.score(net, batch)
    assert whole.auxiliary is not None
    (whole.loss + whole.auxiliary.loss).backward()
    expected = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    parts = [batch.part(i, 2) for i in range(2)]
    pairs = torch.cat([part.targets for part in parts])
    with torch.no_grad():
        vectors = torch.cat([OBJECTIVE.vectors(net, part) for part in parts])
    losses, gradient = OBJECTIVE.gradients(vectors, pairs)
    for part, loss, share in zip(parts, losses.chunk(2), gradient.chunk(2), strict=True):
        score = OBJECTIVE.score_part(net, part, loss, share)
        assert score.auxiliary is not None
        (score.loss + score.auxiliary.loss).backward()
    for p, wanted in zip(net.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, wanted)
    assert losses.sum().item() == pytest.approx(OBJECTIVE.score(net, batch).loss.item())


def test_partners_that_are_nearest_are_counted() -> None:
    vectors = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [-1.0, 0.0]])
    assert OBJECTIVE.found(F.normalize(vectors, dim=-1), torch.tensor([0, 0, 1, 1])) == 3


def test_copies_are_not_counted_as_found() -> None:
    vectors = F.normalize(torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.0, 1.0]]), dim=-1)
    assert OBJECTIVE.found(vectors, torch.tensor([0, 0, IGNORE, IGNORE])) == 2
    assert OBJECTIVE.found(vectors, torch.full((4,), IGNORE)) == 0
    copies = Views(np.array([5, 6, 9]), np.array([6, 9]), copies=True)
    batches = [OBJECTIVE.batch([copies, *some], generator(0, "test")) for some in ([], rows(2))]
    assert set(held_out_contrast(model(), OBJECTIVE, batches[:1])) == {"loss", "contrast_loss", "words_loss"}
    net = model()
    found = OBJECTIVE.found(OBJECTIVE.vectors(net, batches[1]), batches[1].targets)
    assert held_out_contrast(net, OBJECTIVE, batches)["accuracy"] == found / 4


def test_a_view_predicts_the_words_of_its_partner() -> None:
    net, batch = model(), OBJECTIVE.batch(rows(3), generator(0, "test"))
    pooled = OBJECTIVE.pooled(net, batch)
    log_probabilities = net.head.words(pooled).log_softmax(dim=-1)
    expected = []
    for row in range(6):
        ids, counts = batch.tokens[row ^ 1].unique(return_counts=True)
        weights = counts.double().log1p() * torch.from_numpy(OBJECTIVE.words)[ids]
        expected.append(-(weights / weights.sum() * log_probabilities[row, ids]).sum())
    torch.testing.assert_close(OBJECTIVE.word_losses(net, pooled, batch), torch.stack(expected))


def test_copies_of_one_text_are_not_contrasted() -> None:
    net = model()
    copies = Views(np.array([5, 6, 9]), np.array([6, 9]), copies=True)
    batch = OBJECTIVE.batch([copies, *rows(2)], generator(0, "test"))
    assert batch.targets.tolist() == [IGNORE, IGNORE, 1, 1, 2, 2]
    assert batch.tokens[0].tolist()[1:4] == [5, 6, 9], "nothing is deleted from copies"
    alone = OBJECTIVE.batch([copies], generator(0, "test"))
    score = OBJECTIVE.score(net, alone)
    assert score.auxiliary is not None
    (score.loss + score.auxiliary.loss).backward()
    assert score.loss.item() == 0.0
    assert all(torch.isfinite(p.grad).all() for p in net.parameters())
