"""One set of tiny runs of every kind for all tests of the page."""

from collections.abc import Iterator

import pytest
from chromium import browser  # noqa: F401
from in_process import in_process
from label_page import visit  # noqa: F401
from serving import Kinds
from starlette.testclient import TestClient
from tiny import SHAPE, TinyRuns

import greffon
from greffon.web.app import make_app
from greffon.web.catalogue import Catalogue


@pytest.fixture(scope="session")
def kinds(tiny: TinyRuns) -> Kinds:
    # Long enough to write words rather than pieces of characters.
    shape = {**SHAPE, "batch_size": 8, "steps": 60, "quiet": True}
    out = tiny.folder / "web" / "causal"
    causal = greffon.pretrain([tiny.text], out=out, tokenizer=tiny.causal.path, **shape)
    out = tiny.folder / "verdict"
    with in_process():
        made = greffon.compare([tiny.causal], train=tiny.table, seeds=1, epochs=1, out=out, quiet=True)
    return Kinds(causal, tiny.masked, tiny.classifier, tiny.translator, made.path)


@pytest.fixture(scope="session")
def client(kinds: Kinds) -> Iterator[TestClient]:
    with TestClient(make_app(Catalogue(kinds.paths)), base_url="http://127.0.0.1:8000") as client:
        yield client
