"""What a comparison is about: its runs, its data and its plan, checked before anything is written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from greffon.comparison.names import ENSEMBLE, FROZEN, MAJORITY, PRETRAINED, SCRATCH, TFIDF, is_taken
from greffon.core.config import Data, Recipe
from greffon.core.errors import UserError
from greffon.core.files import sha256
from greffon.data.corpora import Labelled
from greffon.data.lint import Finding
from greffon.data.splits import Splits, balanced_order, load_splits
from greffon.runs.run import Run
from greffon.training.finetune import check, check_body, graft_recipe


@dataclass(frozen=True)
class Plan:
    """How often and how the classifiers are trained."""

    seeds: int = 3
    """Number of trainings of each neural arm."""
    epochs: int = 15
    """Number of epochs of a training at most."""
    train_sizes: tuple[int, ...] = ()
    """Numbers of training texts to repeat the comparison with."""
    adapt: bool = False
    """Whether the bodies are first pretrained further on the texts of the task."""
    gradual_unfreezing: bool = False
    """Whether one more layer is trained with each epoch."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Other settings of the trainings, by name."""

    def __post_init__(self) -> None:
        for name in ("seeds", "epochs"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} is {getattr(self, name)}; choose 1 or more")
        if self.settings.get("evaluate_every"):
            raise UserError("compare scores once an epoch; leave out --evaluate-every")
        if self.settings.get("freeze"):
            raise UserError(
                "compare always has a `frozen` arm; leave out freeze (finetune trains a head alone with it)"
            )


@dataclass(frozen=True)
class Study:
    """The runs and the data of a comparison, and how the classifiers are trained."""

    sources: Mapping[str, Run]
    """Pretrained runs, by the names of their arms."""
    data: Data
    """Labelled files."""
    splits: Splits
    """Labelled texts."""
    plan: Plan
    """How the classifiers are trained; the training sizes are those that differ from all texts, in order."""
    scratch: Mapping[str, str]
    """Scratch arm of the same architecture, for each pretrained arm."""
    findings: tuple[Finding, ...]
    """Findings of the checks."""

    @property
    def scratch_sources(self) -> dict[str, str]:
        """For each scratch arm, the first pretrained arm of the same architecture."""
        return {own: next(name for name in self.scratch if self.scratch[name] == own) for own in self.scratch.values()}

    @property
    def files(self) -> dict[str, str]:
        """File of each split that was given."""
        parts = {"train": self.data.train, "valid": self.data.valid, "test": self.data.test}
        return {name: part[0] for name, part in parts.items() if part}

    @property
    def limits(self) -> tuple[int, ...]:
        """Limits of the number of training texts; 0 takes all."""
        return (0, *self.plan.train_sizes)

    def limited(self, size: int) -> Data:
        """Describe the data with at most `size` training texts; 0 takes all."""
        return replace(self.data, limit=size)


@dataclass(frozen=True)
class Question:
    """What was asked, as written to comparison.json; a directory holds the answer to one question."""

    runs: Mapping[str, str]
    """Directory of each pretrained run."""
    weights: Mapping[str, str]
    """SHA-256 of the weights of each pretrained run."""
    data: Mapping[str, str]
    """File of each split."""
    contents: tuple[str, ...]
    """SHA-256 of each file."""
    columns: tuple[str, str]
    """Columns of the text and of the label."""
    epochs: int
    adapt: bool
    gradual_unfreezing: bool
    settings: Mapping[str, Any]
    """Other settings of the trainings, by name."""

    @classmethod
    def of(cls, study: Study) -> "Question":
        """Identify a study by its runs, files and settings; more seeds and sizes can be added to it later."""
        data, plan, files = study.data, study.plan, study.files
        return cls(
            runs={name: str(run.path.resolve()) for name, run in study.sources.items()},
            weights={name: sha256(run.path / "model.safetensors") for name, run in study.sources.items()},
            data=files,
            contents=tuple(sha256(Path(file)) for file in files.values()),
            columns=(data.text_column, data.label_column),
            epochs=plan.epochs,
            adapt=plan.adapt,
            gradual_unfreezing=plan.gradual_unfreezing,
            settings=dict(plan.settings),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the content of comparison.json."""
        return asdict(self)


def make_study(runs: Sequence[Run], data: Data, plan: Plan, tell: Callable[[str], None]) -> Study:
    """Name the arms and check runs, data and plan; refuse what cannot work, and warn of what is doubtful."""
    sources = name_sources(runs)
    splits = load_splits(data)
    recipes = {
        name: graft_recipe(source, data, splits, epochs=plan.epochs, seed=0, scratch=True, settings=plan.settings)
        for name, source in sources.items()
    }
    first = next(iter(sources.values()))
    findings = check(splits, first, plan.settings.get("context") or first.recipe.shape.context)
    findings += [finding for source in sources.values() for finding in check_body(source)]
    for finding in findings:
        tell(str(finding))
    scratch = scratches(recipes)
    if len({*scratch.values()}) > 1:
        pairs = ", ".join(f"{own} for {name}" for name, own in scratch.items())
        tell(f"the runs differ in form (direction, shape, tokenizer, settings); each is trained from scratch: {pairs}")
    plan = replace(plan, train_sizes=check_train_sizes(plan.train_sizes, splits.train, tell))
    return Study(sources, data, splits, plan, scratch, tuple(findings))


def name_sources(runs: Sequence[Run]) -> dict[str, Run]:
    """Name the arms of the runs: `pretrained`, or the runs' own names where there are several."""
    if not runs:
        raise UserError("nothing to compare; name at least one pretrained run")
    if len(runs) == 1:
        return {PRETRAINED: runs[0]}
    named: dict[str, Run] = {}
    for run in runs:
        name = run.name
        if name in named:
            raise UserError(f"{named[name].path} and {run.path} have the same name, {name}; rename one of them")
        if is_taken(name):
            raise UserError(
                f"{run.path}: among several runs, {MAJORITY}, {PRETRAINED}, {TFIDF}, {SCRATCH} …, {FROZEN} … and "
                f"{ENSEMBLE} … are names of other arms; rename the directory"
            )
        named[name] = run
    return named


def scratches(recipes: Mapping[str, Recipe]) -> dict[str, str]:
    """Name the scratch arm of each run: `scratch` for the architecture of the first, `scratch NAME` for others."""
    known: list[tuple[Recipe, str]] = []
    own = {}
    for name, recipe in recipes.items():
        # A class head on single texts uses neither segments nor the transform of the vocabulary head.
        shape = replace(recipe.shape, segments=0, head_transform=False, head_bias=False)
        form = replace(recipe, preset="", shape=shape)
        found = next((scratch for other, scratch in known if other == form), None)
        own[name] = found or (f"{SCRATCH} {name}" if known else SCRATCH)
        if found is None:
            known.append((form, own[name]))
    return own


def check_train_sizes(sizes: Sequence[int], train: Sequence[Labelled], tell: Callable[[str], None]) -> tuple[int, ...]:
    """Sort the training sizes; one above the number of texts takes all, one that leaves a single class is refused."""
    if any(number < 2 for number in sizes):
        raise UserError("--train-sizes needs numbers of 2 or more, such as 100,400")
    available, taken = len(train), [example.label for example in balanced_order(train)]
    least = 1 + next(i for i, label in enumerate(taken) if label != taken[0])
    if sizes and min(sizes) < least:
        raise UserError(
            f"--train-sizes {min(sizes)}: classes are drawn in proportion: only {taken[0]!r} is among so few; "
            f"choose {least} or more"
        )
    for number in sizes:
        if number > available:
            tell(f"warning: {number:,} labels asked for, {available:,} are there to train on; all are taken")
    return tuple(sorted({number for number in sizes if number < available}))
