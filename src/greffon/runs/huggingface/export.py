"""Export a run as a checkpoint that `transformers` loads."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from greffon.core.errors import UserError
from greffon.core.files import write_atomically, write_json
from greffon.data.tokenizer import Tokenizer
from greffon.runs.export_dir import open_directory
from greffon.runs.folding import fold_embedding_scale, fold_scale, fold_temperature
from greffon.runs.huggingface.card import model_card
from greffon.runs.huggingface.checkpoint import ALIASES
from greffon.runs.huggingface.companions import give_licence
from greffon.runs.huggingface.configs import config_of
from greffon.runs.huggingface.families import Family
from greffon.runs.huggingface.fit import fitting_family, misfits, refuse_apart, remedy, use_for
from greffon.runs.huggingface.sentence_transformers import write_modules
from greffon.runs.huggingface.tensor_map import places_of, to_theirs
from greffon.runs.huggingface.tokenizer_files import check_tokenizer, write_tokenizer
from greffon.runs.run import Run
from greffon.runs.tensors import tensors_of


@dataclass(frozen=True)
class Checkpoint:
    """A model as its family has it."""

    family: Family
    config: dict[str, Any]
    tensors: dict[str, Tensor]


def as_checkpoint(run: Run) -> Checkpoint:
    """Convert a model to the family that it fits exactly; raise a `UserError` if there is none."""
    recipe, tokenizer = run.recipe, run.tokenizer
    refuse_apart(recipe, run.path)
    family = fitting_family(recipe)
    problems = misfits(family, recipe, tokenizer)
    if problems:
        raise UserError(
            f"{run.path} (preset {recipe.preset}) is no {family.title}: {'; '.join(problems)}" + remedy(family, recipe)
        )
    check_tokenizer(tokenizer)
    ours = tensors_of(fold_scale(fold_temperature(run.load_model(), run.scores), recipe))
    if recipe.shape.scale_embeddings and "scale_embeddings" not in family.names:
        ours = fold_embedding_scale(ours, recipe)
    tensors = to_theirs(ours, places_of(family.kind, recipe))
    if not recipe.shape.tie_embeddings:  # then both names are read, and only the second is in use
        tensors |= {
            alias: tensors[name].clone() for alias, name in ALIASES.items() if name in tensors and "bias" in name
        }
    if use_for(recipe) == "body":
        tensors = {name.removeprefix(family.prefix): tensor for name, tensor in tensors.items()}
    return Checkpoint(family, config_of(family, recipe, use_for(recipe), tokenizer, run.scores), tensors)


def to_huggingface(run: Run, out: Path) -> Path:
    """Write config.json, safetensors, tokenizer files and a model card, if the model fits a family exactly."""
    recipe, tokenizer = run.recipe, run.tokenizer
    made = as_checkpoint(run)
    config = made.config
    open_directory(out, run, "huggingface")
    write_tokenizer(tokenizer, out, recipe)
    write_json(out / "config.json", config)
    if recipe.objective in ("causal", "seq2seq"):
        write_json(out / "generation_config.json", _generation(run, tokenizer))
    embeds = recipe.body == "encoder" or (recipe.body == "decoder" and recipe.embedding is not None)
    if embeds and recipe.graft is None:
        write_modules(run, out)
    give_licence(run, out)
    write_atomically(out / "README.md", model_card(run, config["architectures"][0], out.resolve().name).encode())
    write_atomically(out / "model.safetensors", save(made.tensors, metadata={"format": "pt"}))
    return out


def _generation(run: Run, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return a generation config with which `transformers` ends a text and bans tokens as `greffon.generate` does."""
    vocab_size, context = run.recipe.vocab_size, run.recipe.shape.context
    roles = {tokenizer.pad, tokenizer.start, tokenizer.cls, tokenizer.sep, tokenizer.mask} - {tokenizer.end}
    banned = sorted(roles | {*range(tokenizer.size, vocab_size)})
    known: dict[str, Any] = {
        "pad_token_id": tokenizer.pad,
        "eos_token_id": tokenizer.end,
        "bos_token_id": tokenizer.start,
        "max_length": context,
    }
    if banned:
        known["bad_words_ids"] = [[id] for id in banned]
    if run.recipe.objective == "seq2seq":
        known |= {"decoder_start_token_id": tokenizer.start, "num_beams": 4, "length_penalty": 1.0}
    return known
