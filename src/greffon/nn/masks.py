"""The one place that makes attention masks. True means "may attend".

A mask answers one question: may the token at position i look at the token at position j? Three rules
give every mask in the package:

- both belong to the same **document** (an integer per token). Padding is a document of its own,
  `PADDING`, so a real token never sees padding and no row of a mask is ever empty;
- with a **causal** body, j does not come after i: the square mask of a language model;
- in a layer with **local** attention, j is within a window around i, or before it in a causal body.
"""

import torch
from torch import Tensor

PADDING = 0
"""The document number of padding; real documents count from 1."""


def square(queries: int, keys: int | None = None, device: torch.device | None = None) -> Tensor:
    """Let each position see itself and what came before; with more keys, the queries are the last ones.

    >>> square(3).int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    keys = queries if keys is None else keys
    seen = torch.ones(queries, keys, dtype=torch.bool, device=device)
    return seen.tril(diagonal=keys - queries)


def window(queries: int, keys: int, size: int, *, causal: bool, device: torch.device | None = None) -> Tensor:
    """Let each position see a window: half of `size` to each side; in a causal body, itself and what came before.

    With more keys, the queries are the last ones.

    >>> window(4, 4, 2, causal=False).int().tolist()
    [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    >>> window(4, 4, 2, causal=True).int().tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    """
    places = torch.arange(keys, device=device)
    distance = places[keys - queries :].unsqueeze(1) - places  # (Q, K)
    return (distance >= 0) & (distance < size) if causal else distance.abs() <= size // 2


def same_document(queries: Tensor, keys: Tensor) -> Tensor:
    """Compare document numbers: (B, Q) and (B, K) → (B, 1, Q, K), True where they are equal."""
    return (queries.unsqueeze(-1) == keys.unsqueeze(-2)).unsqueeze(1)


def right_padded(document_ids: Tensor) -> bool:
    """Whether each row is one document with nothing but padding behind it.

    A causal body then needs no mask but the square one: nothing real looks to the right, where
    padding is. The states at padding differ then, and are not used.
    """
    return bool((document_ids <= 1).all() and (document_ids[:, 1:] <= document_ids[:, :-1]).all())


def attention_mask(queries: Tensor, keys: Tensor, *, causal: bool) -> Tensor:
    """Make the mask from (B, Q) queries to (B, K) keys, as (B, 1, Q, K) for all heads."""
    mask = same_document(queries, keys)
    if causal:
        mask = mask & square(queries.shape[1], keys.shape[1], device=queries.device)
    return mask
