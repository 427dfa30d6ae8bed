"""Embedding and contrastive pretraining beside `sentence-transformers`, with a BERT of the same form."""

from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from bench.contest import Contest, Goal
from bench.turns import Turns


@dataclass(frozen=True)
class Size:
    """A model, its texts and its batches."""

    texts: int = 512
    steps: int = 4
    vocab_size: int = 8000
    layers: int = 4
    hidden_size: int = 256
    heads: int = 4
    intermediate_size: int = 1024
    context: int = 256
    span_length: int = 64
    batch_size: int = 32
    megabytes: float = 20
    sources: tuple[str, ...] = ("imdb", "rotten_tomatoes")


def recipe_of(size: Size, folder: Path, vocabulary: int) -> Any:
    """Describe the contrastive pretraining of a BERT."""
    from bench.data import text_file
    from greffon.core.presets import preset
    from greffon.core.recipe import Contrast, Data, Recipe

    base = preset("bert-mini", "masked")
    names = ("layers", "hidden_size", "heads", "intermediate_size", "context")
    shape = replace(base.shape, **{name: getattr(size, name) for name in names}, dropout=0.0)
    training = replace(
        base.training, batch_size=size.batch_size, steps=1_000_000, optimizer="adamw", learning_rate=2e-5
    )
    data = Data(train=(str(text_file(folder, size.megabytes)),))
    contrast = Contrast(span_length=size.span_length, temperature=0.05)
    return Recipe("contrastive", "bert-mini", shape, training, data, vocabulary, body="encoder", contrast=contrast)


def run_folder(size: Size, folder: Path) -> Path:
    """Where the body is."""
    return folder / f"embedder-{size.vocab_size}-{size.hidden_size}-{size.context}"


def prepare(size: Size, folder: Path) -> None:
    """Write the texts, the tokenizer, and a body with fresh weights: how good they are changes no speed."""
    from bench.data import labelled_table, text_file, tokenizer_file
    from greffon.data.tokenizer import Tokenizer
    from greffon.nn.build import make_model
    from greffon.runs.run import Run

    text_file(folder, size.megabytes)
    labelled_table(folder, size.sources, size.texts, skip=0)
    tokenizer = Tokenizer.load(tokenizer_file(folder, size.vocab_size, size.megabytes))
    recipe = recipe_of(size, folder, tokenizer.size)
    run = Run.create(run_folder(size, folder), recipe)
    run.adopt(tokenizer)
    run.save_model(make_model(run.recipe), {"loss": 0.0, "step": 1})
    run.mark_finished()


def texts_of(size: Size, folder: Path) -> list[str]:
    """Texts of very different length, in no order."""
    from bench.data import labelled_table
    from greffon.core.rng import generator
    from greffon.data.corpora import documents

    found = list(documents([labelled_table(folder, size.sources, size.texts, skip=0)], "text"))
    return [found[i] for i in generator(0, "bench", "embedding").permutation(len(found))]


def job_of(size: Size, folder: Path) -> tuple[Any, Any]:
    """The run, and its batches of pairs of spans: both contestants train on the same ones."""
    from greffon.runs.run import Run
    from greffon.training.jobs import pretraining

    run = Run.open(run_folder(size, folder))
    return run, pretraining(run.recipe, run.tokenizer)


def greffon_pretraining(turns: Turns, size: Size, folder: Path) -> None:
    """The package's own loop with the objective `contrastive`."""
    from greffon.core.machine import keep_memory
    from greffon.nn.build import make_model
    from greffon.training.loop import fit
    from greffon.training.optim import make_optimizers

    keep_memory()
    run, job = job_of(size, folder)
    model, training = make_model(run.recipe), run.recipe.training
    steps = fit(model, job.objective, job.batches, make_optimizers(model, training), training)
    for _ in turns:
        for _step in islice(steps, size.steps):
            pass
        turns.report(size.steps * size.batch_size)


def bert(size: Size, vocabulary: int) -> Any:
    """A BERT of the same form with fresh weights."""
    import torch
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=size.hidden_size,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=size.intermediate_size,
        max_position_embeddings=size.context,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertModel(config, add_pooling_layer=False)


def sentence_transformer(size: Size, folder: Path) -> Any:
    """The same tokenizer and a BERT of the same form as a `SentenceTransformer`, from files."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    from transformers import PreTrainedTokenizerFast

    from bench.data import tokenizer_file

    file = tokenizer_file(folder, size.vocab_size, size.megabytes)
    fast = PreTrainedTokenizerFast(
        tokenizer_file=str(file), pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]"
    )
    place = folder / f"sentence-transformer-{size.vocab_size}-{size.hidden_size}"
    bert(size, len(fast)).save_pretrained(place)
    fast.save_pretrained(place)
    body = Transformer(str(place), max_seq_length=size.context)
    return SentenceTransformer(modules=[body, Pooling(size.hidden_size, "mean")], device="cpu")


def multiple_negatives(turns: Turns, size: Size, folder: Path) -> None:
    """`MultipleNegativesRankingLoss` in all directions and PyTorch's AdamW, on the same pairs of spans."""
    import torch
    from sentence_transformers.losses import MultipleNegativesRankingLoss

    _, job = job_of(size, folder)
    model = sentence_transformer(size, folder).train()
    both = ("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc")
    loss = MultipleNegativesRankingLoss(model, scale=20.0, directions=both)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    number = 0
    for _ in turns:
        for _step in range(size.steps):
            (batch,) = job.batches(number)
            number += 1
            sides = [features(batch, side) for side in (0, 1)]
            value = loss(sides, labels=None)
            optimizer.zero_grad()
            value.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        turns.report(size.steps * size.batch_size)


def features(batch: Any, side: int) -> dict[str, Any]:
    """One span of each pair, as `sentence-transformers` takes them: rows 2 i and 2 i + 1 of a batch are a pair."""
    import torch

    tokens = batch.tokens[side::2]
    real = torch.ones_like(tokens) if batch.document_ids is None else (batch.document_ids[side::2] != 0).long()
    return {"input_ids": tokens, "attention_mask": real}


def greffon_embedding(turns: Turns, size: Size, folder: Path) -> None:
    """`greffon.embed` of all texts."""
    from greffon.core.machine import keep_memory
    from greffon.inference.embed import embed

    keep_memory()
    texts = texts_of(size, folder)
    for _ in turns:
        embed(run_folder(size, folder), texts, long_texts="truncate")
        turns.report(len(texts))


def encode(turns: Turns, size: Size, folder: Path) -> None:
    """`SentenceTransformer.encode` of all texts, which sorts them by length, too."""
    texts, model = texts_of(size, folder), sentence_transformer(size, folder).eval()
    for _ in turns:
        model.encode(texts, batch_size=size.batch_size, show_progress_bar=False)
        turns.report(len(texts))


QUICK = Size(
    texts=16,
    steps=2,
    vocab_size=300,
    layers=1,
    hidden_size=16,
    heads=2,
    intermediate_size=16,
    context=32,
    span_length=12,
    batch_size=4,
    megabytes=0.05,
)
CONTESTS = (
    Contest(
        "contrastive",
        "contrastive pretraining, BERT 4 × 256, pairs of spans of 64 tokens, batches of 32",
        "pairs/s",
        {"Greffon": greffon_pretraining, "sentence-transformers": multiple_negatives},
        Size(),
        QUICK,
        prepare,
        goals=(Goal("sentence-transformers", 1.5),),
    ),
    Contest(
        "embed",
        "embedding, BERT 4 × 256, texts of 5 to 256 tokens",
        "docs/s",
        {"Greffon": greffon_embedding, "sentence-transformers": encode},
        Size(),
        QUICK,
        prepare,
        goals=(Goal("sentence-transformers", 2.0),),
    ),
)
