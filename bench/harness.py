"""Holds a contest: starts a process for each contestant and lets them work one at a time, in alternation."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.contest import Contest, summarise

ROOT = Path(__file__).parent.parent


class Failed(Exception):  # noqa: N818 - that is what it says
    """A contestant that fell over, with the last lines it wrote."""


def environment(threads: int, folder: Path) -> dict[str, str]:
    """Give every contestant the same threads, no network, and caches that are not the user's."""
    count = str(threads)
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), count),
        "TOKENIZERS_PARALLELISM": "true",
        "BENCH_THREADS": count,
        "GREFFON_CACHE": str(folder / "cache"),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYTHONWARNINGS": "ignore",
    }


class Player:
    """One contestant's process."""

    def __init__(self, contest: Contest, name: str, folder: Path, quick: bool, threads: int) -> None:
        self.name = name
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stop`
        words = [sys.executable, "-m", "bench.contestant", contest.name, name, str(folder), *["--quick"] * quick]
        self._process = subprocess.Popen(
            words,
            cwd=ROOT,
            env=environment(threads, folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
        )

    def hear(self) -> dict[str, Any]:
        """Wait for the next answer."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait()
            self._errors.seek(0)
            last = self._errors.read().decode("utf-8", "replace").strip().splitlines()[-12:]
            raise Failed(f"{self.name} ended with code {self._process.returncode}:\n" + "\n".join(last))
        answer: dict[str, Any] = json.loads(line)
        return answer

    def say(self, word: str) -> None:
        """Send a command; whether it arrived shows when the answer is heard."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(word + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass

    def turn(self) -> dict[str, Any]:
        """Let it work for one turn, and return what it reports."""
        self.say("go")
        return self.hear()

    def end(self) -> dict[str, Any]:
        """Tell it that there are no more turns, and return what it says of itself."""
        self.say("end")
        return self.hear()

    def stop(self) -> None:
        """End the process, whatever it does."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()


def prepare(contest: Contest, folder: Path, quick: bool, threads: int) -> None:
    """Write the contest's files in a process of its own, so that no contestant pays for it."""
    words = [sys.executable, "-m", "bench.contestant", contest.name, "", str(folder), *["--quick"] * quick]
    done = subprocess.run(
        words, cwd=ROOT, env=environment(threads, folder), capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-12:])
        raise Failed(f"the files of {contest.name} could not be made:\n{last}")


def hold(
    contest: Contest,
    folder: Path,
    *,
    rounds: int,
    threads: int,
    gigaflops: float,
    quick: bool = False,
) -> dict[str, Any]:
    """Hold a contest and sum it up."""
    folder.mkdir(parents=True, exist_ok=True)
    prepare(contest, folder, quick, threads)
    players: list[Player] = []
    try:
        for name in contest.contestants:  # one after the other: nothing else runs while one sets up
            player = Player(contest, name, folder, quick, threads)
            players.append(player)
            player.hear()  # it is ready
        if contest.warm:
            for player in players:
                player.turn()
        turns: dict[str, list[dict[str, Any]]] = {player.name: [] for player in players}
        for number in range(min(rounds, contest.most_rounds or rounds)):
            first = number % len(players)  # nobody always comes after the same one
            for player in players[first:] + players[:first]:
                turns[player.name].append(player.turn())
        outcomes = {player.name: player.end() for player in players}
    finally:
        for player in players:
            player.stop()
    return summarise(contest, turns, outcomes, gigaflops)
