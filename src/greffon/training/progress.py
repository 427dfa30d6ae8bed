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
"""Decay of the running means that are shown: about the last 20 steps, or all while there are fewer."""
AUXILIARY_LOSSES = {"pair_loss": "pairs", "words_loss": "the words"}
"""The auxiliary losses by the name in metrics.jsonl, in words."""


class TrainingProgress:
    """Shows one training: `with TrainingProgress(steps) as progress: progress.step(step)`."""

    def __init__(self, steps: int, done: int, quiet: bool = False) -> None:
        self.steps, self.done, self.quiet = steps, done, quiet
        self.started = time.monotonic()
        self.last_line = self.started
        self.speed, self.loss, self.auxiliary = RunningMean(), RunningMean(), RunningMean()
        self.auxiliary_name = ""  # name of the auxiliary loss
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
        self.speed.add(step.tokens / step.seconds)
        (_, main_loss), *others = step.parts.items() if step.parts else [("", step.loss)]
        self.loss.add(main_loss)
        for self.auxiliary_name, loss in others:
            self.auxiliary.add(loss)
        if self.quiet:
            return
        text = f"loss {self.loss.value:.3f}"
        if self.auxiliary_name:
            text += f" + {self.auxiliary.value:.3f} for {AUXILIARY_LOSSES[self.auxiliary_name]}"
        if step.bytes:
            text += f" · {self.loss.value * step.targets / step.bytes / math.log(2):.2f} bits/byte"
        text += f" · {self.speed.value:,.0f} tokens/s{self.scores}"
        if step.padding > 0.005:
            text += f" · padding {step.padding:.0%}"
        now = time.monotonic()
        if self.bar is not None:
            self.bar.update(self.task, completed=step.number, total=self.steps, description=text)
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
        told = ", ".join(f"{name.replace('_', ' ')} {value:.4g}" for name, value in scores.items() if "/" not in name)
        of = f", mean of the last {averaged} weights" if averaged else ""
        # Lines of later steps repeat it, so it names its step.
        self.scores = f" · held out at step {number:,}{of}: {told}"
        if self.bar is None and not self.quiet:
            say(f"step {number:,}/{self.steps:,} · held out{of}: {told}")


class RunningMean:
    """Exponential mean of the values seen so far, in which the first one weighs no more than the others."""

    def __init__(self) -> None:
        self._total = self._weight = 0.0

    def add(self, value: float) -> None:
        """Add the next value."""
        self._total = SMOOTHING * self._total + (1 - SMOOTHING) * value
        self._weight = SMOOTHING * self._weight + (1 - SMOOTHING)

    @property
    def value(self) -> float:
        """The mean; there must be a value."""
        return self._total / self._weight
