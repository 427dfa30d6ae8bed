"""Compute the golden losses: the first steps of each preset on made-up tokens. `--record` keeps them."""

import dataclasses
import itertools
import json
import os
import sys
from pathlib import Path

import numpy as np
import torch

from greffon.core.presets import PRESETS
from greffon.core.recipe import Contrast, Data, Masking, Recipe
from greffon.core.rng import generator
from greffon.data.sentence_pairs import Pair
from greffon.data.spans import Views
from greffon.nn.build import make_model
from greffon.objectives.batch import Batch
from greffon.objectives.causal import Causal
from greffon.objectives.classify import Classify
from greffon.objectives.contrastive import Contrastive
from greffon.objectives.masked import Masked, Roles
from greffon.objectives.seq2seq import Seq2Seq
from greffon.training.loop import fit
from greffon.training.optim import make_optimizers

PLAIN = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "ONEDNN_MAX_CPU_ISA": "SSE41",
}
"""One thread, and none of the vector instructions that differ from one CPU to another."""

LARGE = {"base", "bert", "distilbert", "gpt2", "llama", "m2m100", "marian", "mbart", "modernbert"}
"""Smaller presets are made from these: too large to try whenever the tests run."""

STEPS, ROWS, LENGTH, VOCABULARY = 20, 2, 24, 200
FEWER = {"bert-mini": 5, "gpt2-mini": 5}
"""Wider than the others: fewer steps take as long."""


def losses(name: str, objective: str) -> list[str]:
    """Return the hexadecimal losses of one preset under one objective."""
    preset = PRESETS[name]()
    shape = dataclasses.replace(preset.shape_for(objective), context=LENGTH, dropout=0.1)
    base = preset.finetuning if objective == "classify" else preset.training_for(objective)
    recipe = Recipe(objective, name, shape, dataclasses.replace(base, steps=100, batch_size=ROWS), Data(), VOCABULARY)
    if objective == "classify":
        body = "decoder" if "causal" in preset.objectives else "encoder"
        recipe = dataclasses.replace(recipe, body=body, graft=preset.graft, labels=("no", "yes"))
        classify = Classify(0)

        def batch(texts: list, random: np.random.Generator) -> Batch:
            return classify.batch(texts, random.integers(0, 2, ROWS).tolist())

        kind = classify
    elif objective == "masked":
        # Both of its losses at once: hidden tokens, and pairs.
        shape = dataclasses.replace(shape, segments=2)
        recipe = dataclasses.replace(recipe, shape=shape, body="encoder", masking=Masking(next_sentence=True))
        masked = Masked(Roles(0, 1, 2, 3, 4, 5), np.arange(6, VOCABULARY), np.ones(VOCABULARY), LENGTH, 0.15)

        def batch(texts: list, random: np.random.Generator) -> Batch:
            return masked.pair_batch([[Pair(t[:4], t[4:], bool(random.integers(2)))] for t in texts], random)

        kind = masked
    elif objective == "contrastive":
        recipe = dataclasses.replace(recipe, body="encoder", contrast=Contrast())
        contrastive = Contrastive(0, 3, 4, 0.07, common=np.zeros(VOCABULARY, dtype=bool), words=np.ones(VOCABULARY))

        def batch(texts: list, random: np.random.Generator) -> Batch:
            return contrastive.batch([Views(text[:4], text[4:]) for text in texts], random)

        kind = contrastive
    elif objective == "seq2seq":
        translate = Seq2Seq(0, 1, 2, np.ones(VOCABULARY), recipe.training.label_smoothing)

        def batch(texts: list, random: np.random.Generator) -> Batch:
            return translate.batch([(text[:-2], text[::-1][1:]) for text in texts])

        kind = translate
    else:
        causal = Causal(0, 1, LENGTH, np.ones(VOCABULARY))

        def batch(texts: list, random: np.random.Generator) -> Batch:
            return causal.batch(texts)

        kind = causal

    def batches(step: int) -> list[Batch]:
        random = generator(0, "golden", step)
        texts = [random.integers(1, VOCABULARY, random.integers(8, LENGTH + 1)) for _ in range(ROWS)]
        return [batch(texts, random)]

    model = make_model(recipe)
    steps = fit(model, kind, batches, make_optimizers(model, recipe.training), recipe.training)
    return [step.loss.hex() for step in itertools.islice(steps, FEWER.get(name, STEPS))]


def goals(name: str) -> list[str]:
    """Name what a preset is trained for."""
    objectives = PRESETS[name]().objectives
    return ["seq2seq"] if "seq2seq" in objectives else sorted({*objectives, "classify"})


def main() -> None:
    """Print the losses, or keep them."""
    if not PLAIN.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **PLAIN})
    torch.set_num_threads(1)
    names = [name for name in PRESETS if name not in LARGE]
    pairs = [(name, objective) for name in names for objective in goals(name)]
    found = {
        "torch": torch.__version__.partition("+")[0],
        "losses": {f"{name}/{objective}": losses(name, objective) for name, objective in pairs},
    }
    if sys.argv[1:] == ["--record"]:
        Path(__file__).with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
