"""A run that several processes train: the first one writes, the others read what it wrote."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from greffon.core.config import Recipe
from greffon.data.tokenizer import Tokenizer
from greffon.runs.run import Run
from greffon.runs.tensors import tensors_of
from greffon.training.distributed.base import ALONE, Crew


def shared(run: Run, crew: Crew) -> Run:
    """Return the run as this process of the crew may use it."""
    return run if crew is ALONE or isinstance(run, SharedRun) else SharedRun(run, crew)


class SharedRun(Run):
    """The run directory as one of several processes sees it."""

    def __init__(self, run: Run, crew: Crew) -> None:
        super().__init__(run.path, run.recipe)
        self.crew = crew

    def save_recipe(self, recipe: Recipe) -> None:
        """Keep the recipe; the first process writes it."""
        self.recipe = recipe
        if self.crew.leads:
            super().save_recipe(recipe)

    def adopt(self, tokenizer: Tokenizer) -> None:
        """Store the tokenizer, once; the others hear of it when they agree on the recipe."""
        if self.crew.leads:
            super().adopt(tokenizer)

    def mark_finished(self) -> None:
        """Say that training has come to its end, once."""
        if self.crew.leads:
            super().mark_finished()
        self.crew.any()

    def log(self, entry: Mapping[str, Any]) -> None:
        """Append one line to metrics.jsonl, once."""
        if self.crew.leads:
            super().log(entry)

    def forget_after(self, step: int) -> None:
        """Drop the metrics of steps that will be done again."""
        if self.crew.leads:
            super().forget_after(step)

    def save_model(self, model: nn.Module, scores: Mapping[str, float]) -> None:
        """Save the weights; where each process has a share of them, all take part."""
        if self.crew.leads:
            super().save_model(model, scores)
        else:
            tensors_of(model)

    def save_checkpoint(self, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
        """Keep all that resuming needs, which is the same for any number of processes; all wait until it is safe."""
        if self.crew.leads:
            super().save_checkpoint(step, tensors, state)
        self.crew.any()

    def save_snapshot(self, step: int, model: nn.Module, keep: int) -> None:
        """Keep the weights of an evaluation; where each process has a share of them, all take part."""
        if self.crew.leads:
            super().save_snapshot(step, model, keep)
        else:
            tensors_of(model)

    def snapshots(self) -> list[dict[str, Tensor]]:
        """Read the weights of the last evaluations, once they are written."""
        self.crew.any()
        return super().snapshots()

    def drop_snapshots(self, after: int) -> None:
        """Forget the snapshots of steps that will be done again."""
        if self.crew.leads:
            super().drop_snapshots(after)
