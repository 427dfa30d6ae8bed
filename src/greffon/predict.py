"""Text in, text out: what a trained run is for."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from greffon.decode import Sampling, generate_tokens
from greffon.errors import UserError
from greffon.nn.model import Model
from greffon.run import Run


@lru_cache(maxsize=4)
def _load(path: Path, changed: int) -> Model:
    return Run.open(path).load_model()


def load(run: Run) -> Model:
    """Load a run's model once, until its file changes."""
    file = run.path / "model.safetensors"
    changed = file.stat().st_mtime_ns if file.is_file() else 0
    return _load(run.path.resolve(), changed) if changed else run.load_model()


@dataclass(frozen=True)
class Generation:
    """A prompt and its continuation as one text."""

    prompt: str
    text: str
    tokens: int
    seed: int


def generate(
    run: str | Path | Run,
    prompt: str,
    *,
    tokens: int = 40,
    temperature: float = 0.8,
    top_k: int = 0,
    top_p: float = 0.95,
    seed: int = 0,
) -> Generation:
    """Continue a prompt: `greffon.generate("runs/body", "Bonjour les").text`. Same seed, same text."""
    return generate_many(run, [prompt], tokens=tokens, temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)[0]


def generate_many(
    run: str | Path | Run,
    prompts: Sequence[str],
    *,
    tokens: int = 40,
    temperature: float = 0.8,
    top_k: int = 0,
    top_p: float = 0.95,
    seed: int = 0,
) -> list[Generation]:
    """Continue several prompts at once; each gets what it would get alone."""
    run = Run.open(run)
    if run.recipe.objective != "causal":
        raise UserError(f"{run.path} is a {run.recipe.objective} run and cannot generate; give a causal one")
    if tokens < 1:
        raise UserError(f"tokens is {tokens}; choose 1 or more")
    sampling = Sampling(temperature, top_k, top_p)
    model, tokenizer = load(run), run.tokenizer
    starts = [[tokenizer.start, *tokenizer.encode(prompt)] for prompt in prompts]
    specials = {tokenizer.pad, tokenizer.start, tokenizer.cls, tokenizer.sep, tokenizer.mask}
    steps = list(
        generate_tokens(
            model,
            starts,
            tokens,
            sampling,
            seed=seed,
            end=tokenizer.end,
            padding=tokenizer.pad,
            banned=sorted(specials - {tokenizer.end}),
        )
    )
    generations = []
    for row, prompt in enumerate(prompts):
        drawn = [step[row] for step in steps]
        drawn = drawn[: drawn.index(tokenizer.end)] if tokenizer.end in drawn else drawn
        generations.append(Generation(prompt, prompt + tokenizer.decode(drawn), len(drawn), seed))
    return generations
