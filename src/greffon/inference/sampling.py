"""From a causal model to token ids: greedy and sampled, with a key/value memory. Knows no text.

Rows of a batch do not touch each other: each has its own random generator, and padding is never
seen, so a prompt gives the same tokens alone and in company.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from greffon.core.cancellation import raise_if_cancelled
from greffon.core.errors import UserError
from greffon.nn.body import Decoder, DecoderCache
from greffon.nn.masks import PADDING
from greffon.nn.model import Model


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn: temperature 0 takes the likeliest; 0 and 1.0 switch the cuts off."""

    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 0.95

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise UserError(f"temperature is {self.temperature}; choose 0 (the likeliest token) or more")
        if self.top_k < 0:
            raise UserError(f"top_k is {self.top_k}; choose a number of tokens, or 0 for all")
        if not 0 < self.top_p <= 1:
            raise UserError(f"top_p is {self.top_p}; choose a share above 0 and up to 1")


COLD = 1e-4
"""Below this temperature only the likeliest token is left, and a division would overflow."""
GREEDY = Sampling(temperature=0.0, top_p=1.0)
SEVERAL = 256
"""Tokens among which the cut is looked for first: to sort a whole vocabulary takes longer than to compute it."""


def candidates(logits: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Return the tokens that sampling draws from, and their shares, which are 0 beyond a cut: (B, V) → (B, K) each."""
    logits, vocabulary = logits / sampling.temperature, logits.shape[-1]
    if 0 < sampling.top_k < vocabulary:
        best = logits.topk(sampling.top_k)
        tokens, shares = best.indices, best.values.softmax(dim=-1)
    elif sampling.top_p == 1:
        return torch.arange(vocabulary).expand_as(logits), logits.softmax(dim=-1)
    else:
        several, shares = SEVERAL, logits.softmax(dim=-1)
        while True:
            best = shares.topk(min(several, vocabulary))
            if several >= vocabulary or bool((best.values.sum(dim=-1) >= sampling.top_p).all()):
                break
            several *= 8
        tokens, shares = best.indices, best.values
    # A token stays if those before it have not filled the share yet; the first always stays.
    beyond = shares.cumsum(dim=-1) - shares >= sampling.top_p
    return tokens, shares.masked_fill(beyond, 0.0)


def draw(logits: Tensor, sampling: Sampling, randoms: Sequence[torch.Generator]) -> list[int]:
    """Draw the next token of each row by one number from its own generator; the likeliest needs no dice."""
    if sampling.temperature < COLD:
        best: list[int] = logits.numpy().argmax(axis=-1).tolist()  # several times as fast as PyTorch's
        return best
    tokens, shares = candidates(logits, sampling)
    reach = shares.double().cumsum(dim=-1)
    dice = torch.cat([torch.rand(1, dtype=torch.float64, generator=random) for random in randoms])
    places = (reach <= (dice * reach[:, -1]).unsqueeze(1)).sum(dim=-1)
    # Rounded up to the whole, a number would point behind the last token that has a share.
    last = (reach < reach[:, -1:]).sum(dim=-1)
    drawn: list[int] = tokens.gather(1, torch.minimum(places, last).unsqueeze(1)).squeeze(1).tolist()
    return drawn


class Reader:
    """Reads token by token with a memory; at the end of the context it goes on with the later half."""

    def __init__(self, model: Model, prompts: Sequence[Sequence[int]], padding: int) -> None:
        assert isinstance(model.body, Decoder), "only a causal body can read on"
        self.body, self.head = model.body, model.head
        self.context = self.body.shape.context
        self.read: list[list[int]] = [list(prompt) for prompt in prompts]
        self.padding = padding
        self.memory: DecoderCache | None = None

    def _read_all(self) -> Tensor:
        """Read what there is of each row from a fresh memory, padded on the left."""
        body = self.body
        longest = max(map(len, self.read))
        kept = self.context if longest <= self.context else self.context // 2
        rows = [row[-kept:] for row in self.read]
        width = max(map(len, rows))
        tokens = torch.tensor([[self.padding] * (width - len(row)) + row for row in rows])
        self.pads = torch.tensor([width - len(row) for row in rows]).unsqueeze(1)
        self.padded = bool(self.pads.any())
        positions = torch.arange(width).unsqueeze(0) - self.pads
        documents = torch.where(positions < 0, PADDING, 1) if self.padded else None
        self.memory = body.new_cache(len(rows), self.context)
        device = body.embedding.weight.device
        documents = None if documents is None else documents.to(device)
        return body.decode_step(tokens.to(device), self.memory, documents, positions.clamp(min=0).to(device))

    def logits(self) -> Tensor:
        """Return the logits of the next token of each row: (B, V)."""
        body = self.body
        if self.memory is None or self.memory.filled == self.context:
            hidden = self._read_all()
        else:
            device = body.embedding.weight.device
            tokens = torch.tensor([row[-1:] for row in self.read], device=device)
            positions = (self.memory.filled - self.pads).to(device)
            documents = torch.ones_like(tokens) if self.padded else None
            hidden = body.decode_step(tokens, self.memory, documents, positions)
        out: Tensor = self.head(hidden[:, -1])
        return out


@dataclass(frozen=True, eq=False)
class Draw:
    """One step: the token drawn in each row, and what the model itself thought of every token."""

    tokens: list[int]
    logits: Tensor  # (B, V), before temperature and cuts

    @property
    def probabilities(self) -> Tensor:
        """What the model itself thought of every token: (B, V)."""
        return self.logits.softmax(dim=-1)


@torch.inference_mode()
def generate_tokens(
    model: Model,
    prompts: Sequence[Sequence[int]],
    tokens: int,
    sampling: Sampling,
    *,
    seed: int,
    end: int,
    padding: int,
    banned: Sequence[int] = (),
) -> Iterator[Draw]:
    """Yield the next token of each row, step by step; `end` again and again once a row has ended."""
    model.eval()
    reader = Reader(model, prompts, padding)
    randoms = [torch.Generator().manual_seed(seed) for _ in prompts]
    ended = [False] * len(prompts)
    never = torch.tensor(list(banned), dtype=torch.long)
    for _ in range(tokens):
        raise_if_cancelled()
        logits = reader.logits().float().cpu()
        logits[:, never] = -torch.inf
        going = [row for row, over in enumerate(ended) if not over]
        drawn = [end] * len(prompts)
        asked = logits if len(going) == len(prompts) else logits[going]
        for row, token in zip(going, draw(asked, sampling, [randoms[row] for row in going]), strict=True):
            drawn[row] = token
            ended[row] = token == end
        yield Draw(drawn, logits)
        if all(ended):
            return
        for read, token in zip(reader.read, drawn, strict=True):
            read.append(token)
