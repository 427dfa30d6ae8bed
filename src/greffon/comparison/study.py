"""What a comparison is about: its runs, its data and its plan, checked before anything is written."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from greffon.comparison.names import ENSEMBLE, FROZEN, MAJORITY, PRETRAINED, SCRATCH, TFIDF, is_taken
from greffon.core.errors import UserError, out_of_range, setting
from greffon.core.files import sha256
from greffon.core.recipe import Data, Recipe
from greffon.data.corpora import Labelled
from greffon.data.lint import Finding
from greffon.data.splits import Splits, load_pool, load_splits
from greffon.data.tasks.base import LABEL
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
    """Numbers of labels of the label curve, in order."""
    adapt: bool = False
    """Whether the bodies are first pretrained further on the texts of the task."""
    gradual_unfreezing: bool = False
    """Whether one more layer is trained with each epoch."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Other settings of the trainings, by name."""
    tune: bool = False
    """Whether the settings of every arm are first searched for on validation."""

    def __post_init__(self) -> None:
        for name in ("seeds", "epochs"):
            if getattr(self, name) < 1:
                raise out_of_range(name, getattr(self, name), "choose 1 or more")
        curve = setting("train_sizes")
        if self.tune and self.train_sizes:
            raise UserError(
                f"{setting('tune')} needs validation texts, which {curve} does without, so that twenty labels are "
                "twenty; give one of them"
            )
        if self.train_sizes and self.settings.get("average_checkpoints"):
            raise UserError(
                f"{setting('average_checkpoints')} needs validation texts, which {curve} does without; leave it out"
            )
        if self.settings.get("evaluate_every"):
            raise UserError(f"compare scores once an epoch; leave out {setting('evaluate_every')}")
        if self.settings.get("seed") is not None:
            raise UserError(
                f"compare trains with several seeds; leave out {setting('seed')}, and give {setting('seeds')}"
            )
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
    """How the classifiers are trained."""
    scratch: Mapping[str, str]
    """Scratch arm of the same architecture, for each pretrained arm."""
    recipes: Mapping[str, Recipe]
    """Description of the scratch arm of each pretrained one: heads read both in the same way."""
    findings: tuple[Finding, ...]
    """Findings of the checks."""
    tuned: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings that a search found, for each neural arm."""

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
    def bodies(self) -> dict[str, Run]:
        """For each neural arm, the run with its body, or with one of the same architecture."""
        return {own: self.sources[name] for own, name in self.scratch_sources.items()} | dict(self.sources)

    def settings(self, arm: str) -> dict[str, Any]:
        """Return the settings of the trainings of an arm: those that were given, and those that a search found."""
        return {**self.plan.settings, **self.tuned.get(arm, {})}

    def drawn(self, size: int, draw: int) -> Data:
        """Describe one draw of so many labelled texts, for the label curve."""
        return replace(self.data, valid=(), selection="folds", limit=size, draw=draw)


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
    tune: bool

    @classmethod
    def of(cls, study: Study) -> "Question":
        """Identify a study by its runs, files and settings; more seeds and sizes can be added to it later."""
        data, plan, files = study.data, study.plan, study.files
        return cls(
            runs={name: str(run.path.resolve()) for name, run in study.sources.items()},
            weights={name: sha256(run.path / "model.safetensors") for name, run in study.sources.items()},
            data=files,
            contents=tuple(sha256(Path(file)) for file in files.values()),
            columns=(data.text_column, data.label_column or LABEL),
            epochs=plan.epochs,
            adapt=plan.adapt,
            gradual_unfreezing=plan.gradual_unfreezing,
            settings=dict(plan.settings),
            tune=plan.tune,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the content of comparison.json."""
        return asdict(self)


def make_study(runs: Sequence[Run], data: Data, plan: Plan, tell: Callable[[str], None]) -> Study:
    """Name the arms and check runs, data and plan; refuse what cannot work, and warn of what is doubtful."""
    sources = name_sources(runs)
    plan = replace(plan, train_sizes=check_train_sizes(plan.train_sizes, data, load_pool(data)[0]))
    splits = load_splits(data)
    recipes = {
        name: graft_recipe(
            source,
            data,
            splits,
            epochs=plan.epochs,
            seed=0,
            gradual_unfreezing=plan.gradual_unfreezing,
            scratch=True,
            settings=plan.settings,
        )
        for name, source in sources.items()
    }
    first = next(iter(sources.values()))
    findings = check(splits, first, next(iter(recipes.values())))
    findings += [finding for source in sources.values() for finding in check_body(source)]
    for finding in findings:
        tell(str(finding))
    scratch = scratches(recipes)
    if len({*scratch.values()}) > 1:
        pairs = ", ".join(f"{own} for {name}" for name, own in scratch.items())
        tell(f"the runs differ in form (direction, shape, tokenizer, settings); each is trained from scratch: {pairs}")
    return Study(sources, data, splits, plan, scratch, recipes, tuple(findings))


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


def check_train_sizes(sizes: Sequence[int], data: Data, pool: Sequence[Labelled]) -> tuple[int, ...]:
    """Sort the sizes of the label curve; refuse what cannot be drawn from the labelled texts."""
    if not sizes:
        return ()
    if data.valid:
        raise UserError(
            f"{setting('train_sizes')} makes all choices with the drawn labels alone, so that twenty labels are "
            f"twenty; leave out {setting('valid')}, or put its texts into the file of {setting('train')}"
        )
    classes = len({example.label for example in pool})
    least, most = max(2, classes), len(pool)
    if min(sizes) < least:
        raise UserError(
            f"{setting('train_sizes', min(sizes))}: there are {classes} classes, and each needs a label; "
            f"choose {least} or more"
        )
    if max(sizes) > most:
        rest = f" (a fifth is held out as the test set; give one with {setting('test')})" if data.hold_out_test else ""
        raise UserError(
            f"{setting('train_sizes', max(sizes))}: only {most} labelled texts are there to draw from{rest}; choose "
            f"{most} or fewer"
        )
    return tuple(sorted(set(sizes)))
