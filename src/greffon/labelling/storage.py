"""The directory of a session: written once when it begins, and read when it goes on."""

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from greffon.core.config import from_dict
from greffon.core.console import say
from greffon.core.errors import UserError, setting
from greffon.core.files import COPY, read_json, sha256, sweep, sync_directory, write_atomically, write_json
from greffon.core.recipe import Data
from greffon.data.corpora import documents, find_files
from greffon.data.tasks.pairs import Pairs
from greffon.inference.embed import embed
from greffon.labelling.answers import LabelTask
from greffon.labelling.clusters import Clusters, cluster, unit
from greffon.labelling.heap import Heap, Text, whole
from greffon.labelling.strategy import Choosing
from greffon.runs.run import Run

SETTINGS, TEXTS, VECTORS, CLUSTERS, LOG = "session.json", "texts.jsonl", "vectors.npy", "clusters.npz", "log.jsonl"
_LEAST_TEXTS = 4
_TOGETHER = 2048
"""Texts whose vectors are computed at a time."""


@dataclass(frozen=True)
class Settings:
    """What a session was begun with."""

    sources: tuple[str, ...]
    """Files of the texts."""
    body: str
    """Run whose body makes the vectors."""
    weights: str
    """SHA-256 of its weights."""
    labels: tuple[str, ...]
    choosing: Choosing
    task: LabelTask = "classes"
    """One class for each text, several labels, or one class for each pair of texts."""
    text_column: str = "text"
    pair_columns: tuple[str, ...] = Data.pair_columns
    """Columns of the two texts of a pair."""
    seed: int = 0
    aim: float | None = None
    """Accuracy, or F1, to reach."""
    format: int = 1


@dataclass(frozen=True)
class Stored:
    """A session as it is on the disk."""

    path: Path
    settings: Settings
    heap: Heap


def begin(path: Path, settings: Settings, quiet: bool = False) -> Stored:
    """Read the texts, write the settings, the texts, their vectors and clusters; go on where an earlier try ended.

    Nothing is written before the texts could be read.
    """
    sweep(path)
    texts = _texts(path) if (path / TEXTS).is_file() else _read(settings)
    write_json(path / SETTINGS, asdict(settings))
    if not (path / TEXTS).is_file():
        lines = "".join(json.dumps(text, ensure_ascii=False) + "\n" for text in texts)
        write_atomically(path / TEXTS, lines.encode())
    if not (path / VECTORS).is_file():
        run = Run.open(settings.body)
        if sha256(run.path / "model.safetensors") != settings.weights:
            raise UserError(
                f"{run.path} has other weights than the session began with; choose another {setting('out')}"
            )
        store_vectors(path / VECTORS, run, texts, quiet)
    vectors = np.load(path / VECTORS, mmap_mode="r", allow_pickle=False)
    if len(vectors) != len(texts):
        raise UserError(f"{path / VECTORS} has {len(vectors):,} rows for {len(texts):,} texts; {COPY}")
    if not (path / CLUSTERS).is_file():
        _store_clusters(path / CLUSTERS, cluster(vectors, settings.seed))
    return Stored(path, settings, Heap(texts, vectors, _clusters(path / CLUSTERS), settings.seed))


def _read(settings: Settings) -> list[Text]:
    """Read the texts of the files; a NUL, which no table can hold, becomes the sign for an unknown character."""
    data = Data(task=settings.task, text_column=settings.text_column, pair_columns=settings.pair_columns)
    texts = [_clean(text) for text in read_texts(settings.sources, data)]
    if len(texts) < _LEAST_TEXTS:
        raise UserError(f"there are {len(texts)} texts; labelling needs {_LEAST_TEXTS} or more")
    return texts


def _clean(text: Text) -> Text:
    if isinstance(text, str):
        return text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    first, second = (part.replace("\0", "\N{REPLACEMENT CHARACTER}") for part in text)
    return first, second


def read_texts(sources: Sequence[str | Path], data: Data) -> list[Text]:
    """Return the texts of files that need no labels, or the pairs of texts; blank ones are skipped."""
    if data.task != "pairs":
        return list(documents(sources, data.text_column))
    found = [pair for file in find_files(sources) for pair in Pairs().inputs(file, data) if pair.whole.strip()]
    return [(pair.text, pair.second or "") for pair in found]


def _texts(path: Path) -> list[Text]:
    try:
        with (path / TEXTS).open(encoding="utf-8") as file:
            found = [json.loads(line) for line in file]
        return [text if isinstance(text, str) else (text[0], text[1]) for text in found]
    except (OSError, ValueError, LookupError, TypeError) as problem:
        raise UserError(f"cannot read {path / TEXTS}: {problem}; {COPY}") from None


def store_vectors(path: Path, run: Run, texts: Sequence[Text], quiet: bool = False) -> None:
    """Compute the frozen vector of each text or pair, some at a time, into a NumPy file."""
    reader = _Reader(run)
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("wb") as out:
            for first in range(0, len(texts), _TOGETHER):
                found = reader.vectors(texts[first : first + _TOGETHER]).astype("<f4", copy=False)
                if first == 0:
                    header = {"descr": "<f4", "fortran_order": False, "shape": (len(texts), found.shape[1])}
                    np.lib.format.write_array_header_1_0(out, header)
                out.write(found.tobytes())
                if not quiet and len(texts) > _TOGETHER:
                    say(f"vectors: {first + len(found):,} of {len(texts):,} texts")
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
        sync_directory(path.parent)
    finally:
        part.unlink(missing_ok=True)


class _Reader:
    """Makes one vector of a text, or of a pair: |u - v| and u · v, as a head of two towers reads them."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self._centre: np.ndarray | None = None

    def vectors(self, texts: Sequence[Text]) -> np.ndarray:
        """Return the vector of each text or pair; the first ones tell where the middle of all texts is."""
        if isinstance(texts[0], str):
            return embed(self.run, [whole(text) for text in texts])
        u, v = (embed(self.run, [text[side] for text in texts]) for side in (0, 1))
        if self._centre is None:
            self._centre = np.concatenate((u, v)).mean(axis=0)
        u, v = unit(u, self._centre), unit(v, self._centre)
        return np.concatenate((np.abs(u - v), np.sqrt(u.shape[1]) * u * v), axis=1)  # of one scale


def _store_clusters(path: Path, found: Sequence[Clusters]) -> None:
    part = path.with_name(f".{path.stem}.part.npz")
    try:
        np.savez(
            part,
            counts=[one.count for one in found],
            members=np.stack([one.members for one in found]),
            distances=np.stack([one.distances for one in found]),
        )
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _clusters(path: Path) -> list[Clusters]:
    try:
        with np.load(path, allow_pickle=False) as stored:
            parts = zip(stored["counts"], stored["members"], stored["distances"], strict=True)
            return [Clusters(int(count), members, distances) for count, members, distances in parts]
    except (OSError, ValueError, KeyError) as problem:
        raise UserError(f"cannot read {path}: {problem}; remove it, and it is made again") from None


def go_on(path: Path, asked: Mapping[str, Any], choosing: Mapping[str, Any], labels: Sequence[str]) -> Settings:
    """Return the settings of a session that is there, with what was given anew; refuse what would make another of it.

    The body may have moved, the way of choosing and the aim may change, labels may be added.
    """
    known = read_settings(path)
    for name in ("sources", "task", "text_column", "pair_columns", "weights", "seed"):
        if name in asked and asked[name] != getattr(known, name):
            raise UserError(
                f"{path} holds a session with other settings ({name}); go on with "
                f"`greffon label --out {shlex.quote(str(path))}`, or choose another {setting('out')}"
            )
    if choosing.get("aside_share", known.choosing.aside_share) != known.choosing.aside_share:
        raise UserError(f"{path} keeps {known.choosing.aside_share:g} of its texts aside; that cannot change later")
    missing = [label for label in known.labels if labels and label not in labels]
    if missing:
        raise UserError(
            f"{setting('labels')} leaves out {missing[0]!r}, which this session has; labels can only be added"
        )
    added = tuple(label for label in labels if label not in known.labels)
    return replace(known, **asked, labels=(*known.labels, *added), choosing=replace(known.choosing, **choosing))


def read_settings(path: Path) -> Settings:
    """Read the settings of a session."""
    values = read_json(path / SETTINGS)
    return from_dict(Settings, values, str(path / SETTINGS))
