import torch
from hypothesis import given
from hypothesis import strategies as st

from greffon.nn.masks import PADDING, attention_mask, right_padded, square

documents = st.lists(st.integers(0, 3), min_size=1, max_size=12)


@given(documents, st.booleans())
def test_mask_is_same_document_and_not_later(numbers: list[int], causal: bool) -> None:
    row = torch.tensor([numbers])
    mask = attention_mask(row, row, causal=causal)[0, 0]
    for i, mine in enumerate(numbers):
        for j, other in enumerate(numbers):
            assert mask[i, j].item() == (mine == other and (not causal or j <= i))


@given(documents)
def test_no_row_is_empty_and_nothing_real_sees_padding(numbers: list[int]) -> None:
    row = torch.tensor([numbers])
    mask = attention_mask(row, row, causal=True)[0, 0]
    assert mask.any(dim=1).all()
    real, padding = row[0] != PADDING, row[0] == PADDING
    assert not mask[real][:, padding].any()


@given(st.integers(1, 8), st.integers(0, 8))
def test_square_mask_of_later_queries_is_the_end_of_the_whole(queries: int, before: int) -> None:
    assert torch.equal(square(queries, queries + before), square(queries + before)[before:])


def test_right_padding_is_told_from_packing_and_left_padding() -> None:
    assert right_padded(torch.tensor([[1, 1, 1], [1, PADDING, PADDING]]))
    for rows in ([[1, 1, 2]], [[PADDING, 1, 1]], [[1, PADDING, 1]], [[1, 1, 1], [2, 2, PADDING]]):
        assert not right_padded(torch.tensor(rows))
