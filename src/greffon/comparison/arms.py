"""The neural arms of a comparison: one Run for each arm and seed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from greffon.comparison.assemble import EpochScore, SeedOutcome
from greffon.comparison.names import is_scratch
from greffon.comparison.study import Study
from greffon.comparison.task import Task
from greffon.core.recipe import Data, Recipe
from greffon.data.splits import load_splits
from greffon.runs.params import params_of_run
from greffon.runs.run import Run
from greffon.training.adaptation import ADAPTED, prepare
from greffon.training.finetune import graft_recipe

REPORTED_SETTINGS = (
    "optimizer",
    "learning_rate",
    "muon_learning_rate",
    "weight_decay",
    "batch_size",
    "warmup_steps",
    "lr_schedule",
    "patience",
    "average_checkpoints",
    "dropout",
    "context",
    "pooling",
    "concat_embeddings",
    "head_dropout",
    "adversarial_epsilon",
    "pooler_activation",
    "head_init",
)
"""Settings of a training that the report always shows."""


@dataclass(frozen=True)
class Arm:
    """One training of the comparison."""

    name: str
    seed: int
    run: Run

    @property
    def task(self) -> Task:
        """The task that trains it."""
        return Task(self.run.path, f"{self.name}, seed {self.seed}")


def make_arms(path: Path, study: Study) -> Iterator[Arm]:
    """Create one run for each neural arm and seed; runs that exist already are kept."""
    for seed in range(study.plan.seeds):
        for name, source in study.bodies.items():
            folder = path / "arms" / name / f"seed-{seed}"
            yield Arm(name, seed, make_run(study, name, source, study.data, seed, folder))


def make_run(study: Study, name: str, source: Run, data: Data, seed: int, folder: Path) -> Run:
    """Create the run of one training of an arm, or open it where it exists already."""
    if (folder / "recipe.json").is_file():
        return Run.open(folder)
    plan, scratch = study.plan, is_scratch(name)
    recipe = graft_recipe(
        source,
        data,
        load_splits(data),
        epochs=plan.epochs,
        seed=seed,
        # Fresh layers cannot wait for the ones above them: scratch always trains all layers.
        gradual_unfreezing=plan.gradual_unfreezing and not scratch,
        scratch=scratch,
        settings=study.settings(name),
    )
    return prepare(source, recipe, folder, adapt=plan.adapt and not scratch)


def _adaptation_seconds(run: Run) -> float:
    """Return how long the body was first pretrained on the texts of the task; 0 if it was not."""
    inner = run.path / ADAPTED
    return Run.open(inner).seconds if inner.is_dir() else 0.0


def reported_settings(recipe: Recipe, asked: Iterable[str]) -> dict[str, Any]:
    """Return the settings of a training that the report shows: the usual ones, and those that were asked for."""
    assert recipe.graft is not None
    known = asdict(recipe.shape) | asdict(recipe.training) | asdict(recipe.graft)
    if recipe.training.optimizer != "muon":
        del known["muon_learning_rate"]
    return {name: known[name] for name in (*REPORTED_SETTINGS, *asked) if name in known}


def in_common(descriptions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what all descriptions have in common.

    >>> in_common([{"learning_rate": 0.1, "batch_size": 8}, {"learning_rate": 0.2, "batch_size": 8}])
    {'batch_size': 8}
    """
    first, *others = descriptions
    return {name: value for name, value in first.items() if all(other.get(name) == value for other in others)}


def differing(descriptions: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the settings in which the arms differ, with the value of each arm.

    >>> differing({"a": {"rate": 0.1, "size": 8}, "b": {"rate": 0.2, "size": 8}})
    {'rate': {'a': 0.1, 'b': 0.2}}
    """
    common = in_common([*descriptions.values()])
    names = dict.fromkeys(name for known in descriptions.values() for name in known if name not in common)
    return {name: {arm: known[name] for arm, known in descriptions.items() if name in known} for name in names}


def chosen_epoch(run: Run) -> int:
    """Return the epoch whose weights a training kept; 0 is before any training."""
    return -int(-run.scores["step"] // run.recipe.training.evaluate_every)


def outcome(arm: Arm) -> SeedOutcome:
    """Read what one training reached."""
    recipe = arm.run.recipe
    epoch = recipe.training.evaluate_every
    curve = [
        EpochScore(
            epoch=-(-entry["step"] // epoch),
            valid=entry["valid"]["accuracy"],
            test=entry["valid"]["test_accuracy"],
            seconds=entry["seconds"],
        )
        for entry in arm.run.metrics()
        if "valid" in entry
    ]
    probabilities = arm.task.probabilities["test"]
    picked = [max(range(len(row)), key=row.__getitem__) for row in probabilities]
    return SeedOutcome(
        seed=arm.seed,
        curve=curve,
        chosen_epoch=chosen_epoch(arm.run),
        predictions=[recipe.labels[i] for i in picked],
        probabilities=[row[i] for row, i in zip(probabilities, picked, strict=True)],
        parameters=params_of_run(arm.run).total,
        seconds=curve[-1].seconds + _adaptation_seconds(arm.run),
    )
