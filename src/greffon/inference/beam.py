"""Beam search with an encoder-decoder, over token ids; a beam of one is greedy search. Knows no text.

Sentences of a batch are independent: each gives the same tokens alone and in any batch. A source is
encoded once for all its beams. A sentence leaves the batch once none of its beams can still beat its
finished hypotheses.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from greffon.core.answering import Search
from greffon.core.cancellation import raise_if_cancelled
from greffon.inference.vocabulary import Vocabulary
from greffon.nn.encoder_decoder import EncoderDecoder
from greffon.nn.heads import VocabularyHead
from greffon.nn.model import Model
from greffon.objectives.seq2seq import padded_sources

BATCH_TOKENS = 4096
"""Maximum of padded source tokens × beams in a batch: enough to keep the cores busy."""


@dataclass(frozen=True)
class Hypothesis:
    """A target without its end token; its score is log-probability / length ** length_penalty, the end counted."""

    tokens: list[int]
    score: float


def search_all(
    model: Model, sources: Sequence[np.ndarray], limits: Sequence[int], search: Search, vocabulary: Vocabulary
) -> list[list[Hypothesis]]:
    """Search for the targets of all sources, in batches of similar length; the hypotheses of each come best first."""
    found: list[list[Hypothesis]] = [[] for _ in sources]
    for members in _batches([len(source) + 1 for source in sources], search.beam_size):
        some = search_batch(model, [sources[i] for i in members], [limits[i] for i in members], search, vocabulary)
        for i, hypotheses in zip(members, some, strict=True):
            found[i] = hypotheses
    return found


def _batches(lengths: Sequence[int], beam: int) -> Iterator[list[int]]:
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: lengths[i]):
        # Sorted by length, so the newest source is the longest and sets the padded size.
        if batch and (len(batch) + 1) * lengths[i] * beam > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch


@torch.inference_mode()
def search_batch(
    model: Model, sources: Sequence[np.ndarray], limits: Sequence[int], search: Search, vocabulary: Vocabulary
) -> list[list[Hypothesis]]:
    """Search for the targets of one batch; target i has at most `limits[i]` tokens, the end counted."""
    body, head = model.body, model.head
    assert isinstance(body, EncoderDecoder)
    assert isinstance(head, VocabularyHead)
    model.eval()
    device, beam = body.embedding.weight.device, search.beam_size
    tokens, documents = padded_sources(sources, vocabulary.closing, vocabulary.padding)
    source = body.encode(tokens.to(device), None if documents is None else documents.to(device))
    cache = body.new_cache(source, beam, max(limits))
    active = torch.arange(len(sources), device=device)
    limit = torch.tensor(limits, device=device)
    written = torch.full((len(sources), beam, 1), vocabulary.start, device=device)  # (N, K, length + 1)
    # All beams start alike: only the first may be continued.
    sums = torch.full((len(sources), beam), -torch.inf, device=device)
    sums[:, 0] = 0.0
    endings = [_Endings(beam) for _ in sources]
    ends, rules = torch.tensor(vocabulary.ends, device=device), vocabulary.generation
    for length in range(1, max(limits) + 1):
        raise_if_cancelled()
        hidden = body.decode_step(written[:, :, -1].reshape(-1, 1), cache)[:, 0]
        first, last = vocabulary.forced_first(length), (limit[active] == length).unsqueeze(1)
        if first is not None:
            found = _forced(sums, first, 2 * beam)
        else:
            found = _continuations(head, hidden, sums, vocabulary, length)
        if rules.forced_eos_token_id is not None and bool(last.any()):
            forced = _forced(sums, rules.forced_eos_token_id, found[0].shape[1])
            found = tuple(torch.where(last, one, other) for one, other in zip(forced, found, strict=True))
        values, origins, drawn = found
        candidates = torch.cat((_pick(written, origins), drawn.unsqueeze(-1)), dim=-1)  # (N, 2 K, length + 1)
        ended = torch.isin(drawn, ends) | last
        divisor = length**search.length_penalty
        # Only the best K candidates may end; the others are there so that K beams can continue.
        for n, rank in (ended & values.isfinite())[:, :beam].nonzero().tolist():
            target = [token for token in candidates[n, rank, 1:].tolist() if token not in vocabulary.ends]
            endings[int(active[n])].add(Hypothesis(target, values[n, rank].item() / divisor))
        sums, chosen = values.masked_fill(ended, -torch.inf).topk(beam)
        written = _pick(candidates, chosen)
        best = (sums[:, 0] / divisor).tolist()
        going = [n for n, i in enumerate(active.tolist()) if best[n] > endings[i].worst]
        if not going:
            break
        beams = origins.gather(1, chosen) + beam * torch.arange(len(active), device=device).unsqueeze(1)  # (N, K)
        if len(going) < len(active):
            kept = torch.tensor(going, device=device)
            cache.take_sentences(kept, beams[kept].flatten())
            active, written, sums = active[kept], written[kept], sums[kept]
        elif beam > 1:
            cache.take_beams(beams.flatten())
    return [ending.best for ending in endings]


def _continuations(
    head: VocabularyHead, hidden: Tensor, sums: Tensor, vocabulary: Vocabulary, step: int
) -> tuple[Tensor, ...]:
    """Return the 2 K best continuations of each sentence: summed log-probability, beam and token, (N, 2 K) each.

    It is enough to look at the 2 K best of each beam; where E tokens can end a text, at (E + 1) K.
    """
    sentences, beam = sums.shape
    count = (1 + len(vocabulary.ends)) * beam
    banned = vocabulary.never + vocabulary.banned_first(step)
    best, drawn, total = head.highest(  # (N × K, 2 K), (N × K, 2 K), (N × K, 1)
        hidden, count, banned, renormalize=vocabulary.generation.renormalize_logits
    )
    totals = (best - total + sums.view(-1, 1)).view(sentences, -1)  # (N, K × 2 K)
    values, places = totals.topk(min(count, totals.shape[1]))
    return values, places // best.shape[1], drawn.view(sentences, -1).gather(1, places)


def _forced(sums: Tensor, token: int, count: int) -> tuple[Tensor, ...]:
    """Return the same where each beam has one continuation, which is certain; the rest is impossible."""
    sentences, beam = sums.shape
    values = torch.cat((sums, sums.new_full((sentences, max(0, count - beam)), -torch.inf)), dim=1)
    origins = torch.arange(values.shape[1], device=sums.device).clamp(max=beam - 1).expand(sentences, -1)
    return values, origins, torch.full_like(origins, token)


def _pick(rows: Tensor, chosen: Tensor) -> Tensor:
    """Take rows (N, ·, T) by number (N, K): (N, K, T)."""
    return rows.gather(1, chosen.unsqueeze(-1).expand(-1, -1, rows.shape[-1]))


class _Endings:
    """Best finished hypotheses of one sentence, at most as many as there are beams."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.best: list[Hypothesis] = []

    def add(self, hypothesis: Hypothesis) -> None:
        self.best = sorted([*self.best, hypothesis], key=lambda h: -h.score)[: self.size]

    @property
    def worst(self) -> float:
        """Score that an unfinished beam must beat to be continued."""
        return self.best[-1].score if len(self.best) == self.size else -torch.inf
