"""Generation with a causal model, over token ids: greedy or sampled, with a key/value cache. Knows no text.

Rows of a batch are independent: each has its own random generator, and padding is masked, so that a prompt
gives the same tokens alone and in any batch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from greffon.core.answering import Sampling
from greffon.core.cancellation import raise_if_cancelled
from greffon.inference.vocabulary import Vocabulary
from greffon.nn.body import Decoder, DecoderCache
from greffon.nn.masks import PADDING
from greffon.nn.model import Model

COLD = 1e-4
"""Below this temperature the most probable token is taken: dividing by it could overflow."""
GREEDY = Sampling(temperature=0.0, top_p=1.0)
SEVERAL = 256
"""Number of tokens that are sorted first for top-p: to sort a whole vocabulary takes longer than to compute it."""


def candidates(logits: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Return the candidates and their probabilities, 0 outside top-k and top-p: (B, V) → (B, K) each."""
    logits, vocab_size = logits / sampling.temperature, logits.shape[-1]
    if 0 < sampling.top_k < vocab_size:
        best = logits.topk(sampling.top_k)
        tokens, shares = best.indices, best.values.softmax(dim=-1)
    elif sampling.top_p == 1:
        return torch.arange(vocab_size).expand_as(logits), logits.softmax(dim=-1)
    else:
        several, shares = SEVERAL, logits.softmax(dim=-1)
        while True:
            best = shares.topk(min(several, vocab_size))
            if several >= vocab_size or bool((best.values.sum(dim=-1) >= sampling.top_p).all()):
                break
            several *= 8
        tokens, shares = best.indices, best.values
    # A token stays if those before it do not add up to top_p yet; the first always stays.
    beyond = shares.cumsum(dim=-1) - shares >= sampling.top_p
    return tokens, shares.masked_fill(beyond, 0.0)


def draw(logits: Tensor, sampling: Sampling, randoms: Sequence[torch.Generator]) -> list[int]:
    """Draw the next token of each row with one random number from its own generator; greedy search draws none."""
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
    """Computes the logits of the next token with a cache; when the context is full, it keeps the later half."""

    def __init__(self, model: Model, prompts: Sequence[Sequence[int]], padding: int) -> None:
        assert isinstance(model.body, Decoder), "only a decoder has a cache"
        self.body, self.head = model.body, model.head
        self.context = self.body.shape.context
        self.read: list[list[int]] = [list(prompt) for prompt in prompts]
        self.padding = padding
        self.cache: DecoderCache | None = None

    def _read_all(self) -> Tensor:
        """Compute the hidden states of all rows with a new cache, padded on the left."""
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
        self.cache = body.new_cache(len(rows), self.context)
        device = body.embedding.weight.device
        documents = None if documents is None else documents.to(device)
        return body.decode_step(tokens.to(device), self.cache, documents, positions.clamp(min=0).to(device))

    def logits(self) -> Tensor:
        """Return the logits of the next token of each row: (B, V)."""
        body = self.body
        if self.cache is None or self.cache.filled == self.context:
            hidden = self._read_all()
        else:
            device = body.embedding.weight.device
            tokens = torch.tensor([row[-1:] for row in self.read], device=device)
            positions = (self.cache.filled - self.pads).to(device)
            documents = torch.ones_like(tokens) if self.padded else None
            hidden = body.decode_step(tokens, self.cache, documents, positions)
        out: Tensor = self.head(hidden[:, -1])
        return out


@dataclass(frozen=True, eq=False)
class Draw:
    """One step: the token drawn in each row, and the logits."""

    tokens: list[int]
    logits: Tensor  # (B, V), before temperature and cuts

    @property
    def probabilities(self) -> Tensor:
        """Probability of every token, before temperature, top-k and top-p: (B, V)."""
        return self.logits.softmax(dim=-1)


def _obey(logits: Tensor, vocabulary: Vocabulary, step: int, prompt: int, *, last: bool) -> None:
    """Apply what holds for the first tokens behind a prompt, and for the last one, to the logits (V) of a row."""
    logits[list(vocabulary.banned_first(step, prompt))] = -torch.inf
    forced = vocabulary.generation.forced_eos_token_id if last else None
    forced = vocabulary.forced_first(step, prompt) if forced is None else forced
    if forced is not None:
        logits[:] = -torch.inf
        logits[forced] = 0.0


@torch.inference_mode()
def generate_tokens(
    model: Model,
    prompts: Sequence[Sequence[int]],
    tokens: int,
    sampling: Sampling,
    *,
    seed: int,
    vocabulary: Vocabulary,
) -> Iterator[Draw]:
    """Yield the next token of each row, step by step; a row that has ended yields the first token that ends a text."""
    model.eval()
    reader, ends = Reader(model, prompts, vocabulary.padding), vocabulary.ends
    randoms = [torch.Generator().manual_seed(seed) for _ in prompts]
    ended = [False] * len(prompts)
    never = torch.tensor(vocabulary.never, dtype=torch.long)
    for step in range(1, tokens + 1):
        raise_if_cancelled()
        logits = reader.logits().float().cpu()
        logits[:, never] = -torch.inf
        if step <= 2 or step == tokens:
            for row, prompt in enumerate(prompts):
                _obey(logits[row], vocabulary, step, len(prompt), last=step == tokens)
        going = [row for row, over in enumerate(ended) if not over]
        drawn = [ends[0]] * len(prompts)
        asked = logits if len(going) == len(prompts) else logits[going]
        for row, token in zip(going, draw(asked, sampling, [randoms[row] for row in going]), strict=True):
            drawn[row] = token
            ended[row] = token in ends
        yield Draw(drawn, logits)
        if all(ended):
            return
        for read, token in zip(reader.read, drawn, strict=True):
            read.append(token)
