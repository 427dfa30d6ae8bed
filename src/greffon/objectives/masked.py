"""The masked language model: predict hidden tokens from both sides (BERT).

Of the chosen tokens, 80 % are replaced by [MASK], 10 % by a random token, and 10 % are left as they are, so
that a body cannot rely on [MASK] to know which positions are predicted. With pairs of texts there is an auxiliary
loss: whether the second follows the first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from greffon.core.recipe import Masking
from greffon.data.segmentation import Words
from greffon.data.sentence_pairs import Pair
from greffon.data.tokenizer import Tokenizer
from greffon.nn.heads import MaskedHead, PairHead
from greffon.nn.masks import PADDING
from greffon.nn.model import Model
from greffon.objectives.batch import IGNORE, AuxiliaryLoss, Batch, Pairs, Score, documents_of, pad
from greffon.objectives.lm_loss import vocabulary_loss

HIDDEN, REPLACED = 0.8, 0.1
"""Shares of the chosen tokens that become [MASK], or a random token (Devlin et al., 2019)."""


@dataclass(frozen=True)
class Roles:
    """The ids of the six special tokens."""

    pad: int
    start: int
    end: int
    cls: int
    sep: int
    mask: int


@dataclass(frozen=True)
class Masked:
    """Batches of packed windows or of pairs, and the loss of their hidden tokens."""

    names: Roles
    ordinary: np.ndarray  # ids of ordinary tokens
    byte_lengths: np.ndarray
    length: int
    mask_rate: float
    whole_words: Words | None = None  # for whole-word masking

    @classmethod
    def over(cls, tokenizer: Tokenizer, length: int, masking: Masking) -> "Masked":
        """Build the objective for a tokenizer's ids."""
        names = Roles(**{f.name: getattr(tokenizer, f.name) for f in fields(Roles)})
        whole_words = Words(tokenizer) if masking.whole_word_masking else None
        return cls(names, tokenizer.ordinary, tokenizer.byte_lengths, length, masking.mask_rate, whole_words)

    def batch(self, windows: Sequence[np.ndarray], random: np.random.Generator) -> Batch:
        """Build a batch from windows of a token store: a document is [CLS] … [SEP]."""
        names = self.names
        lengths = [min(len(window), self.length) for window in windows]
        rows = pad([window[: self.length] for window in windows], names.pad, self.length)
        document_ids, positions = documents_of(rows, lengths, names.start)
        rows[rows == names.start] = names.cls
        rows[rows == names.end] = names.sep
        return self._masked(rows, document_ids, positions, None, random)

    def pair_batch(self, rows: Sequence[Sequence[Pair]], random: np.random.Generator) -> Batch:
        """Build a batch from rows of pairs: each is [CLS] first [SEP] second [SEP], segments 0 and 1."""
        names = self.names
        shape = (len(rows), self.length)
        tokens = np.full(shape, names.pad, dtype=np.int64)
        document_ids, positions, segments = np.full(shape, PADDING), np.zeros(shape, int), np.zeros(shape, int)
        cls_positions, targets = [], []
        for row, pairs in enumerate(rows):
            begin = 0
            for number, pair in enumerate(pairs, start=1):
                second = [*pair.second, names.sep] if len(pair.second) else []
                ids = [names.cls, *pair.first, names.sep, *second][: self.length - begin]
                end, middle = begin + len(ids), begin + len(pair.first) + 2
                tokens[row, begin:end], document_ids[row, begin:end] = ids, number
                positions[row, begin:end] = np.arange(len(ids))
                segments[row, middle:end] = 1
                # A pair whose second text was cut off has no target.
                if pair.follows is not None and middle < end:
                    cls_positions.append(row * self.length + begin)
                    targets.append(int(pair.follows))
                begin = end
        found = Pairs(
            torch.from_numpy(segments),
            torch.tensor(cls_positions, dtype=torch.long),
            torch.tensor(targets, dtype=torch.long),
        )
        return self._masked(tokens, document_ids, positions, found, random)

    def _masked(
        self,
        tokens: np.ndarray,
        document_ids: np.ndarray,
        positions: np.ndarray,
        pairs: Pairs | None,
        random: np.random.Generator,
    ) -> Batch:
        """Choose the targets, and hide them."""
        names = self.names
        special = np.isin(tokens, (names.pad, names.cls, names.sep)) | (document_ids == PADDING)
        chosen = self._choose(tokens, random) & ~special
        targets = np.where(chosen, tokens, IGNORE)
        fate = random.random(tokens.shape)
        other = random.choice(self.ordinary, tokens.shape)
        shown = np.where(chosen & (fate < HIDDEN), names.mask, tokens)
        shown = np.where(chosen & (fate >= HIDDEN) & (fate < HIDDEN + REPLACED), other, shown)
        real = tokens[chosen]
        return Batch(
            torch.from_numpy(shown),
            torch.from_numpy(document_ids),
            torch.from_numpy(positions),
            torch.from_numpy(targets),
            count=len(real),
            bytes=int(self.byte_lengths[real].sum()),
            pairs=pairs,
        )

    def _choose(self, tokens: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Draw tokens, or whole words, at the mask rate."""
        drawn: np.ndarray = random.random(tokens.shape) < self.mask_rate
        if self.whole_words is not None:
            # Every token of a word shares the draw of its first token.
            columns = np.arange(tokens.shape[1])
            first = np.maximum.accumulate(np.where(self.whole_words.begins(tokens), columns, 0), axis=1)
            drawn = np.take_along_axis(drawn, first, axis=1)
        return drawn

    def score(self, model: Model, batch: Batch) -> Score:
        """Sum the loss over the hidden tokens, and the auxiliary loss if there is one."""
        segments = None if batch.pairs is None else batch.pairs.segments
        hidden = model.body(batch.tokens, batch.document_ids, batch.positions, segments)
        head, auxiliary = model.head, None
        if isinstance(head, MaskedHead):
            if batch.pairs is not None:
                auxiliary = _pair_score(head.pair, hidden, batch.pairs)
            head = head.vocabulary
        return Score(vocabulary_loss(head, hidden, batch), batch.count, auxiliary)


def _pair_score(head: PairHead, hidden: Tensor, pairs: Pairs) -> AuxiliaryLoss:
    """Sum the loss over the pairs."""
    logits = head(hidden.flatten(0, 1)[pairs.cls_positions])
    loss = F.cross_entropy(logits, pairs.targets, reduction="sum")
    right = int((logits.argmax(dim=-1) == pairs.targets).sum())
    return AuxiliaryLoss(loss, len(pairs.targets), ("token_loss", "pair_loss"), right)
