"""Import a Hugging Face checkpoint as a run: `greffon.import_checkpoint`."""

from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor

from greffon.core.config import BodyKind, Data, Objective, Recipe
from greffon.core.console import say
from greffon.core.errors import UserError
from greffon.core.files import write_atomically
from greffon.core.presets import PRESETS
from greffon.nn.build import make_model
from greffon.nn.model import Model
from greffon.runs.create import room_for
from greffon.runs.huggingface.checkpoint import left_over, locate, read_config, read_tensors
from greffon.runs.huggingface.families import BERT, Family, family_of, graft_of, labels_of, masking_of, shape_of, use_of
from greffon.runs.huggingface.tensor_map import places_of, to_ours
from greffon.runs.huggingface.tokenizer_files import read_tokenizer
from greffon.runs.run import Run
from greffon.runs.tensors import fill

CARD = "card.md"
"""File in the run with the model card of the checkpoint."""
BODIES: dict[str, BodyKind] = {"gpt2": "decoder", "marian": "encoder-decoder"}
OBJECTIVES: dict[str, Objective] = {
    "masked": "masked",
    "pairs": "masked",
    "causal": "causal",
    "classify": "classify",
    "seq2seq": "seq2seq",
    "body": "body",
}


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
    if _embedding(family) not in tensors:
        raise UserError(f"{path} lacks the tensor {_embedding(family)}; it is incomplete, or of another architecture")
    vocabulary = len(tensors[_embedding(family)])
    told = config.get("vocab_size", vocabulary)
    if told != vocabulary:
        raise UserError(
            f"{where} says vocab_size {told}, and the embedding has {vocabulary:,} rows; "
            "restore the files that belong together"
        )
    if not vocabulary < 2 * tokenizer.size <= 2 * vocabulary:  # a matrix may be padded, but not by as much again
        raise UserError(
            f"{path}: the tokenizer has {tokenizer.size:,} tokens, and the model knows {vocabulary:,}; "
            "restore the files that belong together"
        )
    named = str(checkpoint) if str(checkpoint).startswith("hf:") else path.resolve().name
    recipe = Recipe(
        objective=OBJECTIVES[use],
        preset=family.preset,
        shape=shape_of(family, config, where),
        training=PRESETS[family.preset]().training,
        data=Data(),
        vocab_size=vocabulary,
        tokenizer_digest=tokenizer.digest,
        body=BODIES.get(family.kind, "encoder"),
        masking=masking_of(use),
        graft=graft_of(family, config) if use == "classify" else None,
        labels=labels_of(config, where) if use == "classify" else (),
        imported=named,
    )
    places = places_of(family.kind, recipe)
    found = to_ours(tensors, places, str(path))
    unused = left_over(tensors.keys() - {place.theirs for place in places}, path)
    model = make_model(recipe)
    _check_tensors(model, found, {name: place.theirs for place in places for name in place.ours}, path)
    with room_for(out, force) as folder:
        run = Run.create(folder, recipe)
        tokenizer.save(run.path)
        fill(model, found, path)
        if (path / "README.md").is_file():
            write_atomically(run.path / CARD, (path / "README.md").read_bytes())
        run.save_model(model, {})
        run.mark_finished()
    tell(f"{named}: {family.title}, {sum(p.numel() for p in model.parameters()):,} parameters, as a {use} run")
    if unused:
        tell(f"left out, because a {use} run has no use for it: {', '.join(unused)}")
    return run


def _check_tensors(model: Model, found: Mapping[str, Tensor], names: Mapping[str, str], path: Path) -> None:
    """Raise a `UserError` for tensors of the wrong shape or with numbers that are not finite."""
    for name, p in model.named_parameters():
        tensor, theirs = found.get(name), names.get(name, name)
        if tensor is not None and tensor.shape != p.shape:
            raise UserError(
                f"{path}: {theirs} is {tuple(tensor.shape)}, and by config.json it would be {tuple(p.shape)}; "
                "restore the files that belong together"
            )
        if tensor is not None and not bool(tensor.isfinite().all()):
            raise UserError(f"{path}: {theirs} holds NaN or infinite numbers; download the weights again")


def _embedding(family: Family) -> str:
    """Return the name of the embedding tensor."""
    names = {"gpt2": "transformer.wte.weight", "marian": "model.shared.weight"}
    return names.get(family.kind, f"{family.prefix}embeddings.word_embeddings.weight")
