"""Pretraining: the lab preset on packed windows of real text, tokens a second."""

from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from bench.contest import Contest, Goal
from bench.products import multiply_in_turns
from bench.shapes import lab_shape
from bench.turns import Turns


@dataclass(frozen=True)
class Size:
    """A model, its batches, and how many steps make a turn."""

    vocab_size: int
    steps: int
    layers: int = 4
    hidden_size: int = 200
    heads: int = 2
    intermediate_size: int = 200
    context: int = 256
    batch_size: int = 8
    megabytes: float = 20

    @property
    def work(self) -> int:
        """Tokens of a turn."""
        return self.steps * self.batch_size * self.context


def prepare(size: Size, folder: Path) -> None:
    """Train the tokenizer, and lay out the text as windows for those who cannot read Greffon's store."""
    import numpy as np

    from bench.data import text_file, tokenizer_file
    from greffon.data.token_store import open_store
    from greffon.data.tokenizer import Tokenizer

    text = text_file(folder, size.megabytes)
    tokenizer = Tokenizer.load(tokenizer_file(folder, size.vocab_size, size.megabytes))
    store = open_store([text], tokenizer)
    length = size.context + 1
    count = min(4096, len(store.tokens) // length)
    np.save(windows_file(size, folder), np.array(store.tokens[: count * length]).reshape(count, length))


def windows_file(size: Size, folder: Path) -> Path:
    """The windows of `context` + 1 tokens that the peers draw from."""
    return folder / f"windows-{size.vocab_size}-{size.context}-{size.megabytes:g}.npy"


def flops_a_token(size: Size, vocabulary: int) -> int:
    """Six operations a parameter and token, without the embedding, which is looked up; and attention."""
    from greffon.runs.params import body_components, vocabulary_head_component

    shape = lab_shape(size)
    parts = [*body_components(shape, vocabulary), vocabulary_head_component(shape, vocabulary)]
    learnt = sum(part.count for part in parts) - vocabulary * size.hidden_size
    return 6 * learnt + 12 * size.layers * size.hidden_size * size.context


def greffon(turns: Turns, size: Size, folder: Path) -> None:
    """The package's own loop on its own token store, with the preset `lab`."""
    from bench.data import text_file, tokenizer_file
    from greffon.core.machine import keep_memory
    from greffon.core.own_presets import lab
    from greffon.core.recipe import Data, Recipe
    from greffon.data.tokenizer import Tokenizer
    from greffon.nn.build import make_model
    from greffon.training.jobs import pretraining
    from greffon.training.loop import fit
    from greffon.training.optim import make_optimizers

    keep_memory()
    tokenizer = Tokenizer.load(tokenizer_file(folder, size.vocab_size, size.megabytes))
    preset = lab()
    shape = lab_shape(size)
    training = replace(preset.training, batch_size=size.batch_size, steps=1_000_000)
    data = Data(train=(str(text_file(folder, size.megabytes)),))
    recipe = Recipe("causal", "lab", shape, training, data, tokenizer.size)
    job, model = pretraining(recipe, tokenizer), make_model(recipe)
    turns.note(flops=flops_a_token(size, tokenizer.size))
    steps = fit(model, job.objective, job.batches, make_optimizers(model, training), training)
    for _ in turns:
        for _step in islice(steps, size.steps):
            pass
        turns.report(size.work)


def trainer(turns: Turns, size: Size, folder: Path) -> None:
    """`transformers.Trainer` with a GPT-2 of the same size."""
    import numpy as np
    import torch
    from transformers import GPT2LMHeadModel, default_data_collator

    from bench.trainer import gpt2, train_in_turns

    windows = np.load(windows_file(size, folder)).astype(np.int64)[:, :-1]
    config = gpt2(
        int(windows.max()) + 1, size.context, size.layers, size.hidden_size, size.heads, size.intermediate_size
    )
    config.vocab_size = max(size.vocab_size, config.vocab_size)
    torch.manual_seed(0)
    examples = [{"input_ids": row, "labels": row} for row in windows]
    train_in_turns(
        turns,
        GPT2LMHeadModel(config),
        examples,
        default_data_collator,
        batch_size=size.batch_size,
        steps=size.steps,
        work=size.work,
        learning_rate=1e-3,
    )


def lab_loop(turns: Turns, size: Size, folder: Path) -> None:
    """A plain PyTorch loop."""
    import numpy as np
    import torch
    import torch.nn.functional as F

    from bench.lab import LabModel

    windows = torch.from_numpy(np.load(windows_file(size, folder)).astype(np.int64))
    torch.manual_seed(0)
    vocabulary = max(size.vocab_size, int(windows.max()) + 1)
    model = LabModel(vocabulary, vocabulary, size.layers, size.hidden_size, size.heads, size.intermediate_size)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in turns:
        for _step in range(size.steps):
            rows = windows[torch.randint(len(windows), (size.batch_size,))]
            logits = model.token_logits(rows[:, :-1])
            loss = F.cross_entropy(logits.reshape(-1, vocabulary), rows[:, 1:].reshape(-1))
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        turns.report(size.work)


def products(turns: Turns, size: Size, folder: Path) -> None:
    """The same arithmetic as nothing but products of matrices."""
    from bench.data import tokenizer_file
    from greffon.data.tokenizer import Tokenizer

    vocabulary = Tokenizer.load(tokenizer_file(folder, size.vocab_size, size.megabytes)).size
    multiply_in_turns(turns, size.work, flops_a_token(size, vocabulary))


CONTESTANTS = {"Greffon": greffon, "Trainer": trainer, "lab loop": lab_loop, "sgemm alone": products}
QUICK = Size(
    300, steps=2, layers=1, hidden_size=16, heads=2, intermediate_size=16, context=16, batch_size=2, megabytes=0.05
)
CONTESTS = (
    Contest(
        "pretrain-50k",
        "pretraining, 4 × 200, 256 tokens, vocabulary 50,001",
        "tokens/s",
        CONTESTANTS,
        Size(50_001, steps=3),
        QUICK,
        prepare,
        goals=(Goal("Trainer", 1.9), Goal("sgemm alone", 0.75)),
        most_gigabytes=0.75,
    ),
    Contest(
        "pretrain-8k",
        "the same, vocabulary 8,000",
        "tokens/s",
        CONTESTANTS,
        Size(8_000, steps=6),
        QUICK,
        prepare,
        goals=(Goal("Trainer", 1.6),),
    ),
)
