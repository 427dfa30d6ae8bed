"""Copy a body from one model to another; every parameter that does not fit is named."""

from dataclasses import dataclass

import torch
from torch import Tensor

from greffon.core.errors import UserError, setting
from greffon.data.tokenizer import Tokenizer
from greffon.nn.model import Model
from greffon.runs.run import Run


@dataclass(frozen=True)
class Transfer:
    """What was copied and what is new."""

    body: int
    head: int
    head_copied: bool

    def __str__(self) -> str:
        if self.head_copied and not self.head:
            return f"body: {self.body:,} parameters copied; head: tied to them"
        head = "copied" if self.head_copied else "new"
        return f"body: {self.body:,} parameters copied; head: {head}, {self.head:,}"


def transfer(model: Model, source: Run, *, head: bool) -> Transfer:
    """Copy the body of a run, and its head if asked, into a model of the same shape.

    A parameter without a counterpart of the same name and shape is an error.
    """
    given = {name: p.detach() for name, p in source.load_model().named_parameters()}
    wanted = {name: p for name, p in model.named_parameters() if head or not name.startswith("head.")}
    table = "body.positions.table"
    if table in given and table in wanted:  # a shorter context needs only the first positions
        given[table] = given[table][: len(wanted[table])]
    problems = []
    for name, p in wanted.items():
        if name not in given:
            problems.append(f"{name} is missing there")
        elif given[name].shape != p.shape:
            problems.append(f"{name} is {tuple(given[name].shape)} there and {tuple(p.shape)} here")
    problems += [f"{name} has no place here" for name in given if name not in wanted and name.startswith("body.")]
    if problems:
        shown = "; ".join(problems[:3]) + (f"; and {len(problems) - 3} more" if len(problems) > 3 else "")
        raise UserError(f"the body of {source.path} does not fit: {shown}; use the shape and tokenizer it has")
    with torch.no_grad():
        for name, p in wanted.items():
            p.copy_(given[name])
    copied = sum(p.numel() for name, p in wanted.items() if name.startswith("body."))
    assert copied, "a model without a body"
    # By name, a tied matrix belongs to the body and is not counted twice.
    own = sum(p.numel() for name, p in model.named_parameters() if name.startswith("head."))
    return Transfer(copied, own, head)


@dataclass(frozen=True)
class SideTransfer:
    """Parameters of an encoder-decoder by part: copied from other runs, or new."""

    copied: dict[str, int]
    new: dict[str, int]
    origin: dict[str, Run]

    def __str__(self) -> str:
        told = []
        for side in self.copied | self.new:
            taken, fresh = self.copied.get(side, 0), self.new.get(side, 0)
            parts = [f"{taken:,} parameters copied from {self.origin[side].path}"] if taken else []
            parts += [f"{fresh:,} new"] if fresh else []
            told.append(f"{side}: {' and '.join(parts)}")
        return "; ".join(told)


def transfer_sides(model: Model, tokenizer: Tokenizer, encoder: Run | None, decoder: Run | None) -> SideTransfer:
    """Copy the bodies of runs into the encoder and the decoder of a translator, by name and shape.

    The shared embedding comes from the encoder's run if there is one, else from the decoder's; an untied head
    comes from the decoder's. Cross-attention is always new. A parameter of a run's body that does not fit is
    an error.
    """
    wanted = dict(model.named_parameters())
    taken: dict[str, tuple[Run, Tensor]] = {}
    for run, prefix in ((decoder, "body.decoder."), (encoder, "body.encoder.")):
        if run is None:
            continue
        if run.tokenizer.digest != tokenizer.digest:
            raise UserError(f"{run.path} has another tokenizer; give {setting('tokenizer', run.path)}")
        for name, p in run.load_model().named_parameters():
            ours = name.replace("body.", prefix, 1)
            if name.startswith("body.embedding."):
                ours = name.replace("body.", "body.encoder.", 1)
            elif name.startswith("head."):
                if run is not decoder or name not in wanted:
                    continue
                ours = name
            if ours not in wanted or wanted[ours].shape != p.shape:
                form = f"{tuple(wanted[ours].shape)} here" if ours in wanted else "without a place here"
                raise UserError(
                    f"the body of {run.path} does not fit: {name} is {tuple(p.shape)} there and {form}; "
                    "use the shape and tokenizer it has"
                )
            taken[ours] = run, p.detach()
    copied: dict[str, int] = {}
    new: dict[str, int] = {}
    origin: dict[str, Run] = {}
    with torch.no_grad():
        for name, p in wanted.items():
            side = _side(name)
            if name in taken:
                p.copy_(taken[name][1])
                origin[side] = taken[name][0]
            counts = copied if name in taken else new
            counts[side] = counts.get(side, 0) + p.numel()
    return SideTransfer(copied, new, origin)


def _side(name: str) -> str:
    """Return the part of a translator that a parameter belongs to."""
    if ".embedding." in name:
        return "embedding"
    if ".cross" in name:
        return "cross-attention"
    return name.split(".")[1] if name.startswith("body.") else "head"
