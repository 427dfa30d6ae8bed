"""One of the processes that `--processes` starts: `python -m greffon.training.distributed.worker RUN`.

Its parent reports its errors; if the parent has ended, it saves and stops.
"""

import os
import signal
import sys
import threading
import time
import warnings

if __name__ == "__main__":  # before training starts there is nothing to save
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(130))

from greffon.core.console import for_command_line, say, show_warning
from greffon.core.errors import ToldError, UserError
from greffon.core.machine import is_main_process
from greffon.runs.run import Run
from greffon.training.distributed.launch import process_group
from greffon.training.listeners import TRACKERS
from greffon.training.train import train


@for_command_line()
def main(path: str, *flags: str) -> int:
    """Train the run as one of several processes."""
    warnings.showwarning = show_warning
    threading.Thread(target=_stop_with, args=(int(os.environ["GREFFON_PARENT"]),), daemon=True).start()
    try:
        group = process_group(1, "--fsdp" in flags)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with group.report_once(f"greffon resume {path}"):
            trackers = [name for name in TRACKERS if f"--{name}" in flags]
            train(Run.open(path), quiet="--quiet" in flags, group=group, trackers=trackers)
    except ToldError as told:
        return told.code
    except UserError as mistake:  # there is no group yet: each process would report it
        if is_main_process():
            say(f"greffon: {mistake.on_command_line()}")
        return 1
    return 0


def _stop_with(parent: int) -> None:
    """Stop as for SIGTERM once the parent has ended."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
