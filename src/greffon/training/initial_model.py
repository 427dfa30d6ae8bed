"""The model of the first step: new weights, or those of the runs that a recipe starts from."""

from collections.abc import Callable

import torch

from greffon.core.errors import UserError, setting
from greffon.nn.build import make_model
from greffon.nn.model import Model
from greffon.runs.huggingface.companions import inherit_companions
from greffon.runs.run import Run
from greffon.training.distributed.base import ProcessGroup
from greffon.training.lsa_start import begin_with_lsa
from greffon.training.probe_head import start_at_probe
from greffon.training.transfer import transfer, transfer_sides


def initial_model(run: Run, tell: Callable[[str], None], group: ProcessGroup) -> Model:
    """Build the model of the first step: with new weights, or with the body of its origin.

    Where there is a checkpoint, its weights replace these, so that what costs time is left out.
    """
    recipe = run.recipe
    model = make_model(recipe)
    if recipe.contrast is not None and not recipe.origin:
        with group.main_process_first():
            if group.is_main and not run.checkpoint_step:
                begin_with_lsa(model, recipe, run.tokenizer)
        _share_weights(model, group)
    if recipe.origin:
        source = Run.open(recipe.origin)
        if recipe.vocab_size != source.recipe.vocab_size or run.tokenizer.digest != source.tokenizer.digest:
            raise UserError(f"{source.path} has another tokenizer; give {setting('tokenizer', source.path)}")
        tell(str(transfer(model, source, head=recipe.graft is None)))
        if group.is_main:
            inherit_companions(run, [source])
    if recipe.encoder_origin or recipe.decoder_origin:
        sides = [Run.open(path) if path else None for path in (recipe.encoder_origin, recipe.decoder_origin)]
        tell(str(transfer_sides(model, run.tokenizer, *sides)))
        if group.is_main:
            inherit_companions(run, [side for side in sides if side is not None])
    if recipe.graft is not None and recipe.graft.head_init == "probe" and not run.checkpoint_step:
        probe = start_at_probe(model, recipe, run.tokenizer)
        tell(f"head: starts as the probe, logistic regression on the body's vectors (C {probe.strength:g})")
    if recipe.graft is not None and recipe.graft.freeze:
        model.body.requires_grad_(False)
    return model


@torch.no_grad()
def _share_weights(model: Model, group: ProcessGroup) -> None:
    """Give every process the weights of the main process, exactly."""
    for p in model.parameters():
        p.copy_(group.sum_rows(p if group.is_main else p[:0], 0, len(p)))
