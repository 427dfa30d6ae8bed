"""Fine-tuning: one epoch a turn on texts of very different length, from fresh weights; documents a second.

Every contestant sees the same texts as often, at the same rate; the accuracy at the end stands beside. With long
texts only few can be read in a contest: whether all learn as much is seen on single sentences, which are many.
"""

from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from bench.contest import Contest, Goal
from bench.shapes import lab_shape
from bench.turns import Turns

RATE = 1e-3


@dataclass(frozen=True)
class Size:
    """A model, its texts and its batches."""

    texts: int = 256
    held_out: int = 400
    vocab_size: int = 8000
    layers: int = 4
    hidden_size: int = 200
    heads: int = 2
    intermediate_size: int = 200
    context: int = 512
    batch_size: int = 16
    megabytes: float = 20
    sources: tuple[str, ...] = ("imdb", "rotten_tomatoes")


def prepare(size: Size, folder: Path) -> None:
    """Write the tables and the tokenizer."""
    from bench.data import labelled_table, tokenizer_file

    tokenizer_file(folder, size.vocab_size, size.megabytes)
    for texts, skip in ((size.texts, 0), (size.held_out, size.texts)):
        labelled_table(folder, size.sources, texts, skip)


def recipe_of(size: Size, folder: Path, vocabulary: int) -> Any:
    """Describe Greffon's fine-tuning of a lab model."""
    from bench.data import LABELS, labelled_table
    from greffon.core.own_presets import lab
    from greffon.core.recipe import Data, Recipe

    preset = lab()
    shape = lab_shape(size)
    training = replace(
        preset.finetuning,
        batch_size=size.batch_size,
        learning_rate=RATE,
        lr_schedule="constant",
        warmup_steps=0,
        steps=1_000_000,
    )
    data = Data(
        train=(str(labelled_table(folder, size.sources, size.texts, skip=0)),),
        valid=(str(labelled_table(folder, size.sources, size.held_out, skip=size.texts)),),
    )
    return Recipe("classify", "lab", shape, training, data, vocabulary, graft=preset.graft, labels=LABELS)


def greffon(turns: Turns, size: Size, folder: Path) -> None:
    """The package's own loop, with length buckets."""
    from bench.data import tokenizer_file
    from greffon.core.machine import keep_memory
    from greffon.data.tokenizer import Tokenizer
    from greffon.nn.build import make_model
    from greffon.training.jobs import classify
    from greffon.training.loop import fit
    from greffon.training.optim import make_optimizers

    keep_memory()
    tokenizer = Tokenizer.load(tokenizer_file(folder, size.vocab_size, size.megabytes))
    recipe = recipe_of(size, folder, tokenizer.size)
    job, model = classify(recipe, tokenizer), make_model(recipe)
    steps = fit(model, job.objective, job.batches, make_optimizers(model, recipe.training), recipe.training)
    for _ in turns:
        for _step in islice(steps, job.epoch):
            pass
        turns.report(size.texts)
    turns.note(accuracy=job.evaluate(model)["accuracy"])


def encoded(size: Size, folder: Path) -> list[list[tuple[list[int], int]]]:
    """The texts to train on and the held-out ones as ids, as much of each as the context holds, and classes."""
    from bench.data import labelled_table, tokenizer_file
    from greffon.data.corpora import labelled
    from greffon.data.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(tokenizer_file(folder, size.vocab_size, size.megabytes))
    parts = []
    for texts, skip in ((size.texts, 0), (size.held_out, size.texts)):
        rows = labelled(labelled_table(folder, size.sources, texts, skip), "text", "label")
        ids = tokenizer.encode_many([row.text for row in rows])
        parts.append(
            [
                ([tokenizer.start, *some][: size.context], int(row.label == "positive"))
                for some, row in zip(ids, rows, strict=True)
            ]
        )
    return parts


def lab_loop(turns: Turns, size: Size, folder: Path) -> None:
    """A plain PyTorch loop over random batches, each padded to its longest text."""
    import torch
    import torch.nn.functional as F

    from bench.lab import LabModel, padded, random_batches

    train, held = encoded(size, folder)
    torch.manual_seed(0)
    model = LabModel(size.vocab_size, 2, size.layers, size.hidden_size, size.heads, size.intermediate_size)
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    for epoch, _ in enumerate(turns):
        for members in random_batches(len(train), size.batch_size, epoch):
            tokens, lengths = padded([train[i][0] for i in members])
            loss = F.cross_entropy(model.class_logits(tokens, lengths), torch.tensor([train[i][1] for i in members]))
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        turns.report(size.texts)
    model.eval()
    right = 0
    with torch.no_grad():
        for start in range(0, len(held), size.batch_size):
            some = held[start : start + size.batch_size]
            found = model.class_logits(*padded([ids for ids, _ in some])).argmax(dim=-1)
            right += int((found == torch.tensor([label for _, label in some])).sum())
    turns.note(accuracy=right / len(held))


def trainer(turns: Turns, size: Size, folder: Path) -> None:
    """`transformers.Trainer`, grouping by length, with a GPT-2 of the same size."""
    import torch
    from transformers import GPT2ForSequenceClassification

    from bench.lab import padded
    from bench.trainer import gpt2, train_in_turns

    train, held = encoded(size, folder)
    config = gpt2(
        size.vocab_size, size.context, size.layers, size.hidden_size, size.heads, size.intermediate_size, num_labels=2
    )
    torch.manual_seed(0)
    model = GPT2ForSequenceClassification(config)

    def collate(examples: list[dict[str, Any]]) -> dict[str, Any]:
        tokens, lengths = padded([example["input_ids"] for example in examples])
        real = (torch.arange(tokens.shape[1]) < lengths.unsqueeze(1)).long()
        labels = torch.tensor([example["labels"] for example in examples])
        return {"input_ids": tokens, "attention_mask": real, "labels": labels}

    examples = [{"input_ids": ids, "labels": label} for ids, label in train]
    train_in_turns(
        turns,
        model,
        examples,
        collate,
        batch_size=size.batch_size,
        steps=-(-len(examples) // size.batch_size),
        work=size.texts,
        learning_rate=RATE,
        grouped=True,
    )
    model.eval()
    right = 0
    with torch.no_grad():
        for start in range(0, len(held), size.batch_size):
            batch = collate(
                [{"input_ids": ids, "labels": label} for ids, label in held[start : start + size.batch_size]]
            )
            found = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits.argmax(dim=-1)
            right += int((found == batch["labels"]).sum())
    turns.note(accuracy=right / len(held))


CONTESTANTS = {"Greffon": greffon, "lab loop": lab_loop, "Trainer, grouped by length": trainer}
SMALL = Size(
    texts=16,
    held_out=8,
    vocab_size=300,
    layers=1,
    hidden_size=16,
    intermediate_size=16,
    context=64,
    batch_size=4,
    megabytes=0.05,
)
SENTENCES = {"context": 64, "sources": ("rotten_tomatoes",)}
CONTESTS = (
    Contest(
        "finetune",
        "fine-tuning epoch, 4 × 200, texts of 5 to 512 tokens",
        "docs/s",
        CONTESTANTS,
        Size(),
        SMALL,
        prepare,
        goals=(Goal("lab loop", 4.0), Goal("Trainer, grouped by length", 1.6)),
    ),
    Contest(
        "finetune-sentences",
        "the same, 1,000 single sentences; accuracy on 2,000",
        "docs/s",
        CONTESTANTS,
        Size(texts=1000, held_out=2000, **SENTENCES),
        replace(SMALL, **SENTENCES),
        prepare,
    ),
)
