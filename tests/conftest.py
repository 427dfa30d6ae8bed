"""Settings for all tests: small machines, no surprises, nothing written outside the test's own folder."""

from pathlib import Path

import hypothesis
import pytest
import torch
from tiny import TinyRuns

# A shared machine may stall any single example; the order of examples is the same everywhere.
hypothesis.settings.register_profile("greffon", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("greffon")

torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GREFFON_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A small French text with regularities to learn, one document a line."""
    from greffon.core.rng import generator

    random = generator(0, "corpus")
    subjects = ["le chat", "la mère", "un voisin", "l'enfant", "Paul", "la reine"]
    verbs = ["regarde", "mange", "trouve", "aime", "cherche"]
    objects = ["une pomme", "le livre", "la mer", "un ami", "le soleil d'été", "rien"]
    lines = []
    for _ in range(400):
        picks = [random.choice(words) for words in (subjects, verbs, objects, subjects, verbs, objects)]
        lines.append("Bonjour les amis : {} {} {}, puis {} {} {}.".format(*picks))
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyRuns:
    """Small runs of every kind, to look inside."""
    return TinyRuns(tmp_path_factory.mktemp("tiny"))
