import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from greffon.core.errors import UserError
from greffon.core.graft import Graft
from greffon.nn.heads import ClassHead, pool

POOLINGS = ["last", "mean", "mean-max"]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.sampled_from(POOLINGS), st.integers(0, 5))
def test_padding_is_never_read(lengths: list[int], pooling: str, extra: int) -> None:
    torch.manual_seed(0)
    width = max(lengths) + extra
    hidden = torch.randn(len(lengths), width, 6)
    documents = (torch.arange(width) < torch.tensor(lengths).unsqueeze(1)).long()
    found = pool(hidden, documents, pooling)
    for row, length in enumerate(lengths):
        torch.testing.assert_close(found[row], pool(hidden[row : row + 1, :length], None, pooling)[0])


def test_each_pooling_reads_what_it_says() -> None:
    hidden = torch.tensor([[[1.0, -5.0], [2.0, -1.0], [9.0, 9.0]]])
    documents = torch.tensor([[1, 1, 0]])
    assert pool(hidden, documents, "last").tolist() == [[2.0, -1.0]]
    assert pool(hidden, documents, "mean").tolist() == [[1.5, -3.0]]
    assert pool(hidden, documents, "mean-max").tolist() == [[1.5, -3.0, 2.0, -1.0]]


def test_the_founding_head_has_402_parameters() -> None:
    assert sum(p.numel() for p in ClassHead(200, 2, Graft(pooling="last")).parameters()) == 402


@pytest.mark.parametrize("activation", ["gelu", "identity"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_pooler_is_a_dense_layer_an_activation_and_a_norm(activation: str, bias: bool) -> None:
    torch.manual_seed(0)
    head = ClassHead(6, 3, Graft(pooling="mean", pooler_activation=activation, pooler_norm=True, pooler_bias=bias))
    hidden = torch.randn(4, 5, 6)
    assert (head.inner.bias is not None) == bias
    dense = hidden.mean(1) @ head.inner.weight.T
    bent = torch.nn.functional.gelu(dense) if activation == "gelu" else dense
    normed = (bent - bent.mean(1, keepdim=True)) / (bent.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()
    torch.testing.assert_close(head(hidden), normed @ head.out.weight.T)
    assert {name for name, _ in head.norm.named_parameters()} == {"weight"}


def test_a_norm_needs_a_dense_layer() -> None:
    with pytest.raises(UserError, match="pooler_bias=False is that of a dense layer, and pooler_activation=none"):
        Graft(pooler_bias=False)
    with pytest.raises(UserError, match="pooler_norm=True follows a dense layer"):
        Graft(pooler_norm=True)
