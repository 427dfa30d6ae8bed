"""A Run: the directory that one recipe left behind. Every command reads and writes these.

    RUN/
      recipe.json          what was asked for: objective, shape, training, data, labels
      tokenizer.json       the tokenizer (or tokenizer.model, if it came from SentencePiece, or
                           imported-tokenizer.json, if it came with a checkpoint)
      model.safetensors    the best weights so far, by held-out score
      manifest.json        sha256 of the weights, and their scores (while they are replaced, of both)
      metrics.jsonl        one line a logged step and an evaluation
      schedule.jsonl       one line a plan, if the training was to last so many minutes
      judged.jsonl         one line an evaluation: what a fold of a selection says of the texts it did not see
      selection.json       how the number of epochs was selected, if there was no validation file
      trials.json          which head was chosen, if several were tried
      finished             an empty file, once the last step is done
      card.md, LICENSE, …  of the checkpoint that it was imported from, or that its weights come from
      checkpoints/step-N/  what resuming needs: weights, optimizer state, best score, their sha256
      snapshots/           weights of the last evaluations and their sha256, where they are averaged
      .lock                held by the process that trains

The recipe is written before anything else. Every file is written under another name and then renamed.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor, nn

from greffon.core.config import from_dict
from greffon.core.errors import UserError, setting
from greffon.core.files import COPY, read_json, sha256, sweep, sync_directory, sync_file, write_atomically, write_json
from greffon.core.recipe import Recipe
from greffon.data.tokenizer import FILES as TOKENIZER_FILES
from greffon.data.tokenizer import Tokenizer
from greffon.nn.build import make_model
from greffon.nn.model import Model
from greffon.runs.checkpoints import Checkpoints, Snapshots
from greffon.runs.tensors import fill, load_tensors, tensors_of

WEIGHTS = "model.safetensors"
METRICS, SCHEDULE, JUDGED = "metrics.jsonl", "schedule.jsonl", "judged.jsonl"
SELECTION, TRIALS = "selection.json", "trials.json"
FORMAT = 2
"""Version of the names in recipe.json, metrics.jsonl and checkpoints; the first one was not written down."""


class Run:
    """One run directory: `Run.open("runs/body")`."""

    def __init__(self, path: Path, recipe: Recipe) -> None:
        self.path = path
        self.recipe = recipe

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r}, {self.recipe.objective}, {self.recipe.preset})"

    def __fspath__(self) -> str:
        """Return its path: a run may be given wherever the path of one is asked for."""
        return str(self.path)

    # -- making and opening ------------------------------------------------------------------

    @classmethod
    def create(cls, path: str | Path, recipe: Recipe) -> "Run":
        """Make the directory with its recipe and nothing else; `room_for` checks and locks it first."""
        run = cls(Path(path), recipe)
        try:
            run.path.mkdir(parents=True, exist_ok=True)
            run.save_recipe(recipe)
            sync_directory(run.path.parent)
        except OSError as problem:
            raise UserError(
                f"cannot write the run {path}: {problem.strerror}; choose another {setting('out')}"
            ) from None
        return run

    @classmethod
    def open(cls, path: "str | Path | Run") -> "Run":
        """Open a run directory, or raise an error that says why it is not one."""
        if isinstance(path, Run):
            return path
        path = Path(path)
        if not path.is_dir():
            raise UserError(f"no run at {path}; give the directory that `greffon pretrain … --out` made")
        file = path / "recipe.json"
        if not file.is_file() and (path / "comparison.json").is_file():
            raise UserError(
                f"{path} is a comparison, not a run: see `greffon show {path}`; its runs are in {path / 'arms'}"
            )
        if not file.is_file():
            raise UserError(f"{path} is no run: it has no recipe.json; give the directory of a run")
        return cls(path, _recipe(file))

    @classmethod
    def open_all(cls, runs: "str | Path | Run | Sequence[str | Path | Run]") -> "list[Run]":
        """Open one run directory or several."""
        return [cls.open(run) for run in ([runs] if isinstance(runs, str | Path | Run) else runs)]

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.resolve().name

    def save_recipe(self, recipe: Recipe) -> None:
        """Write the recipe."""
        self.recipe = recipe
        write_json(self.path / "recipe.json", {"format": FORMAT, **dataclasses.asdict(recipe)})

    @property
    def finished(self) -> bool:
        """Whether training is finished."""
        return (self.path / "finished").is_file()

    def sweep(self) -> None:
        """Remove what a killed process left half written; the lock must be held."""
        for folder in (self.path, self.path / "checkpoints", self.path / "snapshots"):
            sweep(folder)

    def mark_finished(self) -> None:
        """Mark the training as finished."""
        write_atomically(self.path / "finished", b"")

    def reopen(self, recipe: Recipe) -> None:
        """Prepare a finished run for resuming with a new recipe; the count of its patience starts again."""
        self._checkpoints.update_state(stale=0)
        self.save_recipe(recipe)
        (self.path / "finished").unlink(missing_ok=True)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer stored in the run."""
        if not self.has_tokenizer:
            raise UserError(f"{self.path} has lost its tokenizer; restore the file from a copy of the run")
        files = [self.path / name for name in TOKENIZER_FILES]
        known = self.recipe.tokenizer_digest
        if known and known not in (sha256(file) for file in files if file.is_file()):
            raise UserError(f"{self.path} holds another tokenizer than it was trained with; restore the right one")
        return Tokenizer.load(self.path)

    @property
    def has_tokenizer(self) -> bool:
        """Whether a tokenizer has been stored."""
        return any((self.path / name).is_file() for name in TOKENIZER_FILES)

    def adopt(self, tokenizer: Tokenizer) -> None:
        """Store the tokenizer, and its size and identity in the recipe.

        A model that starts from another keeps its vocabulary size, of which some ids may be unused.
        """
        tokenizer.save(self.path)
        vocab_size = self.recipe.vocab_size if self.recipe.origin else tokenizer.size
        recipe = dataclasses.replace(self.recipe, vocab_size=vocab_size, tokenizer_digest=tokenizer.digest)
        self.save_recipe(recipe)

    # -- weights -----------------------------------------------------------------------------

    @property
    def has_model(self) -> bool:
        """Whether weights have been saved."""
        return (self.path / "model.safetensors").is_file()

    @property
    def scores(self) -> dict[str, Any]:
        """The held-out scores of the saved weights."""
        manifest = self._manifest()
        if "next" in manifest and self.has_model and sha256(self.path / WEIGHTS) == _digest(manifest["next"]):
            manifest = manifest["next"]
        scores = manifest.get("scores", {})
        if not isinstance(scores, dict):
            raise UserError(f"{self.path / 'manifest.json'} is damaged: its scores are no table; {COPY}")
        return scores

    def _manifest(self) -> dict[str, Any]:
        file = self.path / "manifest.json"
        return read_json(file) if file.is_file() else {}

    def save_model(self, model: nn.Module, scores: Mapping[str, float]) -> None:
        """Save the weights as the run's model, with the scores they reached.

        While weights are replaced, the manifest has the sha256 of the old and of the new ones, so that a
        crash at any moment leaves weights that can be checked.
        """
        content = save(tensors_of(model))
        fresh = {"sha256": {WEIGHTS: hashlib.sha256(content).hexdigest()}, "scores": dict(scores)}
        if self.has_model:
            before = self._manifest()
            if "next" in before and sha256(self.path / WEIGHTS) == _digest(before["next"]):
                before = before["next"]
            write_json(self.path / "manifest.json", {**before, "next": fresh})
        else:
            write_json(self.path / "manifest.json", fresh)
        write_atomically(self.path / WEIGHTS, content)
        write_json(self.path / "manifest.json", fresh)

    def load_model(self) -> Model:
        """Build the model and fill it with the saved weights, after checking their sha256."""
        if not self.has_model and self.finished:
            raise UserError(f"{self.path} has lost its model.safetensors; restore the file from a copy of the run")
        if not self.has_model:
            raise UserError(f"{self.path} has no trained weights yet; go on with `greffon resume {self.path}`")
        if not (self.path / "manifest.json").is_file():
            raise UserError(f"{self.path} has lost its manifest.json, by which its weights are checked; {COPY}")
        tensors = self._checked_weights()
        shape, there = self.recipe.shape, sum(tensor.numel() for tensor in tensors.values())
        per_layer = shape.hidden_size * (shape.hidden_size + shape.intermediate_size)
        least = self.recipe.vocab_size * shape.hidden_size + shape.layers * per_layer
        if least > 4 * there or shape.layers > len(tensors):  # a damaged recipe may ask for any memory
            raise UserError(f"{self.path / WEIGHTS} is much smaller than its recipe says; the run is damaged")
        model = make_model(self.recipe)
        fill(model, tensors, self.path / WEIGHTS)
        return model.eval()

    def _checked_weights(self) -> dict[str, Tensor]:
        """Read the weights, after checking their sha256 against the manifest."""
        for _ in range(3):  # a training may be replacing both files
            manifest = self._manifest()
            known = {_digest(manifest), _digest(manifest.get("next"))} - {None}
            found = sha256(self.path / WEIGHTS)
            if found in known:
                return load_tensors(self.path / WEIGHTS, None)
        raise UserError(f"{self.path / WEIGHTS} is damaged: its sha256 is not the one recorded; {COPY}")

    # -- metrics -----------------------------------------------------------------------------

    def log(self, entry: Mapping[str, Any]) -> None:
        """Append one line to metrics.jsonl."""
        self._append(METRICS, entry)

    def metrics(self) -> list[dict[str, Any]]:
        """Read metrics.jsonl; a line torn by a crash is left out."""
        return self._entries(METRICS)

    def log_schedule(self, entry: Mapping[str, Any]) -> None:
        """Append one line to schedule.jsonl, which is on the disk when this returns."""
        file = self.path / SCHEDULE
        torn = file.is_file() and not file.read_bytes().endswith(b"\n")  # by a crash
        self._append(SCHEDULE, entry, "\n" * torn)
        sync_file(file)

    def schedule(self) -> list[dict[str, Any]]:
        """Read schedule.jsonl, which is there if the training was to last so many minutes."""
        return self._entries(SCHEDULE)

    @property
    def selection(self) -> dict[str, Any] | None:
        """How the number of epochs was selected without a validation file; None if it was not."""
        return read_json(self.path / SELECTION) if (self.path / SELECTION).is_file() else None

    @property
    def trials(self) -> dict[str, Any] | None:
        """How the head was chosen among several; None if it was not."""
        return read_json(self.path / TRIALS) if (self.path / TRIALS).is_file() else None

    def log_judged(self, entry: Mapping[str, Any]) -> None:
        """Append one line to judged.jsonl: the probabilities of the held-out texts at an evaluation."""
        self._append(JUDGED, entry)

    def judged(self) -> dict[int, list[list[float]]]:
        """Read judged.jsonl, by step; of a step that was done again after a crash, the last line counts."""
        return {entry["step"]: entry["probabilities"] for entry in self._entries(JUDGED)}

    def _append(self, name: str, entry: Mapping[str, Any], before: str = "") -> None:
        with (self.path / name).open("a", encoding="utf-8") as out:
            out.write(before + json.dumps(entry) + "\n")

    def _entries(self, name: str) -> list[dict[str, Any]]:
        file = self.path / name
        entries = []
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else []:
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(entry, dict) and isinstance(entry.get("step"), int):
                entries.append(entry)
        return entries

    @property
    def seconds(self) -> float:
        """Seconds of training so far."""
        return max((entry.get("seconds", 0.0) for entry in self.metrics()), default=0.0)

    def forget_after(self, step: int) -> None:
        """Drop the metrics of steps that will be done again."""
        kept = [json.dumps(entry) + "\n" for entry in self.metrics() if entry["step"] <= step]
        write_atomically(self.path / METRICS, "".join(kept).encode())

    # -- checkpoints and snapshots -----------------------------------------------------------

    @property
    def _checkpoints(self) -> Checkpoints:
        return Checkpoints(self.path / "checkpoints")

    @property
    def _snapshots(self) -> Snapshots:
        return Snapshots(self.path / "snapshots")

    def save_checkpoint(self, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Write all that resuming needs; older checkpoints are removed once this one is safe."""
        sync_file(self.path / METRICS)  # the metrics that led here must not be lost after it
        self._checkpoints.save(step, tensors, state)

    @property
    def checkpoint_step(self) -> int:
        """The step that resuming would start from; 0 without a checkpoint."""
        return self._checkpoints.step

    @property
    def checkpoint_state(self) -> dict[str, Any]:
        """The state that the newest checkpoint keeps besides its tensors; empty without one."""
        return self._checkpoints.state

    def load_checkpoint(self) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        """Return the newest checkpoint, checked, or None if there is none."""
        return self._checkpoints.load()

    def drop_checkpoints(self) -> None:
        """Free the space of the checkpoints of a run that will not be resumed."""
        self._checkpoints.drop()

    def save_snapshot(self, step: int, model: nn.Module, keep: int) -> None:
        """Keep the weights of an evaluation for averaging, and those of the `keep` - 1 before it."""
        self._snapshots.save(step, tensors_of(model), keep)

    def snapshots(self) -> list[dict[str, Tensor]]:
        """Read the weights of the last evaluations."""
        return self._snapshots.load()

    def drop_snapshots(self, after: int) -> None:
        """Remove the snapshots of steps that will be done again."""
        self._snapshots.drop(after)


def own_loss(entry: Mapping[str, Any]) -> Any:
    """Return the training loss that can be compared with a held-out loss: the main one, without auxiliary losses."""
    return entry.get("token_loss", entry.get("loss"))


def _recipe(file: Path) -> Recipe:
    """Read a recipe that this version can read."""
    values = read_json(file)
    written = values.pop("format", None)
    if written is None and "objective" in values:
        raise UserError(
            f"{file.parent} was written by an earlier version of Greffon, whose recipes had other names; "
            "train it again with this version, or use the version that made it"
        )
    if written is not None and written != FORMAT:
        raise UserError(
            f"{file.parent} was written by another version of Greffon: its recipe is not of format {FORMAT}; "
            "train it again with this version, or use the version that made it"
        )
    return from_dict(Recipe, values, str(file))


def _digest(manifest: object) -> str | None:
    """The sha256 that a manifest names, if it names one."""
    table = manifest.get("sha256") if isinstance(manifest, dict) else None
    digest = table.get(WEIGHTS) if isinstance(table, dict) else None
    return digest if isinstance(digest, str) else None
