"""How far a training has come, and its checkpoint: what is restored, and on what machine it was made."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import torch

from greffon.core.config import from_dict
from greffon.core.training import Training
from greffon.nn.model import Model
from greffon.runs.run import Run
from greffon.runs.tensors import fill
from greffon.training.distributed.base import SINGLE_PROCESS, ProcessGroup
from greffon.training.optim import load_state_tensors
from greffon.training.spikes import SpikeDetector


@dataclass
class TrainingState:
    """How far a training has come: what a checkpoint keeps besides tensors."""

    step: int = 0
    best: dict[str, float] | None = None
    lowest_loss: float | None = None
    stale: int = 0  # evaluations since the best and the one with the lowest loss
    seconds: float = 0.0
    elapsed: float = 0.0  # seconds of training with its evaluations, where it follows the clock
    spikes: SpikeDetector = field(default_factory=SpikeDetector)

    def out_of_patience(self, training: Training) -> bool:
        """Whether there were too many evaluations with neither a better score nor a lower loss."""
        return 0 < training.patience <= self.stale


def restore(
    run: Run,
    model: Model,
    optimizers: list[torch.optim.Optimizer],
    tell: Callable[[str], None],
    group: ProcessGroup = SINGLE_PROCESS,
) -> TrainingState:
    """Load the newest checkpoint into the model and its optimizers, if there is one, and return its state."""
    found = run.load_checkpoint()
    if found is None:
        return TrainingState()
    stored, tensors = found
    parts: dict[str, dict[str, torch.Tensor]] = {"model": {}, "optimizer": {}}
    for key, tensor in tensors.items():
        kind, _, name = key.partition("/")
        parts.setdefault(kind, {})[name] = tensor
    where = run.path / "checkpoints"
    fill(model, parts["model"], where)
    load_state_tensors(model, optimizers, parts["optimizer"])
    known = {f.name: stored[f.name] for f in fields(TrainingState) if f.name in stored}
    state = from_dict(TrainingState, known, str(where))
    _warn_of_changes(stored.get("environment"), environment(group))
    tell(f"going on from step {state.step:,}")
    return state


def _warn_of_changes(before: object, now: Mapping[str, Any]) -> None:
    """Warn of each difference between the environment of the checkpoint and the present one."""
    usual = {"processes": 1, "device": "cpu", "precision": "fp32"}
    known = usual | (before if isinstance(before, dict) else {})
    for name, value in (usual | dict(now)).items():
        if known.get(name) != value:
            warnings.warn(
                f"{name}: {known.get(name)} before, {value} now; results may differ in the last digits", stacklevel=3
            )


def environment(group: ProcessGroup = SINGLE_PROCESS) -> dict[str, Any]:
    """Return what the last digits of a result depend on, apart from the recipe."""
    return {
        "torch version": torch.__version__,
        "threads": torch.get_num_threads(),
        "CPU instructions": torch.backends.cpu.get_cpu_capability(),
        **group.environment(),
    }
