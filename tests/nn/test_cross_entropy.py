import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from greffon.nn import cross_entropy
from greffon.nn.cross_entropy import HeadGradients, MicroBatch, summed_cross_entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 7, 64])
def test_equals_pytorch_with_gradients(
    bias: bool, rows: int, smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_entropy, "CHUNK", 16)  # several chunks, the last one short
    monkeypatch.setattr(cross_entropy, "PANEL", 10)  # and several panels
    torch.manual_seed(0)
    hidden = torch.randn(rows, 12, requires_grad=True)
    weight = torch.randn(37, 12, requires_grad=True)
    offset = torch.randn(37, requires_grad=True) if bias else None
    targets = torch.randint(37, (rows,))
    wanted = [t for t in (hidden, weight, offset) if t is not None]

    def gradients(loss: Tensor) -> tuple[Tensor, ...]:
        return torch.autograd.grad(loss * 0.3, wanted)

    ours = summed_cross_entropy(hidden, weight, offset, targets, smoothing)
    theirs = F.cross_entropy(F.linear(hidden, weight, offset), targets, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-5)
    for mine, other in zip(gradients(ours), gradients(theirs), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(summed_cross_entropy(hidden, weight, offset, targets, smoothing), theirs)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [1, 16, 17, 49, 600])
def test_blocks_and_padded_rows_change_no_bit(rows: int, smoothing: float, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    hidden = torch.randn(rows, 24, requires_grad=True)
    weight = torch.randn(1001, 24, requires_grad=True)
    bias = torch.randn(1001, requires_grad=True)
    targets = torch.randint(1001, (rows,))

    def outcome() -> tuple[Tensor, ...]:
        loss = summed_cross_entropy(hidden, weight, bias, targets, smoothing)
        return loss, *torch.autograd.grad(loss, (hidden, weight, bias))

    blocked = outcome()
    monkeypatch.setattr(cross_entropy, "BLOCK", cross_entropy.CHUNK)
    monkeypatch.setattr(cross_entropy, "LINE", 1)
    for mine, other in zip(blocked, outcome(), strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("has_bias", [True, False])
def test_micro_batches_of_a_step_hand_over_one_gradient(has_bias: bool) -> None:
    torch.manual_seed(0)
    hidden, targets = torch.randn(30, 8), torch.randint(100, (30,))
    weight, bias = torch.randn(100, 8, requires_grad=True), torch.randn(100, requires_grad=True)
    leaves = (weight, bias) if has_bias else (weight,)
    offset = bias if has_bias else None

    def step(cuts: list[int]) -> list[Tensor]:
        weight.grad = bias.grad = None
        parts = list(zip(hidden.split(cuts), targets.split(cuts), strict=True))
        grads = []
        sums = HeadGradients()
        for i, (part, wanted) in enumerate(parts):
            assert weight.grad is None, "the gradient comes with the last micro-batch"
            own = part.clone().requires_grad_()
            micro_batch = MicroBatch(sums, is_last=i + 1 == len(parts))
            (summed_cross_entropy(own, weight, offset, wanted, 0.0, micro_batch) / 30).backward()
            grads.append(own.grad)
        assert sums.weight is None, "what is handed over is not kept"
        return [torch.cat(grads), *(leaf.grad for leaf in leaves)]

    whole = step([30])
    broken_off = MicroBatch(HeadGradients(), is_last=False)
    summed_cross_entropy(hidden, weight, offset, targets, 0.0, broken_off).backward()
    for one, other in zip(whole, step([7, 20, 3]), strict=True):
        torch.testing.assert_close(one, other)


def test_a_small_buffer_serves_losses_of_any_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cross_entropy, "LARGEST", 4000)  # 20 rows of the larger vocabulary
    torch.manual_seed(0)
    for rows, vocabulary in ((50, 150), (3, 40), (50, 150), (70, 10)):
        hidden, weight = torch.randn(rows, 12, requires_grad=True), torch.randn(vocabulary, 12, requires_grad=True)
        targets = torch.randint(vocabulary, (rows,))
        ours = summed_cross_entropy(hidden, weight, None, targets)
        theirs = F.cross_entropy(hidden @ weight.T, targets, reduction="sum")
        torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-5)
        for mine, other in zip(*(torch.autograd.grad(loss, (hidden, weight)) for loss in (ours, theirs)), strict=True):
            torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_what_was_thought_impossible_costs_what_it_should(smoothing: float) -> None:
    """A probability too small for a number has a loss, and a gradient, all the same."""
    hidden = torch.tensor([[300.0, 0.0], [1.0, -1.0]], requires_grad=True)
    weight = torch.tensor([[1.0, 0.5], [-1.0, 0.0], [0.0, 1.0]], requires_grad=True)
    targets = torch.tensor([1, 2])  # 600 nats from the first row's favourite
    ours = summed_cross_entropy(hidden, weight, None, targets, smoothing)
    theirs = F.cross_entropy(hidden @ weight.T, targets, reduction="sum", label_smoothing=smoothing)
    assert theirs > 500
    torch.testing.assert_close(ours, theirs)
    for mine, other in zip(*(torch.autograd.grad(loss, (hidden, weight)) for loss in (ours, theirs)), strict=True):
        torch.testing.assert_close(mine, other)
