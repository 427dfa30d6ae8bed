"""Features of texts, computed once and kept in a file for all arms: vectors of a frozen body, or TF-IDF."""

import hashlib
import io
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from greffon.core.errors import UserError, setting
from greffon.core.files import write_atomically
from greffon.core.recipe import Recipe
from greffon.inference.embed import POOLS, pooled_states
from greffon.runs.run import Run


@dataclass(frozen=True, eq=False)
class TextTable:
    """A row of features for each text, dense or sparse."""

    place: dict[bytes, int]
    """Row of each text, by its digest."""
    rows: Any

    def of(self, texts: Sequence[str]) -> Any:
        """Return the rows of some of the texts: (N, F)."""
        return self.rows[[self.place[_digest(text)] for text in texts]]

    def covers(self, texts: Iterable[str]) -> bool:
        """Whether all these texts have a row."""
        return all(_digest(text) in self.place for text in texts)

    @classmethod
    def read(cls, file: Path) -> "TextTable":
        """Read a file that `write_table` wrote."""
        from scipy.sparse import csr_array

        with np.load(file, allow_pickle=False) as found:
            parts = dict(found)
        place = {bytes(digest): i for i, digest in enumerate(parts["digests"])}
        if "rows" in parts:
            return cls(place, parts["rows"])
        return cls(place, csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=tuple(parts["shape"])))


def write_table(file: Path, texts: Sequence[str], rows: Any) -> None:
    """Write features of texts, atomically."""
    parts = {"digests": np.array([list(_digest(text)) for text in texts], dtype=np.uint8)}
    if isinstance(rows, np.ndarray):
        parts["rows"] = rows
    else:
        parts |= {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": np.array(rows.shape)}
    content = io.BytesIO()
    np.savez(content, **parts)  # type: ignore[arg-type]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, content.getvalue())
    except OSError as problem:
        raise UserError(f"{file}: cannot be written ({problem.strerror}); choose another {setting('out')}") from None


def write_vectors(file: Path, run: Run, texts: Sequence[str], recipe: Recipe) -> None:
    """Write the vectors that a head reads before any fine-tuning, each text once.

    `recipe` describes the fine-tuning.
    """
    assert recipe.graft is not None
    pooling = recipe.graft.pooling if recipe.graft.pooling in POOLS else "mean"
    once = sorted(set(texts))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks have reported texts that are truncated
        write_table(file, once, pooled_states(run, recipe, once, pooling, recipe.graft.long_texts))  # type: ignore[arg-type]


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
