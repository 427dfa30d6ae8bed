"""Every preset under every objective, and every head: exported and equal, or named in one sentence beforehand."""

from dataclasses import replace
from pathlib import Path

import checkpoints
import pytest
import torch
import transformers

import greffon
from greffon.core.choices import BodyKind, Objective
from greffon.core.errors import UserError
from greffon.core.graft import Graft
from greffon.core.presets import PRESETS
from greffon.core.recipe import Contrast, Data, Masking, Recipe
from greffon.core.shape import Shape
from greffon.data.tokenizer import Tokenizer
from greffon.nn.build import make_model
from greffon.runs.huggingface.fit import export_note
from greffon.runs.run import Run
from greffon.training.pretrain import BODIES

TOKENIZER = Tokenizer.train(checkpoints.TEXTS, 300)
PAIRS = [(name, objective) for name, make in PRESETS.items() for objective in make().objectives]
REFUSED = {
    ("lab", "causal"), ("lab", "masked"), ("lab", "contrastive"), ("small", "seq2seq"), ("base", "seq2seq"),
}  # fmt: skip
"""What has no home: post-norm with sinusoidal positions, and pre-norm translators."""
CLASSES = {  # preset, the body under the head, the head → is there a home for it?
    ("compact", "decoder", Graft(pooling="last", class_bias=False)): True,
    ("compact", "decoder", Graft()): False,
    ("compact", "encoder", Graft(pooling="mean", pooler_activation="identity", pooler_norm=True)): True,
    ("compact", "encoder", Graft(pooling="cls", pooler_activation="gelu", pooler_norm=True, pooler_bias=False)): True,
    ("compact", "encoder", Graft(pooling="mean", concat_embeddings=True)): False,
    ("bert-mini", "encoder", Graft(pooling="cls", pooler_activation="tanh")): True,
    ("bert-mini", "encoder", Graft(pooling="mean")): False,
    ("gpt2-mini", "decoder", Graft(pooling="last", class_bias=False)): True,
    ("lab", "decoder", Graft(pooling="last")): False,
}


def recipe_of(preset: str, objective: Objective, body: BodyKind, shape: Shape, graft: Graft | None = None) -> Recipe:
    small = replace(shape, layers=2, hidden_size=16, heads=2, key_value_heads=0, intermediate_size=24, context=40)
    return Recipe(
        objective=objective, preset=preset, shape=small, training=PRESETS[preset]().training, data=Data(),
        vocab_size=TOKENIZER.size, tokenizer_digest=TOKENIZER.digest, body=body, graft=graft,
        labels=("bad", "good") if graft else (), masking=Masking() if objective == "masked" else None,
        contrast=Contrast() if objective == "contrastive" else None,
    )  # fmt: skip


def run_of(recipe: Recipe, path: Path) -> Run:
    run = Run.create(path, recipe)
    TOKENIZER.save(run.path)
    run.save_model(checkpoints.noisy(make_model(recipe)), {})
    run.mark_finished()
    return run


AUTO = {
    "masked": transformers.AutoModelForMaskedLM, "causal": transformers.AutoModelForCausalLM,
    "seq2seq": transformers.AutoModelForSeq2SeqLM, "contrastive": transformers.AutoModel,
    "classify": transformers.AutoModelForSequenceClassification,
}  # fmt: skip


@torch.no_grad()
def check(run: Run, path: Path) -> None:
    """Compare what `transformers` computes from the export with what the run does."""
    theirs = AUTO[run.recipe.objective].from_pretrained(greffon.export(run, to="huggingface", out=path)).eval()
    random = torch.Generator().manual_seed(0)
    tokens = torch.randint(6, TOKENIZER.size, (2, 11), generator=random)
    model = run.load_model()
    if run.recipe.objective == "seq2seq":
        ours = model.head(model.body(tokens, tokens[:, :5]))
        found = theirs(input_ids=tokens, decoder_input_ids=tokens[:, :5]).logits
    elif run.recipe.objective == "contrastive":
        ours, found = model.body(tokens), theirs(input_ids=tokens).last_hidden_state
    else:
        ours, found = model(tokens), theirs(input_ids=tokens).logits
    torch.testing.assert_close(ours, found, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("name", "objective"), PAIRS)
def test_each_preset_leaves_or_says_beforehand_that_it_will_not(name: str, objective: str, tmp_path: Path) -> None:
    recipe = recipe_of(name, objective, BODIES[objective], PRESETS[name]().shape_for(objective))
    note = export_note(recipe)
    assert bool(note) == ((name, objective) in REFUSED)
    run = run_of(recipe, tmp_path / "run")
    if not note:
        check(run, tmp_path / "there")
        return
    assert note.startswith("This model cannot be exported to transformers: it is no ")
    assert len(note.splitlines()) == 1
    with pytest.raises(UserError, match="is no "):
        greffon.export(run, to="huggingface", out=tmp_path / "there")
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize(("case", "leaves"), CLASSES.items())
def test_each_class_head_leaves_or_says_beforehand_that_it_will_not(
    case: tuple[str, BodyKind, Graft], leaves: bool, tmp_path: Path
) -> None:
    name, body, graft = case
    objective = "masked" if body == "encoder" else "causal"
    recipe = recipe_of(name, "classify", body, PRESETS[name]().shape_for(objective), graft)
    assert (export_note(recipe) == "") == leaves, export_note(recipe)
    run = run_of(recipe, tmp_path / "run")
    if leaves:
        check(run, tmp_path / "there")
    else:
        with pytest.raises(UserError, match="is no "):
            greffon.export(run, to="huggingface", out=tmp_path / "there")


def test_the_sentence_comes_before_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.txt"
    text.write_text("\n".join(checkpoints.TEXTS), encoding="utf-8")
    small = {"vocab_size": 300, "steps": 1, "layers": 1, "hidden_size": 8, "heads": 2, "context": 16}
    greffon.pretrain([text], out=tmp_path / "lab", preset="lab", **small)
    said = capsys.readouterr().err
    assert said.startswith("This model cannot be exported to transformers")
    greffon.pretrain([text], out=tmp_path / "compact", **small)
    assert "cannot be exported" not in capsys.readouterr().err
