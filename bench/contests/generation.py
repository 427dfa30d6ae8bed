"""Generation: greedy continuation of short prompts by a 4 × 200 model with a large vocabulary, tokens a second."""

from dataclasses import dataclass
from pathlib import Path

from bench.contest import Contest, Goal
from bench.shapes import lab_shape
from bench.turns import Turns


@dataclass(frozen=True)
class Size:
    """A model, how many rows it continues, and how far."""

    batch_size: int
    tokens: int = 96
    prompt: int = 8
    vocab_size: int = 50_001
    layers: int = 4
    hidden_size: int = 200
    heads: int = 2
    intermediate_size: int = 200
    context: int = 256

    def prompts(self) -> list[list[int]]:
        """Prompts of one length, so that nobody pays for padding."""
        return [
            [10 + (7 * row + 3 * i) % (self.vocab_size - 20) for i in range(self.prompt)]
            for row in range(self.batch_size)
        ]


def prepare(size: Size, folder: Path) -> None:
    """Do nothing: fresh weights and numbers for prompts will do."""


def greffon(turns: Turns, size: Size, folder: Path) -> None:
    """The package's own decoder."""
    from greffon.core.machine import keep_memory
    from greffon.core.own_presets import lab
    from greffon.core.recipe import Data, Recipe
    from greffon.inference.sampling import GREEDY, generate_tokens
    from greffon.inference.vocabulary import Vocabulary
    from greffon.nn.build import make_model

    keep_memory()
    preset = lab()
    shape = lab_shape(size)
    model = make_model(Recipe("causal", "lab", shape, preset.training, Data(), size.vocab_size))
    model.prepack()  # as `generate` does
    end = size.vocab_size - 1  # never drawn, so that all write as much
    words = Vocabulary(padding=0, start=0, end=end, banned=(0, end))
    for _ in turns:
        steps = generate_tokens(model, size.prompts(), size.tokens, GREEDY, seed=0, vocabulary=words)
        turns.report(sum(len(step.tokens) for step in steps))


def transformers(turns: Turns, size: Size, folder: Path) -> None:
    """`generate` of a GPT-2 of the same size."""
    import torch
    from transformers import GPT2LMHeadModel

    from bench.trainer import gpt2

    torch.manual_seed(0)
    config = gpt2(size.vocab_size, size.context, size.layers, size.hidden_size, size.heads, size.intermediate_size)
    model = GPT2LMHeadModel(config).eval()
    prompts = torch.tensor(size.prompts())
    for _ in turns:
        made = model.generate(
            input_ids=prompts,
            attention_mask=torch.ones_like(prompts),
            max_new_tokens=size.tokens,
            min_new_tokens=size.tokens,
            do_sample=False,
            use_cache=True,
        )
        turns.report(made[:, size.prompt :].numel())


def contest(rows: int, times: float) -> Contest:
    """One contest for a number of rows."""
    return Contest(
        f"generate-{rows}",
        f"generation, vocabulary 50,001, {rows} row{'s' * (rows > 1)}",
        "tokens/s",
        {"Greffon": greffon, "generate": transformers},
        Size(rows),
        Size(rows, tokens=4, prompt=3, vocab_size=300, layers=1, hidden_size=16, intermediate_size=16, context=16),
        prepare,
        goals=(Goal("generate", times),),
    )


CONTESTS = (contest(1, 3.0), contest(16, 2.4))
