"""Starting: how long a command takes from nothing, against the time of `import torch` alone."""

import subprocess
import sys
from pathlib import Path

from bench.contest import SECONDS, Contest, Contestant, Goal
from bench.contests.classification import QUICK, prepare, run_folder
from bench.contests.finetuning import Size
from bench.turns import Turns

NO_TORCH = "import sys, greffon.cli; greffon.cli.run(['--help']); sys.exit('torch' in sys.modules)"


def command(*words: str) -> Contestant:
    """The contestant that runs one Python process a turn; RUN stands for the classifier's folder."""

    def play(turns: Turns, size: Size, folder: Path) -> None:
        filled = [str(run_folder(size, folder)) if word == "RUN" else word for word in words]
        for _ in turns:
            subprocess.run([sys.executable, *filled], check=True, stdout=subprocess.DEVNULL)
            turns.report(1)

    return play


def help_without_torch(turns: Turns, size: Size, folder: Path) -> None:
    """`greffon --help`, after making sure that it does not import torch."""
    subprocess.run([sys.executable, "-c", NO_TORCH], check=True, stdout=subprocess.DEVNULL)
    command("-m", "greffon", "--help")(turns, size, folder)


TORCH = {"import torch": command("-c", "import torch")}
CONTESTS = (
    Contest(
        "start-help",
        "`greffon --help` (imports no torch)",
        SECONDS,
        {"Greffon": help_without_torch, **TORCH},
        Size(),
        QUICK,
        prepare,
    ),
    Contest(
        "start-classify",
        "`greffon classify` of one sentence",
        SECONDS,
        {"Greffon": command("-m", "greffon", "classify", "RUN", "a film to remember"), **TORCH},
        Size(),
        QUICK,
        prepare,
        goals=(Goal("import torch", 1 / 1.5),),
    ),
)
