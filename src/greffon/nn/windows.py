"""Windows: the parts of a text that is longer than the context of a body, one a row, and their mean."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class TextWindows:
    """Which text each row is a window of, and how many of the text's tokens it holds."""

    texts: Tensor  # (B,): numbers of the texts from 0 on, in ascending order
    weights: Tensor  # (B,): number of text tokens, as floating point numbers
    each: int = 1  # texts of one target: 2 for a pair

    def mean(self, vectors: Tensor) -> Tensor:
        """Return the vector of each text, the mean of its windows' vectors weighed by their tokens: (B, W) → (N, W).

        The vector of a text of one window is that window's, to the last bit.
        """
        number = int(self.texts[-1]) + 1
        total = self.weights.new_zeros(number).index_add(0, self.texts, self.weights)
        shares = (self.weights / total[self.texts]).unsqueeze(1)  # (B, 1)
        return vectors.new_zeros(number, vectors.shape[1]).index_add(0, self.texts, vectors * shares)

    def rows_of(self, first: int, last: int) -> slice:
        """Return the rows of the targets from number `first` up to, not including, `last`."""
        ends = torch.searchsorted(
            self.texts, self.each * torch.tensor([first, last], device=self.texts.device)
        ).tolist()
        return slice(*ends)

    def part(self, rows: slice) -> "TextWindows":
        """Return the windows of some rows, whose texts are numbered from 0 again."""
        return TextWindows(self.texts[rows] - self.texts[rows.start], self.weights[rows], self.each)

    def to(self, device: torch.device) -> "TextWindows":
        """Return the windows on another device."""
        return TextWindows(self.texts.to(device), self.weights.to(device), self.each)
