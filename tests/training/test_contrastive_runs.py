"""Runs of the contrastive objective, from a text to a graft."""

import re
from pathlib import Path
from shutil import copytree

import numpy as np
import pytest
import torch

import greffon
from greffon.cli.outcome import outcome
from greffon.core.errors import UserError
from greffon.core.presets import PRESETS
from greffon.core.rng import generator
from greffon.data.splits import load_splits
from greffon.objectives.corpus import held_out_documents
from greffon.runs.run import Run
from greffon.runs.tensors import tensors_of
from greffon.training.adaptation import prepare
from greffon.training.block_share import block_share
from greffon.training.finetune import graft_recipe, labelled_data
from greffon.training.jobs import JOBS

TINY = {
    "objective": "contrastive", "layers": 1, "hidden_size": 16, "heads": 2, "intermediate_size": 16, "context": 32,
    "span_length": 12, "batch_size": 8, "vocab_size": 290, "quiet": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of six topics, each with words of its own."""
    random = generator(0, "topics")
    topics = [[f"{letter}{vowel}{letter}" for vowel in "aeiou"] for letter in "bdfgkl"]
    lines = [" ".join(random.choice(topics[i % 6], 30)) for i in range(240)]
    path = tmp_path_factory.mktemp("contrast") / "text.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(text: Path) -> Run:
    return greffon.pretrain([text], out=text.parent / "run", steps=30, dropout=0.1, **TINY)


def weights(run: Run) -> dict[str, torch.Tensor]:
    return tensors_of(run.load_model())


def test_views_of_one_document_are_told_from_others(run: Run) -> None:
    scores = [entry["valid"] for entry in run.metrics() if "valid" in entry]
    assert set(scores[0]) == {"loss", "contrast_loss", "words_loss", "accuracy"}
    assert run.scores["loss"] == min(score["loss"] for score in scores)
    assert run.recipe.body == "encoder"
    assert greffon.show(run).parameters == sum(tensor.numel() for tensor in weights(run).values())


def test_documents_of_one_topic_are_near_each_other(run: Run, text: Path) -> None:
    lines = text.read_text(encoding="utf-8").splitlines()[:60]
    vectors = greffon.embed(run, lines)
    vectors = vectors - vectors.mean(axis=0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    nearest = (vectors @ vectors.T - 2 * np.eye(60)).argmax(axis=1)
    assert (nearest % 6 == np.arange(60) % 6).mean() > 0.9


def test_resuming_is_exact(text: Path, tmp_path: Path) -> None:
    how = {**TINY, "dropout": 0.1, "lr_schedule": "constant", "warmup_steps": 0, "evaluate_every": 3}
    whole = greffon.pretrain([text], out=tmp_path / "whole", steps=6, **how)
    half = greffon.pretrain([text], out=tmp_path / "half", steps=3, **how)
    again = greffon.resume(half, extra_steps=3, quiet=True)
    ours, theirs = whole.load_checkpoint(), again.load_checkpoint()
    assert ours is not None
    assert theirs is not None
    assert ours[1].keys() == theirs[1].keys()
    assert all(torch.equal(ours[1][name], theirs[1][name]) for name in ours[1])


def test_batches_of_one_step_contrast_with_each_other(text: Path, tmp_path: Path) -> None:
    steps = {}
    for name, how in {"one": {"batch_size": 8}, "two": {"batch_size": 4, "gradient_accumulation": 2}}.items():
        made = greffon.pretrain([text], out=tmp_path / name, steps=4, **{**TINY, "dropout": 0.0, **how})
        steps[name] = [[e["loss"], e["grad_norm"]] for e in made.metrics() if "loss" in e]
    # All tokens are among the most frequent ones, so that none is deleted by chance.
    np.testing.assert_allclose(steps["one"], steps["two"], rtol=1e-4)


def test_a_graft_reads_the_mean(run: Run, text: Path, tmp_path: Path) -> None:
    rows = [f"{line},{'ab'[i % 2]}" for i, line in enumerate(text.read_text(encoding="utf-8").splitlines())]
    (tmp_path / "train.csv").write_text("text,label\n" + "\n".join(rows) + "\n", encoding="utf-8")
    made = greffon.finetune(run, train=tmp_path / "train.csv", out=tmp_path / "graft", epochs=1, quiet=True)
    assert made.recipe.graft is not None
    assert made.recipe.graft.pooling == "mean"
    for name, tensor in weights(run).items():
        if name.startswith("body.embedding"):
            assert tensor.shape == weights(made)[name].shape


def test_adapting_goes_on_with_the_settings_of_contrast(run: Run, text: Path, tmp_path: Path) -> None:
    lines = text.read_text(encoding="utf-8").splitlines()[:12]
    (tmp_path / "train.csv").write_text("text,label\n" + "\n".join(f"{x},{'ab'[i % 2]}" for i, x in enumerate(lines)))
    labelled = labelled_data(tmp_path / "train.csv", None, None, "text", "label")
    recipe = graft_recipe(run, labelled, load_splits(labelled), epochs=1, seed=0, settings={})
    prepare(run, recipe, tmp_path / "graft", adapt=True)
    adapted, preset = Run.open(tmp_path / "graft" / "adapted").recipe.training, PRESETS[run.recipe.preset]()
    for name in ("batch_size", "optimizer", "learning_rate", "muon_learning_rate"):
        assert getattr(adapted, name) == getattr(preset.contrastive, name), name
    for name in ("steps", "patience", "warmup_steps"):
        assert getattr(adapted, name) == getattr(preset.adaptation, name), name
    assert preset.contrastive.batch_size != preset.adaptation.batch_size


def test_what_blocks_add_is_made_less_in_the_weights_that_are_handed_over_and_nowhere_else(
    run: Run, text: Path, tmp_path: Path
) -> None:
    made = greffon.pretrain([text], out=tmp_path / "run", steps=30, dropout=0.1, block_share=0.25, **TINY)
    assert [e["loss"] for e in made.metrics() if "loss" in e] == [e["loss"] for e in run.metrics() if "loss" in e]
    batch = JOBS["contrastive"](made.recipe, made.tokenizer).batches(0)[0]
    shares = [block_share(one.load_model().body, batch) for one in (made, run)]
    assert shares[0] == pytest.approx(0.25, rel=0.05)
    assert abs(shares[1] - 0.25) > 0.05
    found, whole = weights(made), weights(run)
    outputs = {name for name in whole if name.endswith(("attention.out.weight", "feed_forward.down.weight"))}
    assert all(torch.equal(found[name], whole[name]) for name in whole.keys() - outputs)
    factors = torch.cat([(found[name] / whole[name]).flatten() for name in outputs])
    assert factors.std() < 1e-5 * factors.mean()
    whole_run = Run.open(copytree(run.path, tmp_path / "whole"))
    further = [greffon.resume(one.path, extra_steps=5, quiet=True) for one in (made, whole_run)]
    losses = [[e["loss"] for e in one.metrics() if "loss" in e] for one in further]
    assert losses[0] == losses[1], "training goes on from the weights as they were trained"


def test_a_file_is_scored(run: Run, text: Path) -> None:
    scores = greffon.evaluate(run, text)
    assert scores.n == 480
    assert scores.interval[0] <= scores.accuracy <= scores.interval[1]
    assert scores == greffon.evaluate(run, text)
    assert list(scores.to_json()) == ["accuracy", "interval", "loss", "n"]  # an interval beside the first measure


def test_the_last_line_of_a_pretraining_does_not_read_like_that_of_a_classifier(run: Run) -> None:
    assert re.match(
        r"\S+: partner found for \d+\.\d% of the held-out views, held-out loss \d\.\d{3} nats", outcome(run)
    )


def test_short_texts_are_warned_about_and_trained_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("".join(f"mot {i} ou {i}\n" for i in range(60)), encoding="utf-8")
    with pytest.warns(UserWarning, match="most texts are too short") as told:
        made = greffon.pretrain([tmp_path / "short.txt"], out=tmp_path / "run", steps=2, **TINY)
    assert any("only 0 pairs of different spans held out" in str(each.message) for each in told)
    assert made.finished
    assert "accuracy" not in made.scores
    assert "nats a view" in outcome(made)
    with pytest.raises(UserError, match="every text has fewer than 16 tokens"):
        greffon.evaluate(made, tmp_path / "short.txt")


def test_texts_that_lose_a_few_tokens_are_short_all_the_same(tmp_path: Path) -> None:
    # 15 tokens, of which each view keeps ten or so: above the shortest span, and yet the views are copies.
    random = generator(0, "fifteen")
    lines = [" ".join(random.choice([*"abcdefgh"], 15)) for _ in range(60)]
    (tmp_path / "short.txt").write_text("\n".join(lines), encoding="utf-8")
    with pytest.warns(UserWarning, match="only its words are predicted, not contrasted"):
        made = greffon.pretrain([tmp_path / "short.txt"], out=tmp_path / "run", steps=2, **{**TINY, "vocab_size": 270})
    assert {len(ids) for ids in made.tokenizer.encode_many(lines)} == {15}
    assert [entry["contrast_loss"] for entry in made.metrics() if "contrast_loss" in entry] == [0.0, 0.0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"span_length": 31}, "does not fit into a context of 32"),
        ({"temperature": 0.0}, "choose a number above 0"),
        ({"objective": "causal"}, "span_length belongs to objective=contrastive"),
        ({"preset": "bert-mini"}, "serves masked, not contrastive"),
    ],
)
def test_what_cannot_be_is_refused(given: dict, said: str, text: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        greffon.pretrain([text], out=tmp_path / "run", steps=1, **{**TINY, **given})
    assert not (tmp_path / "run").exists()


def test_documents_that_score_nothing_are_not_held_out(text: Path, tmp_path: Path) -> None:
    lines = text.read_text(encoding="utf-8").splitlines()[:3] + ["a"] * 97
    (tmp_path / "mixed.txt").write_text("\n".join(lines), encoding="utf-8")
    made = greffon.pretrain([tmp_path / "mixed.txt"], out=tmp_path / "run", steps=1, **TINY)
    (held,) = held_out_documents(made.recipe, made.tokenizer)
    assert made.tokenizer.decode(held[1:-1]) in lines[:3]
    (tmp_path / "one.txt").write_text("\n".join(lines[2:]), encoding="utf-8")
    with pytest.raises(UserError, match="a single document of two tokens or more"):
        greffon.pretrain([tmp_path / "one.txt"], out=tmp_path / "other", steps=1, **TINY)


def test_equal_documents_are_refused(text: Path, tmp_path: Path) -> None:
    line = text.read_text(encoding="utf-8").splitlines()[0]
    (tmp_path / "equal.txt").write_text("\n".join([line] * 40), encoding="utf-8")
    with pytest.raises(UserError, match="no two documents to train on are different"):
        greffon.pretrain([tmp_path / "equal.txt"], out=tmp_path / "run", steps=1, **TINY)


def test_a_corpus_without_two_views_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letters.txt").write_text("a\nb\nc\n", encoding="utf-8")
    with pytest.raises(UserError, match="no document has two tokens or more"):
        greffon.pretrain([tmp_path / "letters.txt"], out=tmp_path / "run", steps=1, **TINY)
