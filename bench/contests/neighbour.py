"""The same work beside a program that keeps one core busy, and alone: what share of the speed is kept."""

import http.client
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.contest import SECONDS, Contest, Contestant, Goal
from bench.contests import classification, finetuning, pretraining
from bench.contests.finetuning import Size
from bench.turns import Turns

ALONE = "Greffon, alone"
GOALS = (Goal(ALONE, 0.55),)
BUSY = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): pass"
"""A busy program, which ends when the process that has started it has ended."""


class Disturbed(Turns):
    """Turns during which another process is busy."""

    def __init__(self, turns: Turns) -> None:
        self.__dict__ = turns.__dict__
        self._neighbour: subprocess.Popen[bytes] | None = None

    def wait(self) -> bool:
        """Wait for the next turn; the neighbour is there before the time counts."""
        self._end_neighbour()
        asked = super().wait()
        if asked:
            self._neighbour = subprocess.Popen([sys.executable, "-c", BUSY, str(os.getpid())])
            self._started = time.perf_counter()
        return asked

    def report(self, work: float) -> None:
        """End the turn and the neighbour, who must not disturb the next one's turn."""
        seconds = time.perf_counter() - self._started
        self._end_neighbour()
        self._answer({"seconds": seconds, "work": work})

    def _end_neighbour(self) -> None:
        if self._neighbour is not None:
            self._neighbour.kill()
            self._neighbour.wait()
            self._neighbour = None


def contestants(work: Contestant) -> dict[str, Contestant]:
    """The work beside a busy process, and alone."""

    def disturbed(turns: Turns, size: Any, folder: Path) -> None:
        work(Disturbed(turns), size, folder)

    return {"Greffon": disturbed, ALONE: work}


def comparison(turns: Turns, size: Size, folder: Path) -> None:
    """`greffon.compare` of a body with scratch: one seed, one epoch, one process per core."""
    from bench.data import labelled_table
    from greffon.comparison.compare import compare

    train = labelled_table(folder, size.sources, size.texts, skip=0)
    test = labelled_table(folder, size.sources, size.held_out, skip=size.texts)
    for _ in turns:
        with tempfile.TemporaryDirectory() as place:
            out = Path(place) / "comparison"
            compare([body_folder(size, folder)], train=train, test=test, seeds=1, epochs=1, out=out, quiet=True)
        turns.report(1)


def prepare_comparison(size: Size, folder: Path) -> None:
    """Write the texts, and a body with fresh weights: how good they are changes no speed."""
    from bench.data import text_file, tokenizer_file
    from bench.shapes import lab_shape
    from greffon.core.own_presets import lab
    from greffon.core.recipe import Data, Recipe
    from greffon.data.tokenizer import Tokenizer
    from greffon.nn.build import make_model
    from greffon.runs.run import Run

    finetuning.prepare(size, folder)
    tokenizer = Tokenizer.load(tokenizer_file(folder, size.vocab_size, size.megabytes))
    training = replace(lab().training, steps=1)
    data = Data(train=(str(text_file(folder, size.megabytes)),))
    run = Run.create(
        body_folder(size, folder), Recipe("causal", "lab", lab_shape(size), training, data, tokenizer.size)
    )
    run.adopt(tokenizer)
    run.save_model(make_model(run.recipe), {"loss": 0.0, "step": 1})
    run.mark_finished()


def body_folder(size: Size, folder: Path) -> Path:
    """Where the body is."""
    return folder / f"body-{size.vocab_size}-{size.hidden_size}-{size.context}"


def serving(turns: Turns, size: Size, folder: Path) -> None:
    """`greffon serve`: one client that has all texts classified, some at a time."""
    from greffon.web.catalogue import Catalogue
    from greffon.web.server import listen, make_server

    run = classification.run_folder(size, folder)
    texts = classification.texts_of(size, folder)
    asked = [
        json.dumps({"run": run.name, "texts": texts[start : start + size.batch_size]}).encode()
        for start in range(0, len(texts), size.batch_size)
    ]
    with listen("127.0.0.1", 0) as listener:
        server = make_server(Catalogue([run]))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            for _ in turns:
                client = http.client.HTTPConnection(*listener.getsockname())
                for body in asked:
                    client.request("POST", "/api/classify", body, {"Content-Type": "application/json"})
                    answer = client.getresponse()
                    content = answer.read()
                    assert answer.status == 200, content
                client.close()
                turns.report(len(texts))
        finally:
            server.should_exit = True
            thread.join()


CONTESTS = (
    Contest(
        "busy-pretrain",
        "pretraining beside a busy process: 4 × 200, 256 tokens, vocabulary 8,000",
        "tokens/s",
        contestants(pretraining.greffon),
        pretraining.Size(8_000, steps=6),
        pretraining.QUICK,
        pretraining.prepare,
        goals=GOALS,
    ),
    Contest(
        "busy-finetune",
        "a fine-tuning epoch beside a busy process",
        "docs/s",
        contestants(finetuning.greffon),
        Size(),
        finetuning.SMALL,
        finetuning.prepare,
        goals=GOALS,
    ),
    Contest(
        "busy-compare",
        "a comparison beside a busy process: 256 texts, one seed, one epoch",
        SECONDS,
        contestants(comparison),
        Size(),
        finetuning.SMALL,
        prepare_comparison,
        goals=GOALS,
    ),
    Contest(
        "busy-serve",
        "classification by `greffon serve` beside a busy process",
        "docs/s",
        contestants(serving),
        Size(),
        classification.QUICK,
        classification.prepare,
        goals=GOALS,
    ),
)
