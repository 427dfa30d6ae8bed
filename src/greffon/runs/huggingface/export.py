"""Export a run as a checkpoint that `transformers` loads."""

from pathlib import Path
from typing import Any

from safetensors.torch import save

from greffon.core.errors import UserError
from greffon.core.files import write_atomically, write_json
from greffon.data.tokenizer import Tokenizer
from greffon.runs.export_dir import open_directory
from greffon.runs.huggingface.card import model_card
from greffon.runs.huggingface.checkpoint import ALIASES
from greffon.runs.huggingface.families import GPT2, MARIAN, config_of, fitting_family, misfits
from greffon.runs.huggingface.tensor_map import places_of, to_theirs
from greffon.runs.huggingface.tokenizer_files import check_tokenizer, write_tokenizer
from greffon.runs.run import Run
from greffon.runs.tensors import tensors_of


def to_huggingface(run: Run, out: Path) -> Path:
    """Write config.json, safetensors, tokenizer files and a model card, if the model fits a family exactly."""
    recipe, tokenizer = run.recipe, run.tokenizer
    family = fitting_family(recipe)
    problems = misfits(family, recipe, tokenizer)
    if problems:
        raise UserError(
            f"{run.path} (preset {recipe.preset}) is no {family.title}: {'; '.join(problems)}; "
            f"a body of --preset {family.offered} fits"
        )
    check_tokenizer(tokenizer)
    model = run.load_model()
    tensors = to_theirs(tensors_of(model), places_of(family.kind, recipe))
    if not recipe.shape.tie_embeddings:  # then both names are read, and only the second is in use
        tensors |= {
            alias: tensors[name].clone() for alias, name in ALIASES.items() if name in tensors and "bias" in name
        }
    if recipe.objective == "body":
        tensors = {name.removeprefix(family.prefix): tensor for name, tensor in tensors.items()}
    config = config_of(family, recipe, tokenizer)
    open_directory(out, run, "huggingface")
    write_tokenizer(tokenizer, out, family, recipe.shape.context)
    write_json(out / "config.json", config)
    if (family is GPT2 and recipe.objective == "causal") or family is MARIAN:
        write_json(out / "generation_config.json", _generation(run, tokenizer))
    write_atomically(out / "README.md", model_card(run, config["architectures"][0], out.resolve().name).encode())
    write_atomically(out / "model.safetensors", save(tensors, metadata={"format": "pt"}))
    return out


def _generation(run: Run, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return a generation config with which `transformers` ends a text and bans tokens as `greffon.generate` does."""
    vocabulary, context = run.recipe.vocab_size, run.recipe.shape.context
    roles = {tokenizer.pad, tokenizer.start, tokenizer.cls, tokenizer.sep, tokenizer.mask} - {tokenizer.end}
    banned = sorted(roles | {*range(tokenizer.size, vocabulary)})
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
