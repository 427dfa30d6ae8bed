"""What both estimators share: pretraining where no body was given, the directory of the fit, and pickling."""

import json
import numbers
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from greffon.core.errors import UserError
from greffon.core.files import write_atomically
from greffon.data.tokenizer import FILES as TOKENIZER_FILES
from greffon.runs.run import WEIGHTS, Run
from greffon.training.pretrain import pretrain

KEPT = ("recipe.json", *TOKENIZER_FILES, WEIGHTS, "manifest.json", "metrics.jsonl", "finished")
"""Files of a run that a pickled estimator carries: all that using the run needs."""


class Workplace:
    """The directory in which an estimator fits: the user's, or a temporary one that is removed with the estimator."""

    def __init__(self, given: str | Path | None = None) -> None:
        if given is None:
            self.path = Path(tempfile.mkdtemp(prefix="greffon-"))
            weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        else:
            self.path = Path(given)
            try:
                self.path.mkdir(parents=True, exist_ok=True)
            except OSError as problem:
                raise UserError(f"cannot write {given}: {problem.strerror}; choose another run_dir") from None

    def write(self, name: str, rows: Iterable[Mapping[str, str]]) -> Path:
        """Write rows of text as a .jsonl file."""
        file = self.path / name
        write_atomically(file, "".join(json.dumps(row) + "\n" for row in rows).encode())
        return file


class RunEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """An estimator whose fit leaves a Run, `run_`."""

    run_: Run

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "run_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.one_d_array = True
        tags.input_tags.two_d_array = False
        return tags

    def _seed(self) -> int:
        state = self.random_state
        if isinstance(state, numbers.Integral):
            return int(state)
        return int(check_random_state(state).randint(2**31 - 1))

    def _body(self, texts: list[str], place: Workplace, seed: int) -> Run:
        """Return the body that was given; without one, pretrain it on the texts."""
        if self.body is not None:
            unused = [name for name in ("minutes", "steps", "pretraining") if getattr(self, name) is not None]
            if unused:
                raise UserError(f"{unused[0]} has no effect with a body that is pretrained; give one of them")
            return Run.open(self.body)
        file = place.write("texts.jsonl", ({"text": text} for text in texts if text.strip()))
        asked = {"objective": self.objective, "minutes": self.minutes, "steps": self.steps, "seed": seed}
        settings = {**asked, **(self.pretraining or {})}
        run = pretrain([file], out=place.path / "body", force=True, quiet=True, **settings)
        run.drop_checkpoints()
        return run

    # -- pickling: the files of the run, never its tensors ------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        if "run_" in state:
            run = state.pop("run_")
            state.pop("_place", None)
            files = [run.path / name for name in KEPT]
            state["_files"] = {file.name: file.read_bytes() for file in files if file.is_file()}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        files = state.pop("_files", None)
        super().__setstate__(state)
        if files is not None:
            self._place = Workplace()
            folder = self._place.path / "run"
            folder.mkdir()
            for name in KEPT:
                if name in files:
                    (folder / name).write_bytes(files[name])
            self.run_ = Run.open(folder)

    def _settle(self, place: Workplace, run: Run) -> Self:
        """Take the place and the run of a fit that succeeded."""
        self._place, self.run_ = place, run
        return self
