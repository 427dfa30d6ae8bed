"""The encoder-decoder of "Attention is all you need": a source read both ways, a target that reads it.

One embedding serves both sides (and the head, where it is tied): there is one vocabulary.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from greffon.core.config import Shape
from greffon.nn.attention import KVCache
from greffon.nn.blocks import CrossBlock, embedding_norm, final_norm
from greffon.nn.body import Encoder, initialise, quiet_residuals
from greffon.nn.dropout import Dropout
from greffon.nn.masks import PADDING
from greffon.nn.positions import make_positions


@dataclass(frozen=True)
class Source:
    """What the target reads of its source: keys and values of each layer, and where they are real."""

    layers: list[tuple[Tensor, Tensor]]  # (N, H, S, D) each
    mask: Tensor | None  # (N, 1, 1, S); None: nothing is padding

    def take(self, sentences: Tensor) -> "Source":
        """Keep some of the sentences."""
        layers = [(keys[sentences], values[sentences]) for keys, values in self.layers]
        return Source(layers, None if self.mask is None else self.mask[sentences])


class TargetCache:
    """What is known while a target is written: its source, once a sentence, and each beam's own past."""

    def __init__(self, source: Source, layers: list[KVCache]) -> None:
        self.source = source
        self.layers = layers
        self.filled = 0

    def take_beams(self, rows: Tensor) -> None:
        """Go on with other beams of the same sentences: the source stays where it is."""
        for layer in self.layers:
            layer.take(rows)

    def take_sentences(self, sentences: Tensor, rows: Tensor) -> None:
        """Go on with some sentences and their rows of beams; the others leave."""
        self.source = self.source.take(sentences)
        self.take_beams(rows)


class TargetDecoder(nn.Module):
    """The causal half: it sees what it has written so far, and the whole source."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.positions = make_positions(shape)
        self.embedding_norm = embedding_norm(shape)
        self.dropout = Dropout(shape.dropout)
        self.blocks = nn.ModuleList(CrossBlock(shape) for _ in range(shape.layers))
        self.norm = final_norm(shape)
        self.apply(lambda module: initialise(module, shape.tie_embeddings or not shape.scale_embeddings))
        quiet_residuals(self.blocks)


class EncoderDecoder(nn.Module):
    """Source and target token ids in, hidden states of the target out."""

    def __init__(self, shape: Shape, vocab_size: int) -> None:
        super().__init__()
        self.shape = shape
        self.vocab_size = vocab_size
        self.hidden_size = shape.hidden_size
        self.encoder = Encoder(shape, vocab_size)
        self.decoder = TargetDecoder(shape)

    @property
    def embedding(self) -> nn.Embedding:
        """The one embedding of both sides."""
        return self.encoder.embedding

    def encode(self, tokens: Tensor, document_ids: Tensor | None = None) -> Source:
        """Read the source (N, S): keys and values of each layer of the target's side, computed once."""
        hidden = self.encoder(tokens, document_ids)
        layers = [block.cross.keys_values(hidden, None) for block in self._blocks]
        return Source(layers, None if document_ids is None else (document_ids != PADDING)[:, None, None, :])

    @property
    def _blocks(self) -> list[CrossBlock]:
        return [block for block in self.decoder.blocks if isinstance(block, CrossBlock)]

    def _embed(self, tokens: Tensor, start: int) -> tuple[Tensor, Tensor | None]:
        positions = torch.arange(start, start + tokens.shape[1], device=tokens.device).unsqueeze(0)
        x = self.decoder.positions.add(self.encoder.token_embeddings(tokens), positions)
        x = self.decoder.dropout(self.decoder.embedding_norm(x))
        return x, self.decoder.positions.rotation(positions)

    def forward(self, source: Tensor, target: Tensor, source_document_ids: Tensor | None = None) -> Tensor:
        """Read whole pairs, padded on the right: (N, S) and (N, T) → (N, T, W).

        `source_document_ids` says what is `PADDING` in the source; in the target no real position looks
        to the right, where padding is.
        """
        read = self.encode(source, source_document_ids)
        x, rotation = self._embed(target, 0)
        for block, (keys, values) in zip(self._blocks, read.layers, strict=True):
            x = block.attend(x, None, rotation, True, None)
            x = block.read_source(x, keys, values, read.mask)
        out: Tensor = self.decoder.norm(x)
        return out

    def new_cache(self, source: Source, beams: int, length: int) -> TargetCache:
        """Make an empty memory for `beams` targets of up to `length` tokens for each sentence."""
        rows, heads = beams * len(source.layers[0][0]), self.shape.heads
        device = self.embedding.weight.device
        layers = [KVCache(rows, heads, length, self.hidden_size // heads, device) for _ in self._blocks]
        return TargetCache(source, layers)

    def decode_step(self, tokens: Tensor, memory: TargetCache) -> Tensor:
        """Read the next token of each row (N × beams, 1) after all that `memory` holds, and remember it."""
        x, rotation = self._embed(tokens, memory.filled)
        memory.filled += 1
        source = memory.source
        for block, layer, (keys, values) in zip(self._blocks, memory.layers, source.layers, strict=True):
            x = block.attend(x, None, rotation, False, layer)
            x = block.read_source(x, keys, values, source.mask)
        out: Tensor = self.decoder.norm(x)
        return out
