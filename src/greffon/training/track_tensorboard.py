"""Metrics for TensorBoard, in the directory `tensorboard` of the run: `tensorboard --logdir RUN/tensorboard`."""

from collections.abc import Mapping
from typing import Any

from tensorboardX import SummaryWriter

from greffon.runs.run import Run
from greffon.training.listeners import Listener, scalars

FOLDER = "tensorboard"
FLUSH_SECONDS = 10


class TensorBoard:
    """Writes event files; what a resumed training does again is marked as void there."""

    def __init__(self, run: Run, step: int) -> None:
        void_from = step + 1 if step else 0
        # The suffix: files are named by the second, and a training may be resumed within one.
        self.writer = SummaryWriter(
            str(run.path / FOLDER), purge_step=void_from, flush_secs=FLUSH_SECONDS, filename_suffix=f".{step}"
        )

    def record(self, entry: Mapping[str, Any]) -> None:
        """Write the numbers of an entry."""
        for name, value in scalars(entry).items():
            self.writer.add_scalar(name, value, entry["step"])

    def close(self, finished: bool) -> None:
        """Write what is still waiting."""
        self.writer.close()


def open_tracker(run: Run, step: int) -> Listener:
    """Open the writer of a training that goes on after `step`."""
    return TensorBoard(run, step)
