"""Attention weights of every head of a run on a given text: `greffon.attention`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from torch import nn

from greffon.core.errors import UserError
from greffon.core.json_results import JsonResult
from greffon.inference.loading import load
from greffon.inference.translate import translate
from greffon.nn.attention import watching
from greffon.nn.body import Body
from greffon.nn.encoder_decoder import EncoderDecoder
from greffon.objectives.labelled_texts import LabelledTexts
from greffon.runs.run import Run

Kind = Literal["self", "source", "target", "cross"]
KINDS: tuple[Kind, ...] = get_args(Kind)
"""`self` is the attention of a body with one stack. Of a translator, `source` and `target` are the self-attention of
its encoder and its decoder, and `cross` is the attention of the target to the source."""


@dataclass(frozen=True)
class HeadHabits(JsonResult):
    """Statistics of one head on one text, as means over the queries.

    In self-attention the first query is left out: no token comes before it. In cross-attention, `distance`,
    `previous` and `itself` are None, because queries and keys are tokens of different texts.
    """

    layer: int
    """Layer, counted from 1."""
    head: int
    """Head, counted from 1."""
    distance: float | None
    """Mean distance between query and key, in tokens, weighted by attention."""
    entropy: float
    """Entropy of the weights in bits: 0 for all weight on one token, log2(n) for equal weight on n tokens."""
    previous: float | None
    """Weight on the token before the query."""
    first: float
    """Weight on the first token of the text."""
    itself: float | None
    """Weight on the query's own token."""


@dataclass(frozen=True, eq=False)
class AttentionWeights(JsonResult):
    """Attention weights of all heads; the weights of each query add up to 1."""

    kind: Kind
    """Which attention: self, or of a translator source, target or cross."""
    queries: list[str]
    """Tokens that attend; in cross-attention, the target tokens that are predicted there."""
    keys: list[str]
    """Tokens that are attended to."""
    weights: np.ndarray
    """Array of shape (layers, heads, queries, keys)."""

    @property
    def layers(self) -> int:
        """Number of layers."""
        return int(self.weights.shape[0])

    @property
    def heads(self) -> int:
        """Number of heads of each layer."""
        return int(self.weights.shape[1])

    def chosen(self, layer: int | None = None, head: int | None = None) -> list[tuple[int, int]]:
        """Return the (layer, head) pairs with this layer and this head, counted from 1; None stands for all."""
        for name, number, count in (("layer", layer, self.layers), ("head", head, self.heads)):
            if number is not None and not 1 <= number <= count:
                raise UserError(f"there is no {name} {number}; choose {'1' if count == 1 else f'from 1 to {count}'}")
        layers = range(1, self.layers + 1) if layer is None else [layer]
        heads = range(1, self.heads + 1) if head is None else [head]
        return [(i, j) for i in layers for j in heads]

    def of(self, layer: int, head: int) -> np.ndarray:
        """Return the weights of one head, (queries, keys); layer and head are counted from 1."""
        ((layer, head),) = self.chosen(layer, head)
        out: np.ndarray = self.weights[layer - 1, head - 1]
        return out

    def habits(self) -> list[HeadHabits]:
        """Return the statistics of each head, layer by layer."""
        return [_habits(self.of(i, j), i, j, self.kind != "cross") for i, j in self.chosen()]


def _habits(weights: np.ndarray, layer: int, head: int, same_text: bool) -> HeadHabits:
    looking = weights[1:] if same_text else weights
    entropy = -(looking * np.log2(np.maximum(looking, 1e-30))).sum(axis=1).mean()
    first = looking[:, 0].mean()
    if not same_text:
        return HeadHabits(layer, head, None, float(entropy), None, float(first), None)
    places = np.arange(len(weights))
    away = np.abs(places[1:, None] - places)
    return HeadHabits(
        layer,
        head,
        distance=float((looking * away).sum(axis=1).mean()),
        entropy=float(entropy),
        previous=float(np.diagonal(looking).mean()),
        first=float(first),
        itself=float(np.diagonal(looking, offset=1).mean()),
    )


def attention(run: str | Path | Run, text: str, to: str | None = None, *, kind: Kind | None = None) -> AttentionWeights:
    """Return the attention weights of every head on a text: `attention(run, "Un livre.").weights.shape`.

    For a translator, `to` is the target text (by default, its own translation), and `kind` is `source`,
    `target` or `cross` (default). Every other run has one kind, `self`.
    """
    run = Run.open(run)
    own: tuple[Kind, ...] = ("source", "target", "cross") if run.recipe.objective == "seq2seq" else ("self",)
    kind = own[-1] if kind is None else kind
    if kind not in own:
        raise UserError(f"{run.path} is a {run.recipe.objective} run without {kind} attention; choose {_listed(own)}")
    if not text.strip():
        raise UserError("the text is empty; give a sentence")
    return _of_pair(run, text, to, kind) if kind != "self" else _of_text(run, text, to)


def _of_text(run: Run, text: str, to: str | None) -> AttentionWeights:
    if to is not None:
        raise UserError(f"{run.path} is a {run.recipe.objective} run and reads one text; leave out the translation")
    prepared = LabelledTexts(run.recipe, run.tokenizer)
    ids = _fitting(run, run.tokenizer.encode(text), "text", prepared.room)
    row = prepared.lay_out(ids)
    body = load(run).body
    assert isinstance(body, Body)
    weights = _watch(body, (row,), body.blocks)
    names = [run.tokenizer.token(int(id)) for id in row]
    return AttentionWeights("self", names, names, weights)


def _of_pair(run: Run, text: str, to: str | None, kind: Kind) -> AttentionWeights:
    tokenizer, body = run.tokenizer, load(run).body
    assert isinstance(body, EncoderDecoder)
    room = run.recipe.shape.context - 1
    left = _fitting(run, tokenizer.encode(text), "text", room)
    translation = translate(run, text)[0].translation if to is None else to
    right = _fitting(run, tokenizer.encode_targets([translation])[0], "translation", room)
    source, target = [*left, tokenizer.end], [tokenizer.start, *right]
    written = [*right, tokenizer.end]  # each position of the target writes the next token
    blocks = body.encoder.blocks if kind == "source" else body.decoder.blocks
    weights = _watch(body, (np.array(source), np.array(target)), blocks, "cross" if kind == "cross" else "attention")
    looks, seen = {"source": (source, source), "target": (target, target), "cross": (written, source)}[kind]
    return AttentionWeights(kind, [tokenizer.token(id) for id in looks], [tokenizer.token(id) for id in seen], weights)


@torch.no_grad()
def _watch(body: nn.Module, rows: Sequence[np.ndarray], blocks: nn.ModuleList, layer: str = "attention") -> np.ndarray:
    """Run the body on one row (of each side); stack the weights of the named layer of each block: (layers, H, Q, K)."""
    with watching() as seen:
        device = next(body.parameters()).device
        body(*(torch.from_numpy(row).unsqueeze(0).to(device) for row in rows))
    return torch.stack([seen[getattr(block, layer)][0] for block in blocks]).cpu().numpy()


def _fitting(run: Run, ids: list[int], what: str, room: int) -> list[int]:
    if len(ids) > room:
        raise UserError(f"the {what} has {len(ids):,} tokens, and {run.path} reads 1 to {room:,}; shorten it")
    return ids


def _listed(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))
