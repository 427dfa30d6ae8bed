"""The checkpoints of a run, from which it resumes, and the snapshots of its weights, which are averaged."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import save
from torch import Tensor

from greffon.core.errors import UserError
from greffon.core.files import COPY, read_json, sweep, sync_directory, write_atomically, write_json
from greffon.runs.tensors import load_tensors

_NAME = re.compile(r"step-(?P<step>\d{9,})(\.(?P<again>\d+))?")


@dataclass(frozen=True, order=True)
class StepName:
    """The name of a checkpoint or a snapshot; names are ordered by age.

    >>> str(StepName(12)), StepName.parse("step-000000012.1")
    ('step-000000012', StepName(step=12, again=1))
    """

    step: int
    again: int = 0  # a checkpoint that replaces one of the same step counts on from it

    @classmethod
    def parse(cls, name: str) -> "StepName | None":
        """Read a name, or return None if it is another file's."""
        found = _NAME.fullmatch(name)
        return None if found is None else cls(int(found["step"]), int(found["again"] or 0))

    def __str__(self) -> str:
        return f"step-{self.step:09d}" + (f".{self.again}" if self.again else "")


class Checkpoints:
    """The folder `checkpoints`: a folder for each checkpoint, of which only the newest stays."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _names(self) -> list[StepName]:
        """Return the names of the complete checkpoints, the newest last."""
        found = (StepName.parse(path.name) for path in self.folder.glob("step-*"))
        return sorted(name for name in found if name is not None)

    @property
    def step(self) -> int:
        """The step of the newest checkpoint; 0 without one."""
        names = self._names()
        return names[-1].step if names else 0

    @property
    def state(self) -> dict[str, Any]:
        """The state of the newest checkpoint; empty without one."""
        names = self._names()
        return read_state(self.folder / str(names[-1])) if names else {}

    def update_state(self, **changes: Any) -> None:
        """Change some values in the state of the newest checkpoint, if there is one."""
        for name in self._names()[-1:]:
            path = self.folder / str(name)
            write_json(path / "state.json", sealed({**read_state(path), **changes}))

    def save(self, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Write a checkpoint; older ones are removed once it is safe."""
        self.folder.mkdir(exist_ok=True)
        sweep(self.folder)
        sync_directory(self.folder.parent)
        before = self._names()
        # The same step again (its average, for example): the old checkpoint stays until the new one is there.
        again = max((old.again + 1 for old in before if old.step == step), default=0)
        name = StepName(step, again)
        part = self.folder / f".{name}.{os.getpid()}.part"
        part.mkdir()
        try:
            content = save(dict(tensors))
            write_atomically(part / "tensors.safetensors", content)
            digest = hashlib.sha256(content).hexdigest()
            write_json(part / "state.json", sealed({"step": step, "sha256": digest, **state}))
            part.rename(self.folder / str(name))
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        sync_directory(self.folder)
        for old in before:
            shutil.rmtree(self.folder / str(old), ignore_errors=True)

    def load(self) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        """Return state and tensors of the newest checkpoint, checked, or None if there is none."""
        names = self._names()
        if not names:
            return None
        path = self.folder / str(names[-1])
        try:
            state = read_state(path)
            return state, load_tensors(path / "tensors.safetensors", str(state.get("sha256")))
        except UserError as damage:
            raise UserError(f"{damage}, or remove {self.folder} to train again from the first step") from None

    def drop(self) -> None:
        """Remove all checkpoints."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Snapshots:
    """The folder `snapshots`: the weights of the last evaluations, and their sha256."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _files(self) -> dict[StepName, Path]:
        """Return the files of weights, the newest last."""
        found = {StepName.parse(file.stem): file for file in self.folder.glob("step-*.safetensors")}
        return dict(sorted((name, file) for name, file in found.items() if name is not None))

    def _digests(self) -> dict[str, Any]:
        file = self.folder / "manifest.json"
        return read_json(file) if file.is_file() else {}

    def save(self, step: int, tensors: Mapping[str, Tensor], keep: int) -> None:
        """Write the weights of an evaluation; only the last `keep` snapshots stay."""
        self.folder.mkdir(exist_ok=True)
        content = save(dict(tensors))
        name = f"{StepName(step)}.safetensors"
        write_atomically(self.folder / name, content)
        files = list(self._files().values())
        digests = self._digests() | {name: hashlib.sha256(content).hexdigest()}
        write_json(self.folder / "manifest.json", {file.name: digests.get(file.name) for file in files[-keep:]})
        for old in files[:-keep]:
            old.unlink()

    def load(self) -> list[dict[str, Tensor]]:
        """Read all snapshots, checked, the newest last."""
        digests = self._digests()
        return [load_tensors(file, str(digests.get(file.name))) for file in self._files().values()]

    def drop(self, after: int) -> None:
        """Remove the snapshots of later steps than `after`."""
        for name, file in self._files().items():
            if name.step > after:
                file.unlink()


def sealed(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a checkpoint together with its own sha256."""
    rest = {name: value for name, value in state.items() if name != "seal"}
    return rest | {"seal": hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()}


def read_state(checkpoint: Path) -> dict[str, Any]:
    """Read the state of a checkpoint, and check its sha256."""
    state = read_json(checkpoint / "state.json")
    if sealed(state) != state:
        raise UserError(f"{checkpoint / 'state.json'} is damaged: its sha256 is not the one recorded; {COPY}")
    return state
