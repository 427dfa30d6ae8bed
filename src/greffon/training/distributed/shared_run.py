"""A run that several processes train: the main process writes, the others read what it wrote."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from greffon.core.recipe import Recipe
from greffon.data.tokenizer import Tokenizer
from greffon.runs.run import Run
from greffon.runs.tensors import tensors_of
from greffon.training.distributed.base import SINGLE_PROCESS, ProcessGroup


def shared(run: Run, group: ProcessGroup) -> Run:
    """Return the run as this process of the group may use it."""
    return run if group is SINGLE_PROCESS or isinstance(run, SharedRun) else SharedRun(run, group)


class SharedRun(Run):
    """The run directory as one of several processes sees it."""

    def __init__(self, run: Run, group: ProcessGroup) -> None:
        super().__init__(run.path, run.recipe)
        self.group = group

    def save_recipe(self, recipe: Recipe) -> None:
        """Set the recipe; the main process writes it."""
        self.recipe = recipe
        if self.group.is_main:
            super().save_recipe(recipe)

    def adopt(self, tokenizer: Tokenizer) -> None:
        """Store the tokenizer, once; the others learn of it with the broadcast recipe."""
        if self.group.is_main:
            super().adopt(tokenizer)

    def mark_finished(self) -> None:
        """Say that training has come to its end, once."""
        if self.group.is_main:
            super().mark_finished()
        self.group.any_rank()

    def log(self, entry: Mapping[str, Any]) -> None:
        """Append one line to metrics.jsonl, once."""
        if self.group.is_main:
            super().log(entry)

    def log_schedule(self, entry: Mapping[str, Any]) -> None:
        """Append one line to schedule.jsonl, once; all wait until it is there."""
        if self.group.is_main:
            super().log_schedule(entry)
        self.group.any_rank()

    def forget_after(self, step: int) -> None:
        """Drop the metrics of steps that will be done again."""
        if self.group.is_main:
            super().forget_after(step)

    def save_model(self, model: nn.Module, scores: Mapping[str, float]) -> None:
        """Save the weights; all processes take part if the model is sharded."""
        if self.group.is_main:
            super().save_model(model, scores)
        else:
            tensors_of(model)

    def save_checkpoint(self, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Write a checkpoint, the same for any number of processes; all wait until it is safe."""
        if self.group.is_main:
            super().save_checkpoint(step, tensors, state)
        self.group.any_rank()

    def save_snapshot(self, step: int, model: nn.Module, keep: int) -> None:
        """Save the weights of an evaluation; all processes take part if the model is sharded."""
        if self.group.is_main:
            super().save_snapshot(step, model, keep)
        else:
            tensors_of(model)

    def snapshots(self) -> list[dict[str, Tensor]]:
        """Read the weights of the last evaluations, once they are written."""
        self.group.any_rank()
        return super().snapshots()

    def drop_snapshots(self, after: int) -> None:
        """Remove the snapshots of steps that will be done again."""
        if self.group.is_main:
            super().drop_snapshots(after)
