"""The files of Hugging Face checkpoints as targets: each mutation is imported, opened and loaded, or leaves nothing."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

import greffon
from greffon.core.errors import UserError
from greffon.core.files import write_json
from greffon.core.graft import Graft
from greffon.core.presets import PRESETS
from greffon.core.recipe import Data, Masking, Recipe
from greffon.core.training import Training
from greffon.data.tokenizer import Tokenizer
from greffon.nn.build import make_model
from greffon.runs.run import Run

Files = dict[str, tuple[Path, Callable[[], None]]]
SMALL: dict[str, Any] = {
    "layers": 1, "hidden_size": 8, "heads": 2, "key_value_heads": 0, "intermediate_size": 8, "context": 16,
}  # fmt: skip


def checkpoint_files(folder: Path, tokenizer: Tokenizer) -> Files:
    """Write sound checkpoints of each kind, and say how each file of them is loaded."""

    def exported(name: str, **described: Any) -> Path:
        preset = PRESETS[described["preset"]]()
        shape = replace(preset.shape_for(described.pop("shaped_for", described["objective"])), **SMALL)
        recipe = Recipe(
            shape=shape, training=Training(), data=Data(), vocab_size=tokenizer.size,
            tokenizer_digest=tokenizer.digest, **described,
        )  # fmt: skip
        run = Run.create(folder / f"{name}-run", recipe)
        tokenizer.save(run.path)
        run.save_model(make_model(recipe), {})
        run.mark_finished()
        return greffon.export(run, to="huggingface", out=folder / name)

    masked: dict[str, Any] = {"objective": "masked", "body": "encoder", "masking": Masking()}
    encoder = exported("encoder", preset="bert-mini", **masked)
    decoder = exported("decoder", preset="compact", objective="causal", body="decoder")
    sentences = exported("sentences", preset="compact", **masked)  # with the files of sentence-transformers
    head = Graft(pooling="mean", pooler_activation="identity", pooler_norm=True)
    classifier = exported(
        "classifier", preset="compact", objective="classify", shaped_for="masked", body="encoder", graft=head,
        labels=("bad", "good", "unsure"),
    )  # fmt: skip
    shards = shutil.copytree(encoder, folder / "shards")
    tensors = load_file(shards / "model.safetensors")
    (shards / "model.safetensors").unlink()
    named = {name: f"part-{i % 2}.safetensors" for i, name in enumerate(sorted(tensors))}
    for part in {*named.values()}:
        save_file({name: tensors[name] for name in named if named[name] == part}, shards / part)
    write_json(shards / "model.safetensors.index.json", {"metadata": {"total_size": 0}, "weight_map": named})

    def target(checkpoint: Path, file: str) -> tuple[Path, Callable[[], None]]:
        return checkpoint / file, lambda: imported(checkpoint, folder / "imported")

    return {
        "encoder config": target(encoder, "config.json"),
        "decoder config": target(decoder, "config.json"),
        "classifier config": target(classifier, "config.json"),
        "weight index": target(shards, "model.safetensors.index.json"),
        "foreign weights": target(encoder, "model.safetensors"),
        "tokenizer.json": target(decoder, "tokenizer.json"),
        "tokenizer config": target(decoder, "tokenizer_config.json"),
        "modules": target(sentences, "modules.json"),
        "pooling": target(sentences, "1_Pooling/config.json"),
        "generation config": target(decoder, "generation_config.json"),
    }


def imported(checkpoint: Path, out: Path) -> None:
    """Import a checkpoint, open the run and compute with it; a refusal must leave no directory."""
    try:
        greffon.import_checkpoint(checkpoint, out=out, quiet=True)
    except UserError:
        assert not out.exists(), "a directory that was left behind"
        raise
    try:
        run = Run.open(out)
        ids = run.tokenizer.encode("Un livre, voilà.")
        with torch.no_grad():
            run.load_model().eval()(torch.tensor([[run.tokenizer.cls, *ids][: run.recipe.shape.context]]))
    except UserError as problem:
        raise AssertionError(f"imported, and yet: {problem}") from problem
    finally:
        shutil.rmtree(out, ignore_errors=True)
