"""Bodies: token ids in, hidden states out. They know nothing of tasks, labels or text."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from greffon.core.shape import Shape
from greffon.nn.attention import KVCache, watched
from greffon.nn.blocks import Block, embedding_norm, final_norm
from greffon.nn.chunks import Chunks, pays
from greffon.nn.dropout import Dropout
from greffon.nn.masks import PADDING, attention_mask, right_padded, square, window
from greffon.nn.positions import make_local_positions, make_positions


class DecoderCache:
    """The cache of a decoder: keys, values and document numbers of the tokens so far."""

    def __init__(self, layers: list[KVCache], document_ids: Tensor) -> None:
        self.layers = layers
        self.document_ids = document_ids  # (B, length)
        self.filled = 0


@torch.no_grad()
def initialise(module: nn.Module, small: bool) -> None:
    """Initialise the weights of one module.

    Linear layers keep the variance of their input. Embeddings that are multiplied by √width have a standard
    deviation of 1/√width. They are `small` where they are not multiplied, and where the head is tied to them: the
    last hidden state still resembles the embedding of its own token, and would predict that token again.
    """
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=module.in_features**-0.5)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.02 if small else module.embedding_dim**-0.5)


@torch.no_grad()
def quiet_residuals(blocks: nn.ModuleList) -> None:
    """Scale the output layers of all N sublayers by 1/√N, so that their sum keeps its variance at the start."""
    for block in blocks:
        assert isinstance(block, Block)
        for last in block.output_linears:
            last.weight.mul_((len(block.output_linears) * len(blocks)) ** -0.5)


class Body(nn.Module):
    """Embedding (× √width), positions and a stack of blocks; subclasses choose the attention mask."""

    causal: bool

    def __init__(self, shape: Shape, vocab_size: int) -> None:
        super().__init__()
        self.shape = shape
        self.vocab_size = vocab_size
        self.hidden_size = shape.hidden_size
        self.embedding = nn.Embedding(vocab_size, shape.hidden_size)
        self.segments = nn.Embedding(shape.segments, shape.hidden_size) if shape.segments else None
        self.positions = make_positions(shape)
        self.local_positions = make_local_positions(shape)
        self.embedding_norm = embedding_norm(shape)
        self.dropout = Dropout(shape.dropout)
        self.blocks = nn.ModuleList(Block(shape, layer) for layer in range(shape.layers))
        self.norm = final_norm(shape)
        self.apply(lambda module: initialise(module, shape.tie_embeddings or not shape.scale_embeddings))
        quiet_residuals(self.blocks)

    def token_embeddings(self, tokens: Tensor, perturbation: Tensor | None = None) -> Tensor:
        """Return the embeddings of tokens, × √width where the shape says so: (B, T) → (B, T, W).

        `perturbation` is added to them.
        """
        x: Tensor = self.embedding(tokens)
        if self.shape.scale_embeddings:
            x = x * math.sqrt(self.hidden_size)
        return x if perturbation is None else x + perturbation

    def embed(
        self, tokens: Tensor, positions: Tensor, segments: Tensor | None = None, perturbation: Tensor | None = None
    ) -> Tensor:
        """Return the embeddings with positions and segments, normalised where the shape says so."""
        x = self.token_embeddings(tokens, perturbation)
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(tokens) if segments is None else segments)
        out: Tensor = self.dropout(self.embedding_norm(self.positions.add(x, positions)))
        return out

    def forward(
        self,
        tokens: Tensor,
        document_ids: Tensor | None = None,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
        perturbation: Tensor | None = None,
    ) -> Tensor:
        """Compute the hidden states of whole rows: (B, T) → (B, T, W).

        `document_ids` numbers the document of each token (`PADDING` for padding); without it each row
        is one document. `positions` counts from the start of each document. `segments` numbers the
        two texts of a pair, 0 and 1, where the body has segments; the default is 0.
        `perturbation` (B, T, W) is added to the embeddings.
        """
        if positions is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device).unsqueeze(0)
        mask = None
        if document_ids is not None and not (self.causal and right_padded(document_ids)):
            mask = attention_mask(document_ids, document_ids, causal=self.causal)
        x = self.embed(tokens, positions, segments, perturbation)
        if pays(tokens.shape[1], self.shape.local_attention) and not (watched() or torch.onnx.is_in_onnx_export()):
            known = torch.zeros_like(tokens) if document_ids is None or mask is None else document_ids
            return self.read(x, positions, mask, Chunks(known, self.shape.local_attention, causal=self.causal))
        return self.read(x, positions, mask, self._near(tokens.shape[1], mask))

    def read(
        self,
        x: Tensor,
        positions: Tensor,
        mask: Tensor | None,
        near: Tensor | Chunks | None,
        layers: Sequence[KVCache] | None = None,
    ) -> Tensor:
        """Pass embeddings (B, T, W) through the blocks.

        `mask` is that of global layers, `near` that of local ones, `layers` the past. Without a mask, a causal body
        that reads whole rows has the square one.
        """
        rotation = self.positions.rotation(positions)
        turned = rotation if self.local_positions is None else self.local_positions.rotation(positions)
        square_only = self.causal and mask is None and layers is None
        for i, block in enumerate(self.blocks):
            cache = None if layers is None else layers[i]
            if self.shape.is_local(i):
                x = block(x, near, turned, causal=False, cache=cache)
            else:
                x = block(x, mask, rotation, causal=square_only, cache=cache)
        out: Tensor = self.norm(x)
        return out

    def _near(self, queries: int, mask: Tensor | None, filled: int = 0) -> Tensor | None:
        """Return the mask of layers with local attention; `filled` keys come before the queries."""
        size, device = self.shape.local_attention, self.embedding.weight.device
        if not size:
            return None
        near = window(queries, filled + queries, size, causal=self.causal, device=device)
        return near if mask is None else mask & near


class Encoder(Body):
    """The bidirectional body: each position attends to its whole document."""

    causal = False


class Decoder(Body):
    """The causal body: each position attends to itself and to earlier ones."""

    causal = True

    def new_cache(self, rows: int, length: int) -> DecoderCache:
        """Make an empty cache for `length` tokens in each of `rows` rows."""
        device = self.embedding.weight.device
        layers = [KVCache(rows, self.shape.groups, length, self.shape.head_width, device) for _ in self.blocks]
        return DecoderCache(layers, torch.full((rows, length), PADDING, device=device))

    def decode_step(
        self, tokens: Tensor, cache: DecoderCache, document_ids: Tensor | None, positions: Tensor
    ) -> Tensor:
        """Compute the hidden states of the next tokens (B, T) after those in the cache, and add them to it.

        Without `document_ids` each row is one document, from its first token to its last.
        """
        start, cache.filled = cache.filled, cache.filled + tokens.shape[1]
        mask = None
        if document_ids is not None:
            cache.document_ids[:, start : cache.filled] = document_ids
            mask = attention_mask(document_ids, cache.document_ids[:, : cache.filled], causal=self.causal)
        elif tokens.shape[1] > 1:
            mask = square(tokens.shape[1], cache.filled, device=tokens.device)
        near = self._near(tokens.shape[1], mask, start)
        return self.read(self.embed(tokens, positions), positions, mask, near, cache.layers)
