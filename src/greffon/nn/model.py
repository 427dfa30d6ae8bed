"""A model is a body and a head, and visibly nothing more."""

import os
import shutil

import torch
from torch import Tensor, nn

from greffon.core.errors import UserError
from greffon.nn.blocks import Block
from greffon.nn.body import Body
from greffon.nn.encoder_decoder import EncoderDecoder
from greffon.nn.heads import VocabularyHead
from greffon.nn.quantize import pack_maps, round_maps


class Model(nn.Module):
    """A body with a head on it: `Model(body, VocabularyHead(body.width, vocabulary))`."""

    def __init__(self, body: Body | EncoderDecoder, head: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.head = head

    def forward(
        self,
        tokens: Tensor,
        documents: Tensor | None = None,
        positions: Tensor | None = None,
        push: Tensor | None = None,
    ) -> Tensor:
        """Return what the head makes of the hidden states: logits of tokens or of classes."""
        hidden = self.body(tokens, documents, positions, push=push)
        if getattr(self.head, "words", False):
            assert isinstance(self.body, Body)
            hidden = torch.cat((hidden, self.body.words(tokens, push)), dim=-1)  # (B, T, 2 W)
        out: Tensor = self.head(hidden, documents)
        return out

    def pack(self) -> None:
        """Lay the large maps out for reading token by token; afterwards the model is for reading alone."""
        pack_maps(self)
        if isinstance(self.head, VocabularyHead):
            self.head.pack(panels=isinstance(self.body, EncoderDecoder))  # a search asks for the highest tokens alone

    def round(self) -> None:
        """Let the body and a vocabulary head compute in 8-bit integers; afterwards the model is for reading alone."""
        round_maps(self.body)
        if isinstance(self.head, VocabularyHead):
            self.head.round()


def compile_blocks(model: Model) -> None:
    """Let every block be compiled when it is first used; names and weights stay as they are."""
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise UserError(f"--compile needs a C++ compiler, and there is no {compiler}; install one, or leave it out")
    for module in model.modules():
        if isinstance(module, Block):
            module.compile()
