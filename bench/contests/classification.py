"""Classification: from text to label, documents a second. Tokenising is part of it."""

from pathlib import Path

from bench.contest import Contest, Goal
from bench.contests.finetuning import Size, recipe_of
from bench.turns import Turns


def prepare(size: Size, folder: Path) -> None:
    """Write the texts, and a run with fresh weights: how good they are changes no speed."""
    from bench.contests.finetuning import prepare as prepare_texts
    from bench.data import tokenizer_file
    from greffon.data.tokenizer import Tokenizer
    from greffon.nn.build import make_model
    from greffon.runs.run import Run

    prepare_texts(size, folder)
    tokenizer = Tokenizer.load(tokenizer_file(folder, size.vocab_size, size.megabytes))
    recipe = recipe_of(size, folder, tokenizer.size)
    run = Run.create(run_folder(size, folder), recipe)
    run.adopt(tokenizer)
    run.save_model(make_model(recipe), {"accuracy": 0.0})
    run.mark_finished()


def run_folder(size: Size, folder: Path) -> Path:
    """Where the classifier is."""
    return folder / f"classifier-{size.vocab_size}-{size.hidden_size}"


def texts_of(size: Size, folder: Path) -> list[str]:
    """The texts to label."""
    from bench.data import labelled_table
    from greffon.data.corpora import labelled

    return [row.text for row in labelled(labelled_table(folder, size.sources, size.texts, skip=0), "text", "label")]


def greffon(turns: Turns, size: Size, folder: Path) -> None:
    """`greffon.classify` on a run."""
    classify_in_turns(turns, size, folder, int8=False)


def greffon_int8(turns: Turns, size: Size, folder: Path) -> None:
    """The same in 8-bit integers."""
    classify_in_turns(turns, size, folder, int8=True)


def classify_in_turns(turns: Turns, size: Size, folder: Path, *, int8: bool) -> None:
    """Label all texts every turn."""
    from greffon.core.machine import keep_memory
    from greffon.inference.classify import classify
    from greffon.runs.run import Run

    keep_memory()
    texts, run = texts_of(size, folder), Run.open(run_folder(size, folder))
    for _ in turns:
        classify(run, texts, int8=int8)
        turns.report(len(texts))


def lab_loop(turns: Turns, size: Size, folder: Path) -> None:
    """A plain PyTorch loop over batches in the order of the texts, each padded to its longest."""
    import torch

    from bench.data import tokenizer_file
    from bench.lab import LabModel, padded
    from greffon.data.tokenizer import Tokenizer

    texts = texts_of(size, folder)
    tokenizer = Tokenizer.load(tokenizer_file(folder, size.vocab_size, size.megabytes))
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(0)).tolist()
    texts = [texts[i] for i in order]
    model = LabModel(tokenizer.size, 2, size.layers, size.hidden_size, size.heads, size.intermediate_size).eval()
    with torch.no_grad():
        for _ in turns:
            for start in range(0, len(texts), size.batch_size):
                ids = tokenizer.encode_many(texts[start : start + size.batch_size])
                rows = [[tokenizer.start, *some][: size.context] for some in ids]
                model.class_logits(*padded(rows)).softmax(dim=-1).argmax(dim=-1).tolist()
            turns.report(len(texts))


QUICK = Size(
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
CONTESTS = (
    Contest(
        "classify",
        "classification, 4 × 200, texts of 5 to 512 tokens",
        "docs/s",
        {"Greffon": greffon, "lab loop": lab_loop, "Greffon, int8": greffon_int8},
        Size(),
        QUICK,
        prepare,
        goals=(Goal("lab loop", 2.7), Goal("lab loop", 4.0, by="Greffon, int8")),
    ),
)
