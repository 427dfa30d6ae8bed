"""Did pretraining pay off? Pretrained, scratch and the classical baselines on the same data, over seeds.

    OUT/
      comparison.json   what was asked for; another question needs another directory, or --force
      arms/ARM/…        one Run for each seed (and number of labels), with its predictions (probabilities.json)
      results.json      every figure of the report (its schema: report.py)
      report.html       the report, self-contained
      accuracy.png      accuracy against epoch; labels.png, accuracy against labels, if asked for

A finished arm is not trained again when the command is repeated.
"""

import importlib.metadata
import json
import platform
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from greffon.comparison.arms import Arm, alike, make_arms, outcome, probabilities_of, train_all, trained_by
from greffon.comparison.baselines import FROZEN, Baseline, frozen, frozen_name, majority, tfidf
from greffon.comparison.ensemble import TOGETHER, Ensemble, fit_ensemble
from greffon.comparison.figures import accuracy_figure, labels_figure, save
from greffon.comparison.report import report
from greffon.comparison.results import SeedOutcome, assemble, correctness
from greffon.comparison.verdict import SCRATCH, is_scratch
from greffon.core.config import Data, Recipe
from greffon.core.console import say
from greffon.core.errors import UserError
from greffon.core.files import sha256, write_atomically
from greffon.core.locks import empty_directory, own_directory
from greffon.data.corpora import Labelled
from greffon.data.lint import overlap
from greffon.data.splits import Splits, balanced_order, load_splits
from greffon.inference.embed import embed
from greffon.inference.metrics import accuracy_interval
from greffon.runs.run import Run, read_json, write_json
from greffon.training.finetune import check, check_body, graft_recipe, labelled_data

HIDDEN = ("data", "weights", "contents", "settings")
"""What identifies a comparison, but tells a reader nothing that does not stand elsewhere."""
RESERVED = {"pretrained", "tfidf", "majority"}


@dataclass(frozen=True)
class Comparison:
    """What a comparison left behind."""

    path: Path
    results: dict[str, Any]

    @classmethod
    def open(cls, path: str | Path) -> "Comparison":
        """Open the directory of a comparison, or say why it has no results."""
        path = Path(path)
        if not (path / "comparison.json").is_file():
            raise UserError(f"{path} is no comparison; give a directory that `greffon compare … --out` made")
        if not (path / "results.json").is_file():
            raise UserError(f"{path} has no results yet; repeat the command that began it, and it goes on")
        return cls(path, read_json(path / "results.json"))

    @property
    def report(self) -> Path:
        """The report, a self-contained page."""
        return self.path / "report.html"

    @property
    def figure(self) -> Path:
        """Accuracy against epoch."""
        return self.path / "accuracy.png"


def compare(
    runs: Sequence[str | Path | Run],
    *,
    train: str | Path,
    out: str | Path,
    valid: str | Path | None = None,
    test: str | Path | None = None,
    seeds: int = 3,
    epochs: int = 15,
    train_sizes: Sequence[int] = (),
    jobs: int | None = None,
    adapt: bool = False,
    gradual_unfreezing: bool = False,
    text_column: str = "text",
    label_column: str = "label",
    force: bool = False,
    quiet: bool = False,
    **settings: Any,
) -> Comparison:
    """Train pretrained and scratch under the same budget over seeds, beside TF-IDF, and report.

    Epochs are chosen on validation, never on test. `labels` repeats everything with fewer labelled
    texts; `jobs` trainings run side by side.
    """
    tell: Callable[[str], None] = (lambda message: None) if quiet else say
    sources = name_sources([Run.open(run) for run in runs])
    for name, least in (("seeds", seeds), ("epochs", epochs), ("jobs", 1 if jobs is None else jobs)):
        if least < 1:
            raise UserError(f"{name} is {least}; choose 1 or more")
    if settings.get("evaluate_every"):
        raise UserError("compare scores once an epoch; leave out --evaluate-every")
    if settings.get("freeze"):
        raise UserError("compare always has a `frozen` arm; leave out freeze (finetune trains a head alone with it)")
    data = labelled_data(train, valid, test, text_column, label_column)
    data = replace(data, hold_out_test=test is None)
    splits = load_splits(data)
    recipes = {  # what cannot be is refused before anything is written
        name: graft_recipe(source, data, splits, epochs=epochs, seed=0, scratch=True, settings=settings)
        for name, source in sources.items()
    }
    first = next(iter(sources.values()))
    findings = check(splits, first, settings.get("context") or first.recipe.shape.context)
    findings += [finding for source in sources.values() for finding in check_body(source)]
    for finding in findings:
        tell(str(finding))
    own = scratches(recipes)
    if len({*own.values()}) > 1:
        told = ", ".join(f"{scratch} for {name}" for name, scratch in own.items())
        tell(f"the runs differ in form (direction, shape, tokenizer, settings); each is trained from scratch: {told}")
    sizes = label_sizes(train_sizes, splits.train, tell)
    parts = {"train": data.train, "valid": data.valid, "test": data.test}
    files = {name: part[0] for name, part in parts.items() if part}
    asked = {
        "runs": {name: str(run.path.resolve()) for name, run in sources.items()},
        "weights": {name: sha256(run.path / "model.safetensors") for name, run in sources.items()},
        "data": files,
        "contents": [sha256(Path(file)) for file in files.values()],
        "columns": [text_column, label_column],
        "epochs": epochs,
        "adapt": adapt,
        "gradual_unfreezing": gradual_unfreezing,
        "settings": settings,
    }
    path = Path(out)
    with own_directory(path, "comparison.json"):
        ask(path, asked, force)
        fresh = {scratch: next(name for name in own if own[name] == scratch) for scratch in own.values()}
        arms = list(make_arms(path, sources, fresh, data, sizes, seeds, epochs, adapt, gradual_unfreezing, settings))
        train_all(arms, jobs, tell)
        bodies = frozen_vectors(sources, splits)
        results = gather(
            arms, bodies, splits, data, sizes, [asdict(finding) for finding in findings], asked, seeds, own
        )
        write_json(path / "results.json", results)
        write_atomically(path / "report.html", report(results).encode())
        save(accuracy_figure(results), path / "accuracy.png")
        if results["label_curve"]:
            save(labels_figure(results), path / "labels.png")
        else:  # of an earlier time, when it was asked for
            (path / "labels.png").unlink(missing_ok=True)
    return Comparison(path, results)


def name_sources(runs: Sequence[Run]) -> dict[str, Run]:
    """Name the arms: `pretrained`, or the runs' own names where there are several."""
    if not runs:
        raise UserError("nothing to compare; name at least one pretrained run")
    if len(runs) == 1:
        return {"pretrained": runs[0]}
    named: dict[str, Run] = {}
    for run in runs:
        name = run.name
        if name in named:
            raise UserError(f"{named[name].path} and {run.path} have the same name, {name}; rename one of them")
        if name in RESERVED or name.startswith(FROZEN) or name.endswith(TOGETHER) or is_scratch(name):
            raise UserError(
                f"{run.path}: among several runs, {', '.join(sorted(RESERVED))}, {SCRATCH} …, {FROZEN} … and "
                f"…{TOGETHER} are names of other arms; rename the directory"
            )
        named[name] = run
    return named


def scratches(recipes: Mapping[str, Recipe]) -> dict[str, str]:
    """Name the scratch arm of each run, by its recipe: one for every form, that of the first without any addition."""
    known: list[tuple[Recipe, str]] = []
    own = {}
    for name, recipe in recipes.items():
        # What a class head and a text that stands alone have no use for makes no other form.
        shape = replace(recipe.shape, segments=0, head_transform=False, head_bias=False)
        form = replace(recipe, preset="", shape=shape)
        found = next((scratch for other, scratch in known if other == form), None)
        own[name] = found or (f"{SCRATCH} {name}" if known else SCRATCH)
        if found is None:
            known.append((form, own[name]))
    return own


def label_sizes(train_sizes: Sequence[int], train: Sequence[Labelled], tell: Callable[[str], None]) -> list[int]:
    """Put the numbers of labels in order; more than there are means all, and so few that one class is left an error."""
    if any(number < 2 for number in train_sizes):
        raise UserError("--train-sizes needs numbers of 2 or more, such as 100,400")
    available, taken = len(train), [example.label for example in balanced_order(train)]
    least = 1 + next(i for i, label in enumerate(taken) if label != taken[0])
    if train_sizes and min(train_sizes) < least:
        raise UserError(
            f"--train-sizes {min(train_sizes)}: classes are drawn in proportion: only {taken[0]!r} is among so few; "
            f"choose {least} or more"
        )
    for number in train_sizes:
        if number > available:
            tell(f"warning: {number:,} labels asked for, {available:,} are there to train on; all are taken")
    return sorted({number for number in train_sizes if number < available})


def ask(path: Path, asked: Mapping[str, Any], force: bool) -> None:
    """Write down the question in the directory of the comparison, or go on in it if it is the same."""
    file = path / "comparison.json"
    if file.is_file() and read_json(file) == json.loads(json.dumps(asked)):
        return
    if file.is_file() and not force:
        raise UserError(f"{path} holds another comparison; choose another --out, or add --force to replace it")
    empty_directory(path)
    try:
        write_json(file, asked)
    except OSError as problem:
        raise UserError(f"cannot write {path}: {problem.strerror}; choose another --out") from None


Vectors = Mapping[str, np.ndarray]
"""The vector of each text, by the text."""


def frozen_vectors(sources: Mapping[str, Run], splits: Splits) -> dict[str, Vectors]:
    """Embed every text once with each body as it is, before any fine-tuning."""
    texts = sorted({example.text for part in (splits.train, splits.valid, splits.test) for example in part})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lint has told of texts that are cut
        return {
            frozen_name(name): dict(zip(texts, embed(run, texts, pooling="mean"), strict=True))
            for name, run in sources.items()
        }


def classical(splits: Splits, bodies: Mapping[str, Vectors]) -> dict[str, Baseline]:
    """Fit the baselines on the same texts."""

    def columns(part: Sequence[Labelled]) -> tuple[list[str], list[str]]:
        return [example.text for example in part], [example.label for example in part]

    train, train_labels = columns(splits.train)
    valid, valid_labels = columns(splits.valid)
    test, _ = columns(splits.test)
    found = {}
    for name, vectors in bodies.items():
        features = [np.stack([vectors[text] for text in part]) for part in (train, valid, test)]
        found[name] = frozen((features[0], train_labels), (features[1], valid_labels), features[2], name)
    found["tfidf"] = tfidf(train, train_labels, valid, valid_labels, test)
    found["majority"] = majority(train_labels, valid_labels, test)
    return found


def answer_together(arms: Sequence[Arm], tfidf: Baseline, valid: Sequence[Labelled]) -> dict[str, list[Ensemble]]:
    """Let each pretrained body answer together with TF-IDF, seed by seed: is there more in it than the words?"""
    gold = [example.label for example in valid]
    found: dict[str, list[Ensemble]] = {}
    for arm in arms:
        if not is_scratch(arm.name):
            assert list(arm.run.recipe.labels) == tfidf.labels, "one order of the classes"
            body = probabilities_of(arm)
            parts = (body["valid"], tfidf.valid_probabilities), (body["test"], tfidf.probabilities)
            found.setdefault(arm.name, []).append(fit_ensemble(tfidf.labels, parts[0], gold, parts[1]))
    return found


def gather(
    arms: Sequence[Arm],
    bodies: Mapping[str, Vectors],
    splits: Splits,
    data: Data,
    sizes: Sequence[int],
    findings: list[dict[str, Any]],
    asked: Mapping[str, Any],
    seeds: int,
    own: Mapping[str, str],
) -> dict[str, Any]:
    """Bring everything together in the form of results.json."""
    texts, gold = [e.text for e in splits.test], [e.label for e in splits.test]
    outcomes: dict[int, dict[str, list[SeedOutcome]]] = {}
    for arm in arms:
        outcomes.setdefault(arm.labels, {}).setdefault(arm.name, []).append(outcome(arm))
    baselines = {size: classical(load_splits(replace(data, limit=size)), bodies) for size in (0, *sizes)}
    both = {
        size: answer_together([arm for arm in arms if arm.labels == size], found["tfidf"], splits.valid)
        for size, found in baselines.items()
    }
    curve: dict[str, list[dict[str, Any]]] = {}
    for size in (*sizes, 0) if sizes else ():
        answers = {name: [o.predictions for o in found] for name, found in outcomes[size].items()}
        answers |= {name: [found.predictions] for name, found in baselines[size].items()}
        answers |= {name + TOGETHER: [o.predictions for o in found] for name, found in both[size].items()}
        for name, predictions in answers.items():
            correct = correctness(predictions, gold)
            point = {"mean": float(correct.mean()), "interval": list(accuracy_interval(correct))}
            curve.setdefault(name, []).append({"labels": size or len(splits.train), **point})
    return assemble(
        outcomes[0],
        baselines[0],
        gold,
        texts,
        splits.labels,
        overlap([e.text for e in splits.train], texts),
        data={
            "train": len(splits.train),
            "valid": len(splits.valid),
            "findings": findings,
            "files": asked["data"],
        },
        settings={
            **{name: value for name, value in asked.items() if name not in HIDDEN},
            "seeds": seeds,
            "training": alike([trained_by(arm.run.recipe, asked["settings"]) for arm in arms]),
        },
        pretraining={
            name: None if run.recipe.imported else run.seconds
            for name, run in ((name, Run.open(path)) for name, path in asked["runs"].items())
        },
        versions={
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in ("greffon", "torch", "numpy", "scikit-learn")},
        },
        label_curve=curve or None,
        scratch=own,
        together=both[0],
    )
