"""Bodies: token ids in, hidden states out. They know nothing of tasks, labels or text."""

import math

import torch
from torch import Tensor, nn

from greffon.core.config import Shape
from greffon.nn.attention import KeyValues
from greffon.nn.blocks import Block, embedding_norm, final_norm
from greffon.nn.dropout import Dropout
from greffon.nn.masks import PADDING, attention_mask, right_padded, square
from greffon.nn.positions import make_positions


class Memory:
    """What a decoder remembers of the tokens it has read: keys, values and document numbers."""

    def __init__(self, layers: list[KeyValues], documents: Tensor) -> None:
        self.layers = layers
        self.documents = documents  # (B, length)
        self.filled = 0


@torch.no_grad()
def initialise(module: nn.Module, small: bool) -> None:
    """Give one module its first weights.

    Every map keeps the variance of what passes; the embedding is 1/√width because it is multiplied
    by √width on its way in. Not multiplied, it starts small. So it does as the head's matrix too: the
    last state still resembles its own token's embedding, and would predict that token again.
    """
    if isinstance(module, nn.Linear):
        nn.init.normal_(module.weight, std=module.in_features**-0.5)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    elif isinstance(module, nn.Embedding):
        nn.init.normal_(module.weight, std=0.02 if small else module.embedding_dim**-0.5)


@torch.no_grad()
def quiet_residuals(blocks: nn.ModuleList) -> None:
    """Let each of the sublayers that add to the residual path start that much quieter."""
    for block in blocks:
        assert isinstance(block, Block)
        for last in block.last_maps:
            last.weight.mul_((len(block.last_maps) * len(blocks)) ** -0.5)


class Body(nn.Module):
    """Embedding (× √width), positions, a stack of blocks; what may see what is its children's choice."""

    causal: bool

    def __init__(self, shape: Shape, vocabulary: int) -> None:
        super().__init__()
        self.shape = shape
        self.vocabulary = vocabulary
        self.width = shape.width
        self.embedding = nn.Embedding(vocabulary, shape.width)
        self.segments = nn.Embedding(shape.segments, shape.width) if shape.segments else None
        self.positions = make_positions(shape)
        self.embedding_norm = embedding_norm(shape)
        self.dropout = Dropout(shape.dropout)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = final_norm(shape)
        self.apply(lambda module: initialise(module, shape.tied or not shape.scaled))
        quiet_residuals(self.blocks)

    def words(self, tokens: Tensor, push: Tensor | None = None) -> Tensor:
        """Return the embeddings of tokens, × √width where the shape says so: (B, T) → (B, T, W).

        `push` moves them from where they are.
        """
        x: Tensor = self.embedding(tokens)
        if self.shape.scaled:
            x = x * math.sqrt(self.width)
        return x if push is None else x + push

    def embed(
        self, tokens: Tensor, positions: Tensor, segments: Tensor | None = None, push: Tensor | None = None
    ) -> Tensor:
        """Return the embeddings with positions and segments, normalised where the shape says so."""
        x = self.words(tokens, push)
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(tokens) if segments is None else segments)
        out: Tensor = self.dropout(self.embedding_norm(self.positions.add(x, positions)))
        return out

    def forward(
        self,
        tokens: Tensor,
        documents: Tensor | None = None,
        positions: Tensor | None = None,
        segments: Tensor | None = None,
        push: Tensor | None = None,
    ) -> Tensor:
        """Read whole rows: (B, T) → (B, T, W).

        `documents` numbers the document of each token (`PADDING` for padding); without it each row
        is one document. `positions` counts from the start of each document. `segments` tells the
        two texts of a pair apart, where the body knows segments; without it all is the first one.
        `push` moves the embeddings (B, T, W).
        """
        if positions is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device).unsqueeze(0)
        mask = None
        if documents is not None and not (self.causal and right_padded(documents)):
            mask = attention_mask(documents, documents, causal=self.causal)
        x = self.embed(tokens, positions, segments, push)
        rotation = self.positions.rotation(positions)
        for block in self.blocks:
            x = block(x, mask, rotation, causal=self.causal and mask is None)
        out: Tensor = self.norm(x)
        return out


class Encoder(Body):
    """The body that looks both ways: each position sees its whole document."""

    causal = False


class Decoder(Body):
    """The causal body: each position sees itself and what came before it."""

    causal = True

    def remember(self, rows: int, length: int) -> Memory:
        """Make an empty memory for `length` tokens in each of `rows` rows."""
        device = self.embedding.weight.device
        head_width = self.width // self.shape.heads
        layers = [KeyValues(rows, self.shape.heads, length, head_width, device) for _ in self.blocks]
        return Memory(layers, torch.full((rows, length), PADDING, device=device))

    def read_on(self, tokens: Tensor, memory: Memory, documents: Tensor | None, positions: Tensor) -> Tensor:
        """Read the next tokens (B, T) after all that `memory` holds, and remember them too.

        Without `documents` each row is one document, from its first token to its last.
        """
        start, memory.filled = memory.filled, memory.filled + tokens.shape[1]
        mask = None
        if documents is not None:
            memory.documents[:, start : memory.filled] = documents
            mask = attention_mask(documents, memory.documents[:, : memory.filled], causal=self.causal)
        elif tokens.shape[1] > 1:
            mask = square(tokens.shape[1], memory.filled, device=tokens.device)
        x = self.embed(tokens, positions)
        rotation = self.positions.rotation(positions)
        for block, layer in zip(self.blocks, memory.layers, strict=True):
            x = block(x, mask, rotation, causal=False, memory=layer)
        out: Tensor = self.norm(x)
        return out
