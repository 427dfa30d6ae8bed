"""Import a Hugging Face checkpoint as a run: `greffon.import_checkpoint`."""

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from greffon.core.choices import Objective
from greffon.core.console import say
from greffon.core.errors import UserError
from greffon.core.presets import PRESETS
from greffon.core.recipe import Data, Recipe
from greffon.core.settings import takes
from greffon.nn.build import make_model
from greffon.runs.create import room_for
from greffon.runs.huggingface.checkpoint import left_over, locate, read_config, read_tensors
from greffon.runs.huggingface.companions import keep_companions
from greffon.runs.huggingface.configs import (
    family_of,
    graft_of,
    labels_of,
    masking_of,
    shape_of,
    task_of,
    thresholds_of,
    use_of,
)
from greffon.runs.huggingface.families import BERT
from greffon.runs.huggingface.generation import read_generation
from greffon.runs.huggingface.sentence_transformers import is_cross_encoder, read_embedding
from greffon.runs.huggingface.tensor_map import places_of, to_ours
from greffon.runs.huggingface.tokenizer_files import parts_by_one_token, read_tokenizer
from greffon.runs.run import Run
from greffon.runs.tensors import fill

OBJECTIVES: dict[str, Objective] = {
    "masked": "masked",
    "pairs": "masked",
    "causal": "causal",
    "classify": "classify",
    "tokens": "classify",
    "seq2seq": "seq2seq",
    "body": "body",
}


@takes()
def import_checkpoint(checkpoint: str | Path, *, out: str | Path, force: bool = False, quiet: bool = False) -> Run:
    """Read a directory with config.json, safetensors and tokenizer files, or `hf:owner/name`, into a new Run."""
    tell: Callable[[str], None] = (lambda message: None) if quiet else say
    path = locate(checkpoint)
    config, where = read_config(path), str(path / "config.json")
    family = family_of(config, where)
    tensors = read_tensors(path, config, family.prefix)
    use = use_of(family, config, where)
    if use == "masked" and family is BERT and {"cls.seq_relationship.weight", "bert.pooler.dense.weight"} <= {*tensors}:
        use = "pairs"  # the head of next-sentence prediction is there, whatever the configuration says
    tokenizer = read_tokenizer(path, family, config)
    if family.embedding not in tensors or tensors[family.embedding].ndim != 2:
        raise UserError(f"{path} lacks the matrix {family.embedding}; it is incomplete, or of another architecture")
    vocab_size = len(tensors[family.embedding])
    told = config.get("vocab_size", vocab_size)
    if told != vocab_size:
        raise UserError(
            f"{where} says vocab_size {told}, and the embedding has {vocab_size:,} rows; "
            "restore the files that belong together"
        )
    if not vocab_size < 2 * tokenizer.size <= 2 * vocab_size:  # a matrix may be padded, but not by as much again
        raise UserError(
            f"{path}: the tokenizer has {tokenizer.size:,} tokens, and the model knows {vocab_size:,}; "
            "restore the files that belong together"
        )
    classifies = OBJECTIVES[use] == "classify"
    crossed = use == "classify" and is_cross_encoder(path, config)
    shape = shape_of(family, config, where)
    task = task_of(config, use, crossed=crossed and parts_by_one_token(tokenizer))
    generation, ignored = None, list[str]()
    if use in ("causal", "seq2seq"):
        generation, ignored = read_generation(path, config, tokenizer, vocab_size)
    named = str(checkpoint) if str(checkpoint).startswith("hf:") else path.resolve().name
    recipe = Recipe(
        objective=OBJECTIVES[use],
        preset=family.preset,
        shape=shape,
        training=PRESETS[family.preset]().training,
        data=Data(task=task),
        vocab_size=vocab_size,
        tokenizer_digest=tokenizer.digest,
        body=family.body,
        masking=masking_of(use),
        graft=graft_of(family, config, where, task) if classifies else None,
        labels=labels_of(config, use, where) if classifies else (),
        embedding=None if crossed else read_embedding(path, shape.context, lowercase=tokenizer.lowercase),
        generation=generation,
        imported=named,
    )
    thresholds = thresholds_of(config, recipe.labels, where) if recipe.answer == "multilabel" else {}
    places = places_of(family.kind, recipe)
    found = to_ours(tensors, places, str(path))
    unused = left_over(tensors.keys() - {place.theirs for place in places}, path)
    with torch.device("meta"):  # a hostile config.json may ask for any memory
        sizes = {name: p.shape for name, p in make_model(recipe).named_parameters()}
    _check_tensors(sizes, found, {name: place.theirs for place in places for name in place.ours}, path)
    model = make_model(recipe)
    with room_for(out, force) as folder:
        run = Run.create(folder, recipe)
        tokenizer.save(run.path)
        fill(model, found, path)
        keep_companions(path, run)
        run.save_model(model, thresholds)
        run.mark_finished()
    tell(f"{named}: {family.title}, {sum(p.numel() for p in model.parameters()):,} parameters, as a {use} run")
    if crossed and task != "pairs":
        tell("this cross-encoder reads single texts here: its tokenizer puts other tokens than one between two texts")
    if ignored:
        tell(f"not obeyed in generation: {', '.join(ignored)}")
    if unused:
        tell(f"left out, because a {use} run has no use for it: {', '.join(unused)}")
    return run


def _check_tensors(
    sizes: Mapping[str, torch.Size], found: Mapping[str, Tensor], names: Mapping[str, str], path: Path
) -> None:
    """Raise a `UserError` for tensors of the wrong shape or with numbers that are not finite."""
    for name, size in sizes.items():
        tensor, theirs = found.get(name), names.get(name, name)
        if tensor is not None and tensor.shape != size:
            raise UserError(
                f"{path}: {theirs} is {tuple(tensor.shape)}, and by config.json it would be {tuple(size)}; "
                "restore the files that belong together"
            )
        if tensor is not None and not bool(tensor.isfinite().all()):
            raise UserError(f"{path}: {theirs} holds NaN or infinite numbers; download the weights again")
