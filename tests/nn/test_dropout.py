import pytest
import torch

from greffon.nn.dropout import Dropout


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.9])
def test_it_hides_its_share_and_keeps_the_mean(share: float) -> None:
    torch.manual_seed(0)
    x = torch.ones(301, 1001, requires_grad=True)
    found = Dropout(share).train()(x)
    hidden = found == 0
    assert hidden.float().mean().item() == pytest.approx(share, abs=0.005)
    assert found.mean().item() == pytest.approx(1, abs=0.01)
    for axis in (0, 1):  # no row and no column is favoured
        assert hidden.float().mean(dim=axis).std() < 3 * (share * (1 - share) / hidden.shape[axis]) ** 0.5
    found.sum().backward()
    assert torch.equal(x.grad == 0, hidden)


def test_it_draws_from_the_global_generator_and_only_in_training() -> None:
    x = torch.randn(7, 5)
    drop = Dropout(0.5)
    assert drop.eval()(x) is x
    assert Dropout(0.0).train()(x) is x
    drop.train()
    draws = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        draws.append(drop(x))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
