"""A Run: the directory that one recipe left behind. Every command reads and writes these.

    RUN/
      recipe.json          what was asked for: objective, shape, training, data, labels
      tokenizer.json       the tokenizer (or tokenizer.model, if it came from SentencePiece)
      model.safetensors    the best weights so far, by held-out score
      manifest.json        sha256 of the weights, and their scores
      metrics.jsonl        one line a logged step and an evaluation
      finished             an empty file, once the last step is done
      checkpoints/step-N/  what resuming needs: weights, optimiser state, best score, their sha256
      snapshots/           weights of the last evaluations, where they are averaged

The recipe is written before anything else. Every file is written beside and moved into place.
"""

import dataclasses
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from greffon.assembly import make_model
from greffon.config import Recipe, from_dict
from greffon.errors import UserError
from greffon.files import sha256, sync_directory, write_atomically
from greffon.nn.model import Model
from greffon.sharding import cut_like, gathered
from greffon.text.tokenizer import Tokenizer


class Run:
    """One run directory: `Run.open("runs/body")`."""

    def __init__(self, path: Path, recipe: Recipe) -> None:
        self.path = path
        self.recipe = recipe

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.recipe.objective}, {self.recipe.preset})"

    # -- making and opening ------------------------------------------------------------------

    @classmethod
    def create(cls, path: str | Path, recipe: Recipe) -> "Run":
        """Make the directory with its recipe and nothing else; `room_for` makes room first."""
        run = cls(Path(path), recipe)
        try:
            run.path.mkdir(parents=True, exist_ok=True)
            run.save_recipe(recipe)
        except OSError as problem:
            raise UserError(f"cannot write the run {path}: {problem.strerror}; choose another --out") from None
        return run

    @classmethod
    def open(cls, path: "str | Path | Run") -> "Run":
        """Open a run directory, or say why it is none."""
        if isinstance(path, Run):
            return path
        path = Path(path)
        if not path.is_dir():
            raise UserError(f"no run at {path}; give the directory that `greffon pretrain … --out` made")
        file = path / "recipe.json"
        if not file.is_file():
            raise UserError(f"{path} is no run: it has no recipe.json; give a directory made with --out")
        return cls(path, from_dict(Recipe, read_json(file), str(file)))

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.resolve().name

    def save_recipe(self, recipe: Recipe) -> None:
        """Write the recipe, now or again with what has become known."""
        self.recipe = recipe
        write_json(self.path / "recipe.json", dataclasses.asdict(recipe))

    @property
    def finished(self) -> bool:
        """Whether training has come to its end."""
        return (self.path / "finished").is_file()

    def mark_finished(self) -> None:
        """Say that training has come to its end."""
        write_atomically(self.path / "finished", b"")

    def reopen(self, recipe: Recipe) -> None:
        """Let a finished run go on under a new recipe."""
        self.save_recipe(recipe)
        (self.path / "finished").unlink(missing_ok=True)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer stored in the run."""
        if not self.has_tokenizer:
            raise UserError(f"{self.path} has lost its tokenizer; restore the file from a copy of the run")
        found = Tokenizer.load(self.path)
        if self.recipe.tokenizer_digest and found.digest != self.recipe.tokenizer_digest:
            raise UserError(f"{self.path} holds another tokenizer than it was trained with; restore the right one")
        return found

    @property
    def has_tokenizer(self) -> bool:
        """Whether a tokenizer has been stored."""
        return any((self.path / name).is_file() for name in ("tokenizer.json", "tokenizer.model"))

    def adopt(self, tokenizer: Tokenizer) -> None:
        """Store the tokenizer, and its size and identity in the recipe."""
        tokenizer.save(self.path)
        recipe = dataclasses.replace(self.recipe, vocabulary=tokenizer.size, tokenizer_digest=tokenizer.digest)
        self.save_recipe(recipe)

    # -- weights -----------------------------------------------------------------------------

    @property
    def has_model(self) -> bool:
        """Whether weights have been saved."""
        return (self.path / "model.safetensors").is_file()

    @property
    def scores(self) -> dict[str, Any]:
        """The held-out scores of the saved weights."""
        file = self.path / "manifest.json"
        return dict(read_json(file).get("scores", {})) if file.is_file() else {}

    def save_model(self, model: nn.Module, scores: Mapping[str, float]) -> None:
        """Save the weights as the run's model, with the scores they reached."""
        content = save(tensors_of(model))
        write_atomically(self.path / "model.safetensors", content)
        digest = sha256(self.path / "model.safetensors")
        write_json(self.path / "manifest.json", {"sha256": {"model.safetensors": digest}, "scores": dict(scores)})

    def load_model(self) -> Model:
        """Build the model and fill it with the saved weights, after checking their sha256."""
        if not self.has_model and self.finished:
            raise UserError(f"{self.path} has lost its model.safetensors; restore the file from a copy of the run")
        if not self.has_model:
            raise UserError(f"{self.path} has no trained weights yet; go on with `greffon resume {self.path}`")
        known = read_json(self.path / "manifest.json") if (self.path / "manifest.json").is_file() else {}
        tensors = load_tensors(self.path / "model.safetensors", known.get("sha256", {}).get("model.safetensors"))
        model = make_model(self.recipe)
        fill(model, tensors, self.path / "model.safetensors")
        return model.eval()

    # -- metrics -----------------------------------------------------------------------------

    def log(self, entry: Mapping[str, Any]) -> None:
        """Append one line to metrics.jsonl."""
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as out:
            out.write(json.dumps(entry) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        """Read metrics.jsonl; a last line torn by a crash is left out."""
        file = self.path / "metrics.jsonl"
        entries = []
        for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else []:
            try:
                entries.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        return entries

    @property
    def seconds(self) -> float:
        """How long it has been trained."""
        return max((entry["seconds"] for entry in self.metrics()), default=0.0)

    def forget_after(self, step: int) -> None:
        """Drop the metrics of steps that will be done again."""
        kept = [json.dumps(entry) + "\n" for entry in self.metrics() if entry["step"] <= step]
        write_atomically(self.path / "metrics.jsonl", "".join(kept).encode())

    # -- checkpoints -------------------------------------------------------------------------

    def save_checkpoint(self, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Keep all that resuming needs; older checkpoints go once this one is safe."""
        folder = self.path / "checkpoints"
        folder.mkdir(exist_ok=True)
        final, beside = folder / f"step-{step:09d}", folder / f".step-{step:09d}.{os.getpid()}.part"
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir()
        write_atomically(beside / "tensors.safetensors", save(dict(tensors)))
        digest = sha256(beside / "tensors.safetensors")
        write_json(beside / "state.json", {"step": step, "sha256": digest, **state})
        if final.exists():
            shutil.rmtree(final)
        beside.rename(final)
        sync_directory(folder)
        for other in folder.iterdir():
            if other != final:
                shutil.rmtree(other, ignore_errors=True)

    @property
    def checkpoint_step(self) -> int:
        """The step that resuming would start from; 0 without a checkpoint."""
        found = sorted((self.path / "checkpoints").glob("step-*"))
        return int(found[-1].name.removeprefix("step-")) if found else 0

    def load_checkpoint(self) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        """Return the newest whole checkpoint, or None if there is none."""
        for folder in sorted((self.path / "checkpoints").glob("step-*"), reverse=True):
            state = read_json(folder / "state.json")
            return state, load_tensors(folder / "tensors.safetensors", state["sha256"])
        return None

    def save_snapshot(self, step: int, model: nn.Module, keep: int) -> None:
        """Keep the weights of an evaluation for averaging, and those of the `keep` - 1 before it."""
        folder = self.path / "snapshots"
        folder.mkdir(exist_ok=True)
        write_atomically(folder / f"step-{step:09d}.safetensors", save(tensors_of(model)))
        for old in self._snapshot_files()[:-keep]:
            old.unlink()

    def _snapshot_files(self) -> list[Path]:
        return sorted((self.path / "snapshots").glob("step-*.safetensors"))

    def snapshots(self) -> list[dict[str, Tensor]]:
        """Read the weights of the last evaluations."""
        return [load_tensors(file, None) for file in self._snapshot_files()]

    def drop_snapshots(self, after: int) -> None:
        """Forget the snapshots of steps that will be done again."""
        for file in self._snapshot_files():
            if int(file.stem.removeprefix("step-")) > after:
                file.unlink()

    def drop_checkpoints(self) -> None:
        """Free the space of the checkpoints of a run that will not go on."""
        shutil.rmtree(self.path / "checkpoints", ignore_errors=True)


@contextmanager
def room_for(path: str | Path, force: bool) -> Iterator[Path]:
    """Make room for a new run; with `force`, an old one goes, but only once the new one has weights.

    A run that stopped before it had any weights is in nobody's way.
    """
    path = Path(path)
    old = (path / "recipe.json").is_file() and (path / "model.safetensors").exists()
    if old and not force:
        raise UserError(
            f"{path} holds a run already; choose another --out, add --force to replace it, "
            f"or go on with `greffon resume {path}`"
        )
    if not old:
        clear_directory(path, marker="recipe.json")
        try:
            yield path
        except UserError:
            if not (path / "metrics.jsonl").exists():  # refused before it began: nothing to go on with
                shutil.rmtree(path, ignore_errors=True)
            raise
        return
    aside = path.with_name(f".{path.name}.replaced")
    shutil.rmtree(aside, ignore_errors=True)
    path.rename(aside)
    try:
        yield path
    finally:
        if (path / "model.safetensors").exists():
            shutil.rmtree(aside)
        else:
            shutil.rmtree(path, ignore_errors=True)
            aside.rename(path)


def clear_directory(path: Path, marker: str) -> None:
    """Remove a directory that we made, known by its marker; refuse to touch any other."""
    if (path / marker).is_file():
        shutil.rmtree(path)
    elif path.is_dir() and any(path.iterdir()):
        raise UserError(f"{path} is a directory with other files in it; choose another --out")
    elif path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file; choose a directory for --out")


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """Name the parameters once each: a tied matrix belongs to the body."""
    return {name: gathered(p.detach()).contiguous() for name, p in model.named_parameters()}


def fill(model: nn.Module, tensors: Mapping[str, Tensor], where: Path) -> None:
    """Copy tensors into the parameters of the same name; anything left over or missing is an error."""
    parameters = dict(model.named_parameters())
    missing, extra = sorted(parameters.keys() - tensors.keys()), sorted(tensors.keys() - parameters.keys())
    if missing or extra:
        raise UserError(
            f"{where} does not fit its recipe: missing {missing[:3] or 'nothing'}, unknown {extra[:3] or 'nothing'}; "
            "the run is damaged or was made by another version"
        )
    with torch.no_grad():
        for name, p in parameters.items():
            if p.shape != tensors[name].shape or p.dtype != tensors[name].dtype:
                raise UserError(
                    f"{where}: {name} is {tuple(tensors[name].shape)}, the recipe says {tuple(p.shape)}; "
                    "the run is damaged"
                )
            p.copy_(cut_like(tensors[name], p))


def load_tensors(path: Path, digest: str | None) -> dict[str, Tensor]:
    """Read a safetensors file whose sha256 is known."""
    try:
        if digest is not None and sha256(path) != digest:
            raise UserError(f"{path} is damaged: its sha256 is not the one recorded; restore it from a copy")
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as problem:
        raise UserError(f"cannot read {path}: {problem}; restore it from a copy") from None


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object, or say what is wrong with the file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as problem:
        raise UserError(f"cannot read {path}: {problem}; restore it from a copy") from None
    if not isinstance(value, dict):
        raise UserError(f"{path} should hold a JSON object; restore it from a copy")
    return value


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object for people and programs."""
    write_atomically(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())
