"""Copy a body from one model to another, loudly: what does not find its place is named."""

from dataclasses import dataclass

import torch

from greffon.errors import UserError
from greffon.nn.model import Model
from greffon.run import Run


@dataclass(frozen=True)
class Transfer:
    """What was copied and what is new."""

    body: int
    head: int
    head_copied: bool

    def __str__(self) -> str:
        head = "copied" if self.head_copied else "new"
        return f"body: {self.body:,} parameters copied; head: {head}, {self.head:,}"


def transfer(model: Model, source: Run, *, head: bool) -> Transfer:
    """Copy the body of a run, and its head if asked, into a model of the same form.

    Every parameter must find its place by name and shape; one that does not is an error.
    """
    given = {name: p.detach() for name, p in source.load_model().named_parameters()}
    wanted = {name: p for name, p in model.named_parameters() if head or not name.startswith("head.")}
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
