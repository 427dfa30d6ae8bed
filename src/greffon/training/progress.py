"""The progress of a training on stderr: a bar on a terminal, plain lines elsewhere."""

import math
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column

from greffon.core.console import say
from greffon.training.loop import Step

_PLAIN_SECONDS = 15.0
"""Time between two plain lines."""
SMOOTHING = 0.95
"""Decay of the running means that are shown: about the last 20 steps."""
AUXILIARY_LOSSES = {"pair_loss": "pairs", "gist_loss": "the gist"}
"""The auxiliary losses by the name in metrics.jsonl, in words."""


class TrainingProgress:
    """Shows one training: `with TrainingProgress(steps) as progress: progress.step(step)`."""

    def __init__(self, steps: int, done: int, quiet: bool = False) -> None:
        self.steps, self.done, self.quiet = steps, done, quiet
        self.started = time.monotonic()
        self.last_line = self.started
        self.speed = 0.0  # tokens per second, running mean
        self.loss: float | None = None
        self.auxiliary = ("", 0.0)  # name of the auxiliary loss, and its running mean
        self.scores = ""
        self.bar: Progress | None = None
        self.task = TaskID(0)

    def __enter__(self) -> "TrainingProgress":
        console = Console(stderr=True)
        if console.is_terminal and not self.quiet:
            self.bar = Progress(
                TextColumn("{task.completed:,.0f}/{task.total:,.0f}", table_column=Column(no_wrap=True)),
                BarColumn(bar_width=12),
                TimeRemainingColumn(),
                TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis")),
                console=console,
            )
            self.bar.start()
            self.task = self.bar.add_task("", total=self.steps, completed=self.done)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.bar.stop()

    def say(self, message: str) -> None:
        """Print a message, unless this training is quiet."""
        if not self.quiet:
            say(message)

    def step(self, step: Step) -> None:
        """Show one step."""
        speed = step.tokens / step.seconds
        self.speed = _smoothed(self.speed or speed, speed)
        (_, main_loss), *others = step.parts.items() if step.parts else [("", step.loss)]
        self.loss = _smoothed(main_loss if self.loss is None else self.loss, main_loss)
        for name, loss in others:
            self.auxiliary = name, _smoothed(self.auxiliary[1] or loss, loss)
        if self.quiet:
            return
        text = f"loss {self.loss:.3f}"
        if self.auxiliary[0]:
            text += f" + {self.auxiliary[1]:.3f} for {AUXILIARY_LOSSES[self.auxiliary[0]]}"
        if step.bytes:
            text += f" · {self.loss * step.targets / step.bytes / math.log(2):.2f} bits/byte"
        text += f" · {self.speed:,.0f} tokens/s{self.scores}"
        if step.padding > 0.005:
            text += f" · padding {step.padding:.0%}"
        now = time.monotonic()
        if self.bar is not None:
            self.bar.update(self.task, completed=step.number, description=text)
        elif now - self.last_line > _PLAIN_SECONDS:
            self.last_line = now
            left = (now - self.started) / (step.number - self.done) * (self.steps - step.number)
            say(f"step {step.number:,}/{self.steps:,} · {text} · {left / 60:.1f} min left")

    def skipped(self, step: Step) -> None:
        """Count a step that changed no weight; its numbers are not shown."""
        if self.bar is not None:
            self.bar.update(self.task, completed=step.number)

    def evaluation(self, number: int, scores: dict[str, float], averaged: int = 0) -> None:
        """Show held-out scores; `averaged` is the number of snapshots whose mean the weights are."""
        told = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in scores.items())
        of = f", mean of the last {averaged} weights" if averaged else ""
        # Lines of later steps repeat it, so it names its step.
        self.scores = f" · held out at step {number:,}{of}: {told}"
        if self.bar is None and not self.quiet:
            say(f"step {number:,}/{self.steps:,} · held out{of}: {told}")


def _smoothed(mean: float, value: float) -> float:
    return SMOOTHING * mean + (1 - SMOOTHING) * value
