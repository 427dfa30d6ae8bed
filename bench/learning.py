"""How much sooner does `compact` learn what the founding lab's loop learns in five minutes?

    python -m bench.learning [--seconds 300] [--seeds 3]

For each seed the plain loop (`bench.lab`, the lab preset's form) trains for so much CPU time, and its bits
per byte on held-out text are the mark. Then `compact` trains for growing budgets, each from fresh weights
and with a schedule that ends at its end, until one reaches the mark. One thread, so that CPU time is what a
quiet machine's clock would show. Everyone sees the same windows in the same order.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from bench.__main__ import DATA, PAGE, RESULTS
from bench.contest import Spread
from bench.machine import facts
from bench.report import clear_absent, load, number, save, write_page

SHARES = (0.05, 0.075, 0.1, 0.125, 0.15, 0.2, 0.3, 0.5, 1.0)
"""Budgets of `compact`, as shares of the plain loop's time."""
GOAL = 1 / 6
QUICK_SHAPE = {"layers": 1, "hidden_size": 16, "heads": 2, "intermediate_size": 16, "context": 32}


def corpus_of(recipe: Any, tokenizer: Any) -> tuple[Any, Any, list[Any]]:
    """The task, the rows to train on, and the held-out batches of a recipe."""
    from greffon.core.rng import generator
    from greffon.objectives.corpus import causal, open_corpus

    task = causal(recipe, tokenizer)
    corpus = open_corpus(recipe, tokenizer, task)
    rows = recipe.training.rows
    cuts = range(0, len(corpus.valid), rows)
    held = [task.batch(corpus.valid[cut : cut + rows], generator(0, "held out", cut)) for cut in cuts]
    return task, corpus.train, held


def plain_loop(recipe: Any, tokenizer: Any, seconds: float) -> dict[str, float]:
    """Train the lab's model in the lab's loop for so much CPU time; return the mark it sets."""
    import math

    import torch
    import torch.nn.functional as F

    from bench.lab import LabModel
    from greffon.core.rng import generator

    task, train, held = corpus_of(recipe, tokenizer)
    shape, rows = recipe.shape, recipe.training.rows
    torch.manual_seed(recipe.training.seed)
    size = tokenizer.size
    model = LabModel(size, size, shape.layers, shape.hidden_size, shape.heads, shape.intermediate_size)
    optimizer = torch.optim.Adam(model.parameters(), lr=recipe.training.rate)
    started, step = time.process_time(), 0
    while time.process_time() - started < seconds:
        batch = task.batch(train.rows(step * rows, rows), generator(0, "batch", step))
        loss = F.cross_entropy(model.token_logits(batch.tokens).flatten(0, 1), batch.targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
    spent = time.process_time() - started
    model.eval()
    with torch.no_grad():
        nats = sum(
            F.cross_entropy(
                model.token_logits(batch.tokens).flatten(0, 1), batch.targets.flatten(), reduction="sum"
            ).item()
            for batch in held
        )
    bits = nats / math.log(2) / sum(batch.bytes for batch in held)
    return {"bits_per_byte": bits, "cpu_seconds": spent, "steps": step}


def compact_run(recipe: Any, tokenizer: Any, seconds: float) -> dict[str, float]:
    """Train `compact` for about so much CPU time; what was really spent is what counts."""
    from greffon.nn.build import make_model
    from greffon.training.jobs import pretraining
    from greffon.training.loop import fit
    from greffon.training.optim import make_optimizers

    job = pretraining(recipe, tokenizer)

    def trained(steps: int, taken: int) -> tuple[Any, float]:
        model, training = make_model(recipe), replace(recipe.training, steps=steps)
        started = time.process_time()
        for _ in islice(fit(model, job.objective, job.batches, make_optimizers(model, training), training), taken):
            pass
        return model, time.process_time() - started

    _, trial = trained(1_000, 8)
    steps = max(1, int(seconds / (trial / 8)))
    model, spent = trained(steps, steps)
    return {"bits_per_byte": job.evaluate(model)["bits_per_byte"], "cpu_seconds": spent, "steps": steps}


def measure(seed: int, seconds: float, folder: Path, quick: bool) -> dict[str, Any]:
    """One seed: the mark, and the budgets tried until one reached it."""
    from bench.data import text_file, tokenizer_file
    from greffon.core.config import override
    from greffon.core.own_presets import compact, lab
    from greffon.core.recipe import Data, Recipe
    from greffon.data.tokenizer import Tokenizer

    megabytes, vocabulary = (0.05, 300) if quick else (20, 8000)
    tokenizer = Tokenizer.load(tokenizer_file(folder, vocabulary, megabytes))
    data = Data(train=(str(text_file(folder, megabytes)),))
    smaller = QUICK_SHAPE if quick else {}

    def recipe(name: str, preset: Any) -> Recipe:
        shape = override(preset.shape, smaller)
        return Recipe("causal", name, shape, replace(preset.training, seed=seed), data, tokenizer.size)

    mark = plain_loop(recipe("lab", lab()), tokenizer, seconds)
    tried = []
    for share in SHARES:
        tried.append(compact_run(recipe("compact", compact()), tokenizer, share * seconds))
        if tried[-1]["bits_per_byte"] <= mark["bits_per_byte"]:
            break
    reached = tried[-1]["bits_per_byte"] <= mark["bits_per_byte"]
    ratio = tried[-1]["cpu_seconds"] / mark["cpu_seconds"] if reached else None
    return {"seed": seed, "plain_loop": mark, "compact": tried, "share_of_time": ratio}


def section(found: Sequence[dict[str, Any]]) -> str:
    """The outcome as Markdown."""
    lines = [
        "| seed | plain loop, lab's form | `compact`, the first budget that is as good | share of the time |",
        "| --- | --- | --- | --- |",
    ]
    for one in found:
        mark, last = one["plain_loop"], one["compact"][-1]
        share = one["share_of_time"]
        lines.append(
            f"| {one['seed']} | {mark['bits_per_byte']:.3f} bits per byte in {number(mark['cpu_seconds'])} s | "
            f"{last['bits_per_byte']:.3f} in {number(last['cpu_seconds'])} s | "
            f"{'not reached' if share is None else f'1/{1 / share:.1f}'} |"
        )
    shares = [one["share_of_time"] for one in found]
    if None not in shares:
        middle = Spread.of(shares).median
        verdict = "reached" if middle <= GOAL else "not reached"
        lines += ["", f"Median: 1/{1 / middle:.1f} of the time. Goal, at most 1/{1 / GOAL:.0f}: {verdict}."]
    return "\n".join(lines)


def main(words: list[str] | None = None) -> int:
    """Measure the seeds, and add the outcome to the results and the page."""
    parser = argparse.ArgumentParser(prog="python -m bench.learning", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="a tiny model, no page: does everything work?")
    parser.add_argument("--results", type=Path, default=None)
    parser.add_argument("--data", type=Path, default=DATA)
    args = parser.parse_args(words)

    import torch

    from greffon.core.machine import keep_memory

    keep_memory()
    torch.set_num_threads(1)
    folder = args.data.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["GREFFON_CACHE"] = str(folder / "cache")
    machine = facts(2, folder)
    file = args.results or (None if args.quick else RESULTS)
    found = []
    for seed in range(args.seeds):
        found.append(measure(seed, args.seconds, folder, args.quick))
        print(f"seed {seed}: {found[-1]}", flush=True)
        results = {**load(file, machine), "learning": {"threads": 1, "seeds": found}}
        if file:  # seed by seed: each takes minutes
            save(file, results)
        if not args.quick:
            clear_absent(PAGE, results)
            write_page(PAGE, {"learning": section(found)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
