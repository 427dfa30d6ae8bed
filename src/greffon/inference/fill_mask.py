"""Predict the tokens at [MASK]: `greffon.fill`."""

from dataclasses import dataclass
from pathlib import Path

import torch

from greffon.core.errors import UserError, out_of_range, setting
from greffon.core.json_results import JsonResult
from greffon.core.settings import takes
from greffon.inference.generate import Candidate
from greffon.inference.loading import load
from greffon.runs.run import Run


@dataclass(frozen=True)
class Mask(JsonResult):
    """One [MASK] of a text, and its candidates, the most probable first."""

    text: str
    """The text, with its masks."""
    candidates: list[Candidate]


@takes()
def fill(run: str | Path | Run, text: str, *, top_k: int = 5) -> list[Mask]:
    """Predict each [MASK] of a text: `fill("runs/masked", "Ce livre est [MASK].")[0].candidates[0].token`."""
    run = Run.open(run)
    if run.recipe.objective != "masked":
        raise UserError(
            f"{run.path} is a {run.recipe.objective} run and cannot fill masks; give one that was "
            f"pretrained with {setting('objective', 'masked')}"
        )
    if "[MASK]" not in text:
        raise UserError("the text has no [MASK] to fill; write [MASK] where a token is to be predicted")
    model, tokenizer = load(run), run.tokenizer
    choices = len(tokenizer.ordinary)
    if not 1 <= top_k <= choices:
        raise out_of_range("top_k", top_k, f"choose a number from 1 to {choices:,}")
    ids = [tokenizer.cls, *tokenizer.encode_masked(text), tokenizer.sep]
    context = run.recipe.shape.context
    if len(ids) > context:
        raise UserError(f"the text has {len(ids):,} tokens, and {run.path} reads {context:,} at a time; shorten it")
    row = torch.tensor([ids])
    ordinary = torch.from_numpy(tokenizer.ordinary)
    with torch.no_grad():
        logits = model(row.to(model.device)).cpu()[row == tokenizer.mask][:, ordinary]  # (masks, ordinary tokens)
    likeliest = logits.softmax(dim=-1).topk(top_k)
    return [
        Mask(
            text, [Candidate(tokenizer.token(int(ordinary[i])), float(p)) for p, i in zip(shares, places, strict=True)]
        )
        for shares, places in zip(likeliest.values, likeliest.indices, strict=True)
    ]
