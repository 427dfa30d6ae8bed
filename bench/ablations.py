"""One change at a time to the compact preset: held-out bits per byte after equal tokens, over seeds.

    python bench/ablations.py TEXT… [--objective causal] [--tokens 500000] [--seeds 2] [--only NAME …]

Every variant trains in one thread; variants alternate within a seed. Speed stands beside, as a share of
the first variant's, because what learns more a token may still learn less a minute. Results are printed
as Markdown and kept in a JSON file.
"""

import argparse
import json
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from greffon.core.config import override
from greffon.core.machine import keep_memory
from greffon.core.own_presets import compact, lab
from greffon.core.recipe import Data, Masking, Recipe
from greffon.data.corpora import documents
from greffon.data.tokenizer import Tokenizer
from greffon.nn.build import make_model
from greffon.training.jobs import pretraining
from greffon.training.loop import fit
from greffon.training.optim import make_optimizers
from greffon.training.pretrain import BODIES

PLAIN = {
    "activation": "squared-relu", "intermediate_size": 512, "norm": "layer", "scale_embeddings": True,
    "embedding_norm": False, "first_norm": True, "head_transform": False, "head_bias": False,
}  # fmt: skip
"""A plain pre-norm body, as wide as two linear layers instead of three allow, for either objective."""
VARIANTS: dict[str, dict[str, Any]] = {
    "compact": {},
    "plain": {**PLAIN},
    "AdamW alone": {"optimizer": "adamw", "learning_rate": 3e-3},
    "LayerNorm": {"norm": "layer"},
    "ReLU": {**PLAIN, "activation": "relu"},
    "squared ReLU": {"activation": "squared-relu", "intermediate_size": 512},
    "embeddings not scaled": {"scale_embeddings": False},
    "sinusoidal positions": {"positions": "sinusoidal"},
    "post-norm": {"norm_place": "post"},
    "untied head": {"tie_embeddings": False},
    "16 rows": {"batch_size": 16},
    "4 layers of 192": {"layers": 4, "hidden_size": 192, "heads": 3, "intermediate_size": 768},
    "lab": {"preset": "lab"},
    "GELU": {"activation": "gelu"},
    "learned positions": {"positions": "learned"},
    "biases": {"bias": True},
    "4 rows": {"batch_size": 4},
    "matrix rate × 2": {"muon_learning_rate_share": 2.0},
    "matrix rate / 2": {"muon_learning_rate_share": 0.5},
    "rate × 2": {"learning_rate_share": 2.0},
    "rate / 2": {"learning_rate_share": 0.5},
}


def recipe_of(change: dict[str, Any], objective: Any, data: Data, vocabulary: int, seed: int) -> Recipe:
    """Describe one variant."""
    preset = (lab if change.get("preset") == "lab" else compact)()
    settings: dict[str, Any] = {name: value for name, value in change.items() if name != "preset"}
    for name in ("muon_learning_rate", "learning_rate"):
        if (share := settings.pop(f"{name}_share", None)) is not None:
            settings[name] = share * getattr(preset.training, name)
    shape = override(preset.shape_for(objective), settings)
    training = override(preset.training, {**settings, "seed": seed})
    masking = Masking() if objective == "masked" else None
    name, body = change.get("preset", "compact"), BODIES[objective]
    return Recipe(objective, name, shape, training, data, vocabulary, body=body, masking=masking)


def measure(recipe: Recipe, tokenizer: Tokenizer, tokens: int) -> dict[str, float]:
    """Train one variant on so many tokens and score it on held-out text."""
    rows = recipe.training.batch_size * recipe.shape.context
    training = replace(recipe.training, steps=max(1, tokens // rows))
    job = pretraining(recipe, tokenizer)
    model = make_model(recipe)
    started = time.process_time()
    for _ in fit(model, job.objective, job.batches, make_optimizers(model, training), training):
        pass
    spent = time.process_time() - started
    return {
        "bits_per_byte": job.evaluate(model)["bits_per_byte"],
        "tokens_per_cpu_second": training.steps * rows / spent,
        "parameters": sum(p.numel() for p in model.parameters()),
    }


def main() -> None:
    """Measure the variants and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--objective", choices=("causal", "masked"), default="causal")
    parser.add_argument("--mix", type=int, nargs="*", default=[])
    parser.add_argument("--vocab-size", type=int, default=compact().vocab_size)
    parser.add_argument("--tokens", type=int, default=500_000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=list(VARIANTS))
    parser.add_argument("--out", type=Path, default=Path("ablations.json"))
    args = parser.parse_args()
    keep_memory()
    torch.set_num_threads(1)
    tokenizer = Tokenizer.train(documents(args.sources), args.vocab_size)
    data = Data(train=tuple(args.sources), mix=tuple(args.mix))
    found: dict[str, list[dict[str, float]]] = {}
    for seed in range(args.seeds):
        for name in args.only:
            recipe = recipe_of(VARIANTS[name], args.objective, data, tokenizer.size, seed)
            found.setdefault(name, []).append(measure(recipe, tokenizer, args.tokens))
            args.out.write_text(json.dumps(found, indent=1))
            print(f"seed {seed}, {name}: {found[name][-1]}", flush=True)
    print("\n| variant | bits per byte, by seed | mean | speed | parameters |")
    print("| --- | --- | --- | --- | --- |")
    first = statistics.mean(run["tokens_per_cpu_second"] for run in next(iter(found.values())))
    for name, runs in found.items():
        scores = [run["bits_per_byte"] for run in runs]
        speed = statistics.mean(run["tokens_per_cpu_second"] for run in runs) / first
        print(
            f"| {name} | {', '.join(f'{score:.3f}' for score in scores)} | {statistics.mean(scores):.3f} | "
            f"{speed:.2f} × | {runs[0]['parameters'] / 1e6:.2f} M |"
        )


if __name__ == "__main__":
    main()
