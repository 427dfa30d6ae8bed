"""Kill trainings at chosen and at random moments, let them go on, and compare with one that was never stopped.

A kill is either a signal from outside, once the metrics have reached a step, or a trap: the process kills
itself (SIGKILL) at a given line of a given visit to a place, for example inside a save. The reference run
counts how many lines each visit has, so that traps can be laid anywhere.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from greffon.runs.run import Run

# Processes that have everything imported already, so that a kill costs a second and not ten.
FORKS = get_context("forkserver")
FORKS.set_forkserver_preload(["greffon.training.pretrain", "greffon.training.finetune", "greffon.comparison.compare"])

PLACES = {
    "save": ("greffon.runs.run", "Run.save_checkpoint"),
    "weights": ("greffon.runs.run", "Run.save_model"),
    "evaluation": ("greffon.training.trainer", "Trainer.evaluate"),
    "tokenizer": ("greffon.training.train", "prepare_tokenizer"),
}
TINY = [
    "--layers",
    "1",
    "--hidden-size",
    "16",
    "--heads",
    "2",
    "--intermediate-size",
    "32",
    "--context",
    "24",
    "--dropout",
    "0.1",
]
SECONDS = 1200.0  # of a machine that may be busy with other things


@dataclass(frozen=True)
class Trap:
    """Where a process kills itself."""

    place: str
    visit: int  # 0: the first
    line: int


@dataclass(frozen=True)
class Blow:
    """A signal from outside, once that many steps are in the metrics."""

    signal: int
    step: int
    delay: float


@dataclass
class Ordeal:
    """What came of killing one run again and again."""

    kind: str
    kills: list[str] = field(default_factory=list)
    replayed: int = 0  # steps that were lost in a kill and done again
    mismatches: list[str] = field(default_factory=list)


def drive(words: list[str], cache: str, said: str, counts: str, trap: Trap | None) -> None:
    """Run one command in this process, logging every step; count the lines of each place, or die in the trap."""
    os.setsid()
    os.environ |= {"GREFFON_CACHE": cache, "TOKENIZERS_PARALLELISM": "false"}
    sys.stdout = sys.stderr = open(said, "a", encoding="utf-8")  # noqa: SIM115, PTH123
    import torch

    import greffon.training.train
    import greffon.training.trainer
    from greffon.cli import main

    torch.set_num_threads(1)
    greffon.training.trainer.LOG_EVERY_SECONDS = -1.0
    visits: dict[str, list[int]] = {}
    for place, (module, name) in PLACES.items():
        _lay(place, module, name, visits, trap, counts)
    main(words)


def _lay(place: str, module: str, name: str, visits: dict[str, list[int]], trap: Trap | None, counts: str) -> None:
    """Wrap a function so that its lines, and those of what it calls in greffon, are counted."""
    owner: Any = sys.modules[module]
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    original: Callable[..., Any] = getattr(owner, last)

    def trace(frame: Any, event: str, argument: object) -> Any:
        if "greffon" not in frame.f_code.co_filename:
            return None
        if event == "line":
            visits[place][-1] += 1
            if trap is not None and trap == Trap(place, len(visits[place]) - 1, visits[place][-1]):
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    def watched(*arguments: Any, **named: Any) -> Any:
        visits.setdefault(place, []).append(0)
        sys.settrace(trace)
        try:
            return original(*arguments, **named)
        finally:
            sys.settrace(None)
            if trap is None and counts:
                Path(counts).write_text(json.dumps(visits))

    setattr(owner, last, watched)


class Stage:
    """A folder with texts, in which commands run, are killed and go on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        chance = random.Random(0)
        words = [[a + b for a in ("ba", "do", "ri", "mu", "le") for b in ("ta", "no", "ki", "se")] for _ in range(2)]
        made = [[" ".join(chance.choices(side, k=chance.randrange(3, 9))) for _ in range(300)] for side in words]
        (folder / "corpus.txt").write_text("\n".join(f"{a}. {b}." for a, b in zip(*made, strict=True)))
        (folder / "source.txt").write_text("\n".join(made[0]))
        (folder / "target.txt").write_text("\n".join(made[1]))
        labelled = [f"{text},{'yes' if 'bata' in text else 'no'}" for text in made[0][:90]]
        (folder / "train.csv").write_text("text,label\n" + "\n".join(labelled))
        held_out = [f"{text},{'yes' if 'bata' in text else 'no'}" for text in made[0][90:120]]
        (folder / "valid.csv").write_text("text,label\n" + "\n".join(held_out))

    def words(self, kind: str, out: Path) -> list[str]:
        """The command of each kind of training."""
        here, run = str(self.folder), ["--out", str(out)]
        pretrain = ["pretrain", "--steps", "60", "--evaluate-every", "12", *TINY, *run]
        graft = ["--train", f"{here}/train.csv", "--batch-size", "6", "--dropout", "0.1"]
        return {
            "causal": [*pretrain, f"{here}/corpus.txt", "--vocab-size", "320", "--batch-size", "4"],
            "masked": [*pretrain, f"{here}/corpus.txt", "--objective", "masked", "--vocab-size", "320",
                       "--batch-size", "4"],
            "contrastive": [*pretrain, f"{here}/corpus.txt", "--objective", "contrastive", "--vocab-size", "320",
                            "--batch-size", "8", "--span-length", "8"],
            "seq2seq": [*pretrain, "--objective", "seq2seq", "--source", f"{here}/source.txt", "--target",
                        f"{here}/target.txt", "--vocab-size", "320", "--batch-tokens", "96",
                        "--average-checkpoints", "3"],
            # Without validation texts the folds may say that no step is worth taking, and nothing could be killed.
            "finetune": ["finetune", f"{here}/causal", *graft, "--valid", f"{here}/valid.csv", "--epochs", "5", *run],
            "compare": ["compare", f"{here}/causal", *graft, "--epochs", "12", "--jobs", "2", *run],
        }[kind]  # fmt: skip

    def start(self, words: list[str], trap: Trap | None = None, counts: str = "") -> BaseProcess:
        """Start a command."""
        said = str(self.folder / "said.txt")
        process = FORKS.Process(target=drive, args=(words, str(self.folder / "cache"), said, counts, trap))
        process.start()
        return process

    def finish(self, words: list[str], counts: str = "") -> None:
        """Run a command to its end."""
        process = self.start(words, counts=counts)
        process.join(SECONDS)
        assert process.exitcode == 0, (words, process.exitcode, (self.folder / "said.txt").read_text()[-2000:])

    def reference(self, kind: str) -> tuple[Run, dict[str, list[int]]]:
        """The run that is never stopped, and how many lines each visit to each place had."""
        counts = self.folder / f"{kind}.counts.json"
        if not counts.exists():
            self.finish(self.words(kind, self.folder / kind), str(counts))
        return Run.open(self.folder / kind), json.loads(counts.read_text())

    def ordeal(self, kind: str, kills: int, seed: int, places: tuple[str, ...] = ()) -> Ordeal:
        """Kill one run several times, at the places named first and then at random moments, and let it go on."""
        whole, counts = self.reference(kind)
        chance = random.Random(f"{kind}/{seed}")
        out = self.folder / f"{kind}-{seed}"
        shutil.rmtree(out, ignore_errors=True)
        found, last = Ordeal(kind), whole.checkpoint_step
        for number in range(kills):
            words = ["resume", str(out)] if (out / "recipe.json").is_file() else self.words(kind, out)
            place = places[number] if number < len(places) else ""
            blow = Blow(
                chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT)),
                min(last - 2, self._reached(out) + chance.randrange(1, 1 + last // kills)),
                chance.uniform(0, 0.03),
            )
            if place:
                visits = counts[place]
                visit = min(chance.randrange(len(visits)), 1)  # after going on, there are fewer visits left
                trap = Trap(place, visit, chance.randrange(1, visits[visit] + 1))
                self._die(self.start(words, trap), found, f"{place}, line {trap.line} of visit {visit + 1}")
            else:
                self._strike(self.start(words), out, blow, found)
            if (out / "recipe.json").is_file():
                run = Run.open(out)
                lost = [entry["step"] for entry in run.metrics() if entry["step"] > run.checkpoint_step]
                found.replayed += len(set(lost))
        if not (out / "finished").exists():
            words = ["resume", str(out)] if (out / "recipe.json").is_file() else self.words(kind, out)
            self.finish(words)
        found.mismatches = differences(whole, Run.open(out))
        return found

    def comparison(self, kills: int, seed: int, arms: int = 4) -> Ordeal:
        """Kill a comparison: its own process alone, from which the others must learn that it is gone, or by SIGTERM."""
        whole, seeds = self.folder / "compare", ["--seeds", str(arms // 2)]
        if not (whole / "results.json").exists():
            self.finish([*self.words("compare", whole), *seeds])
        chance, out = random.Random(f"compare/{seed}"), self.folder / f"compare-{seed}"
        found, kept = Ordeal("compare"), dict[Path, tuple[int, int]]()
        for number in range(kills):
            process = self.start([*self.words("compare", out), *seeds])
            wanted = sum(self._arms(out).values()) + chance.randrange(20, 90)
            kind = signal.SIGTERM if number % 3 == 2 else signal.SIGKILL
            deadline = time.monotonic() + SECONDS
            while process.is_alive() and sum(self._arms(out).values()) < wanted and time.monotonic() < deadline:
                time.sleep(0.01)
            if process.is_alive():
                os.kill(process.pid, kind)  # type: ignore[arg-type]
            process.join(SECONDS)
            assert process.exitcode in (0, -9, 143), process.exitcode
            if process.exitcode:
                found.kills.append(f"{kind.name} after {wanted} steps of all arms")
            time.sleep(1.0)  # the others have heard of it
            for arm, reached in self._arms(out).items():
                if (arm / "probabilities.json").exists():
                    status = (arm / "model.safetensors").stat()
                    kept[arm] = (status.st_ino, status.st_mtime_ns)
                else:
                    found.replayed += max(0, reached - Run.open(arm).checkpoint_step)
        self.finish([*self.words("compare", out), *seeds])
        for arm in self._arms(whole):
            other = out / arm.relative_to(whole)
            for name in ("model.safetensors", "probabilities.json"):
                if (arm / name).read_bytes() != (other / name).read_bytes():
                    found.mismatches.append(f"{arm.relative_to(whole)}/{name}")
            wanted_losses, found_losses = (fingerprint(Run.open(path))["losses"] for path in (arm, other))
            common = wanted_losses.keys() & found_losses.keys()
            if any(wanted_losses[step] != found_losses[step] for step in common):
                found.mismatches.append(f"{arm.relative_to(whole)}: losses")
        for arm, before in kept.items():
            status = (arm / "model.safetensors").stat()
            if (status.st_ino, status.st_mtime_ns) != before:
                found.mismatches.append(f"{arm.name} was finished, and trained again")
        verdicts = [json.loads((path / "results.json").read_text()) for path in (whole, out)]
        for part in ("differences", "verdict"):
            if verdicts[0][part] != verdicts[1][part]:
                found.mismatches.append(part)
        return found

    def _arms(self, out: Path) -> dict[Path, int]:
        """The arms of a comparison, and how far each has come."""
        # No deeper: checkpoints come and go while one looks.
        return {file.parent: self._reached(file.parent) for file in (out / "arms").glob("*/*/recipe.json")}

    def _reached(self, out: Path) -> int:
        return max((e["step"] for e in Run.open(out).metrics()), default=0) if (out / "recipe.json").exists() else 0

    def _die(self, process: BaseProcess, found: Ordeal, where: str) -> None:
        process.join(SECONDS)
        assert process.exitcode in (0, -signal.SIGKILL), (process.exitcode, where)
        if process.exitcode:
            found.kills.append(f"SIGKILL inside {where}")

    def _strike(self, process: BaseProcess, out: Path, blow: Blow, found: Ordeal) -> None:
        deadline = time.monotonic() + SECONDS
        while process.is_alive() and self._reached(out) < blow.step and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(blow.delay)
        if process.is_alive():
            os.kill(process.pid, blow.signal)  # type: ignore[arg-type]
        process.join(SECONDS)
        codes = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}
        # Struck before it could listen, it dies of the signal itself.
        assert process.exitcode in (0, codes[signal.Signals(blow.signal)], -blow.signal), (process.exitcode, blow)
        if process.exitcode:
            found.kills.append(f"{signal.Signals(blow.signal).name} after step {blow.step}")


def fingerprint(run: Run) -> dict[str, Any]:
    """All that must come out the same: losses, scores, weights, and the last checkpoint with its optimizers."""
    metrics = run.metrics()
    state = run.checkpoint_state
    return {
        "losses": {e["step"]: e["loss"].hex() for e in metrics if "loss" in e},
        "scores": {e["step"]: {k: v.hex() for k, v in e["valid"].items()} for e in metrics if "valid" in e},
        "weights": hashlib.sha256((run.path / "model.safetensors").read_bytes()).hexdigest(),
        "checkpoint": {name: state.get(name) for name in ("step", "sha256", "best", "stale", "data", "spikes")},
        "finished": run.finished,
    }


def differences(whole: Run, other: Run) -> list[str]:
    """Name what is not the same in two runs, bit for bit."""
    wanted, found = fingerprint(whole), fingerprint(other)
    return [
        f"{name}: {str(wanted[name])[:200]} / {str(found[name])[:200]}"
        for name in wanted
        if wanted[name] != found[name]
    ]
