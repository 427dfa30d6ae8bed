"""What one of two processes does in `test_scale_out`: train every objective together, then alone, and tell.

The launcher's environment is set by the test; the first process prints what it found as JSON.
"""

import contextlib
import json
import os
import sys
from dataclasses import replace

import numpy as np
import torch

from greffon.core.errors import ToldError, UserError
from greffon.core.graft import Graft
from greffon.core.recipe import Contrast, Data, Masking, Recipe
from greffon.core.rng import generator
from greffon.core.shape import Shape
from greffon.core.training import Training
from greffon.data.sentence_pairs import Pair
from greffon.data.spans import Views
from greffon.nn.build import make_model
from greffon.nn.sharding import whole
from greffon.objectives.batch import Batch
from greffon.objectives.causal import Causal
from greffon.objectives.classify import Classify
from greffon.objectives.contrastive import Contrastive
from greffon.objectives.masked import Masked, Roles
from greffon.objectives.protocol import Objective
from greffon.objectives.seq2seq import Seq2Seq
from greffon.runs.tensors import tensors_of
from greffon.training.distributed.base import SINGLE_PROCESS, ProcessGroup
from greffon.training.distributed.ranks import TorchProcessGroup
from greffon.training.loop import fit
from greffon.training.optim import load_state_tensors, make_optimizers

STEPS, LENGTH, VOCABULARY = 4, 12, 40
SHAPE = Shape(layers=2, hidden_size=16, heads=2, intermediate_size=24, context=LENGTH, bias=True)
TRAINING = Training(steps=10, batch_size=3, warmup_steps=2, gradient_accumulation=2)
RECIPE = Recipe("causal", "compact", SHAPE, TRAINING, Data(), VOCABULARY)
BYTES = np.ones(VOCABULARY)


def jobs() -> dict[str, tuple[Recipe, Objective, object]]:
    causal = Causal(0, 1, LENGTH, BYTES)
    masked = Masked(Roles(0, 1, 2, 3, 4, 5), np.arange(6, VOCABULARY), BYTES, LENGTH, 0.3)
    contrastive = Contrastive(0, 3, 4, 0.07, common=np.ones(VOCABULARY, dtype=bool), words=np.ones(VOCABULARY))
    classify = Classify(0)
    translate = Seq2Seq(0, 1, 2, BYTES, smoothing=0.1)
    pairs = Masking(next_sentence=True)
    graft = Graft(concat_embeddings=True)
    return {
        "causal": (RECIPE, causal, lambda texts, random: causal.batch(texts)),
        "masked pairs": (
            replace(RECIPE, objective="masked", body="encoder", masking=pairs, shape=replace(SHAPE, segments=2)),
            masked,
            lambda texts, random: masked.pair_batch(
                [[Pair(t[:3], t[3:], bool(random.integers(2)))] if len(t) > 7 else [] for t in texts], random
            ),
        ),
        "contrastive": (
            replace(RECIPE, objective="contrastive", body="encoder", contrast=Contrast()),
            contrastive,
            lambda texts, random: contrastive.batch([Views(t[:3], t[3:]) for t in texts], random),
        ),
        "classify": (
            replace(
                RECIPE,
                objective="classify",
                graft=graft,
                labels=("no", "yes"),
                training=replace(TRAINING, max_grad_norm=0.1),
            ),
            classify,
            lambda texts, random: classify.batch(texts, random.integers(0, 2, len(texts)).tolist()),
        ),
        "seq2seq": (
            replace(RECIPE, objective="seq2seq", body="encoder-decoder", shape=replace(SHAPE, positions="sinusoidal")),
            translate,
            lambda texts, random: translate.batch([(text[:-2], text[::-1][1:]) for text in texts]),
        ),
    }


def trained(recipe: Recipe, objective: Objective, batch: object, group: ProcessGroup) -> tuple[list[list[float]], dict]:
    """Take some steps, the second half with the optimizers' state taken out and put back."""

    def batches(step: int) -> list[Batch]:
        random = generator(0, "two ranks", step)
        # The second batch has one row: a process is left without any.
        texts = [random.integers(6, VOCABULARY, random.integers(5, LENGTH + 1)) for _ in range(4)]
        return [batch(texts[:3], random), batch(texts[3:], random)]

    model = make_model(recipe)
    group.to_device(model)
    optimizers = make_optimizers(model, recipe.training)
    told = []
    for step in fit(model, objective, batches, optimizers, recipe.training, group=group):
        told.append([step.loss, step.grad_norm, *step.parts.values(), step.targets, step.tokens])
        if step.number == STEPS // 2:
            kept = {name: whole(value).clone() for name, value in _states(model, optimizers).items()}
            load_state_tensors(model, optimizers, kept)
        if step.number == STEPS:
            break
    return told, {name: tensor.clone() for name, tensor in tensors_of(model).items()}


def _states(model: torch.nn.Module, optimizers: list) -> dict[str, torch.Tensor]:
    names = {p: name for name, p in model.named_parameters()}
    return {
        f"{names[p]}/{key}": value for o in optimizers for p, state in o.state.items() for key, value in state.items()
    }


def main() -> None:
    torch.set_num_threads(1)
    group = TorchProcessGroup(fsdp=False)
    found = {}
    for name, (recipe, objective, batch) in jobs().items():
        alone, weights = trained(recipe, objective, batch, SINGLE_PROCESS)
        for fsdp in (False, True):
            group.fsdp = fsdp
            together, others = trained(recipe, objective, batch, group)
            if group.is_main:
                apart = max((weights[key] - others[key]).abs().max().item() for key in weights)
                found[f"{name}, {'FSDP' if fsdp else 'DDP'}"] = {"alone": alone, "together": together, "apart": apart}
    # Words between processes.
    found["agree"] = group.broadcast({"Größe": [1.5, None, group.rank]})
    found["total"] = group.all_reduce(1.0 + group.rank, 0.1)
    found["any"] = group.any_rank(group.rank == 1, False)
    group.note("here", "kept")
    found["noted"] = [group.noted("here"), group.noted("nowhere")]
    # The first process fails in its turn: the second ends without a word.
    fails = contextlib.suppress(UserError if group.is_main else ToldError)
    with fails, group.report_once("resume"), group.main_process_first():
        if not group.is_main:
            raise AssertionError("nobody goes on after a failure")
        raise UserError("no text")
    if group.is_main:
        print(json.dumps(found), flush=True)
    group.any_rank()
    # The second process goes: the first, which waits for it, tells of it.
    if not group.is_main:
        os._exit(0)
    group.store.set("failed", "0")
    try:
        with group.report_once("resume"):
            group.any_rank()
    except UserError as told:
        print(json.dumps(str(told)), flush=True)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
