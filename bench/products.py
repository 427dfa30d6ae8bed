"""sgemm alone: the arithmetic of a contest as nothing but products of large square matrices.

It is a contestant like the others and works in turn with them: what the machine could do at most while they worked.
"""

from bench.turns import Turns

SIDE = 2048


def multiply_in_turns(turns: Turns, work: float, flops: float) -> None:
    """Multiply for about as long as so much work takes, each piece of it so many operations."""
    import torch

    a, b, out = torch.randn(SIDE, SIDE), torch.randn(SIDE, SIDE), torch.empty(SIDE, SIDE)
    a_product = 2 * SIDE**3 / flops
    count = max(1, round(work / a_product))
    for _ in turns:
        for _product in range(count):
            torch.mm(a, b, out=out)
        turns.report(count * a_product)
