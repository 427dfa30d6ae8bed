"""Where a contrastive pretraining begins, and when that is computed."""

import math
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

import greffon
from greffon.core.rng import derive, generator
from greffon.data.lsa import MOST_DOCUMENTS, SCALE, lsa_embeddings
from greffon.nn.build import make_model
from greffon.objectives.corpus import training_documents
from greffon.runs.run import Run
from greffon.runs.tensors import tensors_of
from greffon.training import initial_model
from greffon.training.lsa_start import QUIET, WORDS_SCALE, begin_with_lsa

TINY = {
    "objective": "contrastive", "layers": 1, "hidden_size": 16, "heads": 2, "intermediate_size": 16, "context": 32,
    "span_length": 12, "batch_size": 8, "vocab_size": 290, "dropout": 0.0, "quiet": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of six topics, each with words of its own."""
    random = generator(0, "topics")
    topics = [[f"{letter}{vowel}{letter}" for vowel in "aeiou"] for letter in "bdfgkl"]
    lines = [" ".join(random.choice(topics[i % 6], 30)) for i in range(120)]
    path = tmp_path_factory.mktemp("lsa") / "text.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(text: Path) -> Run:
    return greffon.pretrain([text], out=text.parent / "run", steps=2, **TINY)


def test_the_first_embeddings_are_those_of_the_analysis(run: Run) -> None:
    fresh, model = make_model(run.recipe), make_model(run.recipe)
    begin_with_lsa(model, run.recipe, run.tokenizer)
    words = [run.tokenizer.text([i]) if run.tokenizer.byte_lengths[i] else "" for i in range(run.tokenizer.size)]
    words += [""] * (run.recipe.vocab_size - len(words))
    documents = list(training_documents(run.recipe, run.tokenizer, MOST_DOCUMENTS))
    wanted = lsa_embeddings(documents, words, 16, derive(run.recipe.training.seed, "lsa"))
    assert wanted is not None
    scale = math.sqrt(16) if run.recipe.shape.scale_embeddings else 1.0
    found = model.body.embedding.weight.detach().numpy()
    np.testing.assert_allclose(found * scale, wanted, rtol=1e-6)
    np.testing.assert_allclose(model.head.words.weight.detach().numpy(), wanted * WORDS_SCALE, rtol=1e-6)
    # A body adds next to nothing at first, and the rest of it is as it was.
    (block,), (old,) = model.body.blocks, fresh.body.blocks
    for linear, before in zip(block.output_linears, old.output_linears, strict=True):
        torch.testing.assert_close(linear.weight, before.weight * QUIET)
    changed = {name for name, tensor in tensors_of(model).items() if not torch.equal(tensor, tensors_of(fresh)[name])}
    assert not [name for name in changed if "query" in name or "key" in name]
    if model.body.embedding_norm is not None:
        assert model.body.embedding_norm.weight.unique().tolist() == pytest.approx([SCALE])


def test_before_training_the_words_are_predicted_by_how_often_they_stand(run: Run) -> None:
    """A word in few documents has more weight than its number says; one in every document has none."""
    model = make_model(run.recipe)
    begin_with_lsa(model, run.recipe, run.tokenizer)
    told = model.head.words.bias.detach().exp().numpy()
    assert told.sum() == pytest.approx(1.0, abs=1e-5)
    lines = Path(run.recipe.data.train[0]).read_text(encoding="utf-8").splitlines()
    documents = [run.tokenizer.encode(line) for line in lines]
    counts = Counter(int(i) for ids in documents for i in ids)
    holders = Counter(int(i) for ids in documents for i in set(map(int, ids)))
    expected = np.full(run.recipe.vocab_size, 0.1)
    for token, count in counts.items():
        if holders[token] >= 3:
            expected[token] += count * max(0.0, math.log(len(documents) / (holders[token] + 1)))
    np.testing.assert_allclose(told, expected / expected.sum(), rtol=1e-4)


def test_a_text_too_small_to_analyse_changes_nothing(text: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.txt"
    few.write_text("\n".join(text.read_text(encoding="utf-8").splitlines()[:12]) + "\n", encoding="utf-8")
    small = greffon.pretrain([few], out=tmp_path / "run", steps=1, **TINY)
    model, fresh = make_model(small.recipe), tensors_of(make_model(small.recipe))
    begin_with_lsa(model, small.recipe, small.tokenizer)
    assert all(torch.equal(tensor, fresh[name]) for name, tensor in tensors_of(model).items())


def test_resuming_does_not_analyse_the_text_again(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> None:
        raise AssertionError("the checkpoint has the weights")

    monkeypatch.setattr(initial_model, "begin_with_lsa", refuse)
    assert greffon.resume(run, extra_steps=1, quiet=True).checkpoint_step == 3


def test_two_processes_begin_where_one_does(
    text: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The main process alone analyses the text; with FSDP each process keeps a part of what it made."""
    monkeypatch.setitem(os.environ, "OMP_NUM_THREADS", "1")
    how = {**TINY, "tokenizer": run.path, "steps": 1}
    del how["vocab_size"]
    alone = greffon.pretrain([text], out=tmp_path / "one", **how)
    together = greffon.pretrain([text], out=tmp_path / "two", processes=2, fsdp=True, **how)
    ours, theirs = ([entry["valid"] for entry in each.metrics() if "valid" in entry] for each in (alone, together))
    assert theirs[0] == pytest.approx(ours[0], abs=1e-6)
    assert theirs[-1] == pytest.approx(ours[-1], abs=1e-4)
