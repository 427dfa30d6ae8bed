"""`torch.compile` for those who ask for it: block by block, so that one translation serves them all."""

import os
import shutil

from greffon.errors import UserError
from greffon.nn.blocks import Block
from greffon.nn.model import Model


def compile_blocks(model: Model) -> None:
    """Let every block be compiled when it is first used; names and weights stay as they are."""
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise UserError(f"--compile needs a C++ compiler, and there is no {compiler}; install one, or leave it out")
    for module in model.modules():
        if isinstance(module, Block):
            module.compile()
