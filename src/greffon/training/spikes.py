"""The spike detector: a step whose loss or gradient is not finite, or far above the usual, changes no weight."""

import math
from dataclasses import dataclass

from greffon.core.training import Training

MAX_SKIPPED_IN_A_ROW = 10
"""Skipped steps in a row that end a training: one bad batch is an accident, ten in a row are a divergence."""
MIN_HISTORY = 20
"""Steps before spikes are looked for: the mean of fewer is noisy, and the first losses fall fast."""
DECAY = 0.98
"""Decay of the running means, about the last 50 steps: enough to average batches out, and to follow a falling loss."""
LOSS_FLOOR = 1.0
"""Mean losses below this (in nats per target) count as this: one hard text among easy ones is not a spike."""
GRAD_NORM_FACTOR = 100.0
"""How many times the room of losses gradients have: they are clipped, and in sound fine-tunings some have dozens of
times the usual norm, where no loss is twice the usual."""


@dataclass
class SpikeDetector:
    """Running means of loss and gradient norm over the steps that changed the weights; part of a checkpoint."""

    loss: float = 0.0
    grad_norm: float = 0.0
    learned: int = 0  # steps that changed the weights
    skipped: int = 0
    in_a_row: int = 0  # skipped steps since the last one that changed the weights

    def judge(self, loss: float, grad_norm: float, training: Training) -> str:
        """Return why a step must be skipped, or an empty string; either way the step is counted."""
        reason = self._reason(loss, grad_norm, training)
        if reason:
            self.skipped += 1
            self.in_a_row += 1
            return reason
        self.in_a_row = 0
        self.learned += 1
        share = max(1 - DECAY, 1 / self.learned)
        self.loss += share * (loss - self.loss)
        self.grad_norm += share * (grad_norm - self.grad_norm)
        return ""

    def _reason(self, loss: float, grad_norm: float, training: Training) -> str:
        if not math.isfinite(loss):
            return f"its loss is {loss}"
        if not math.isfinite(grad_norm):
            return f"its gradient is {grad_norm}"
        factor = training.skip_loss_spikes
        if not factor or self.learned < MIN_HISTORY:
            return ""
        if loss > factor * max(self.loss, LOSS_FLOOR):
            return f"its loss is {loss:.3g}, usual is {self.loss:.3g}"
        if grad_norm > GRAD_NORM_FACTOR * factor * max(self.grad_norm, training.max_grad_norm):
            return f"its gradient is {grad_norm:.3g}, usual is {self.grad_norm:.3g}"
        return ""
