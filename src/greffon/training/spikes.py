"""Whether a step's numbers can be trusted: what is no number, or far beyond the usual, must not be learned from."""

import math
from dataclasses import dataclass

from greffon.core.config import Training

IN_A_ROW = 10
"""Steps skipped one after another that end a training: it has diverged."""
KNOWN = 20
"""Steps after which it is known what is usual."""
_MEMORY = 0.98
_HARD_LOSS = 1.0
"""Nats a target: below, a loss may jump as it likes, since a hard text among easy ones does that."""


@dataclass
class SpikeDetector:
    """Running means of loss and gradient norm over the steps that were learned from; part of a checkpoint."""

    loss: float = 0.0
    grad_norm: float = 0.0
    learned: int = 0
    skipped: int = 0
    in_a_row: int = 0

    def judge(self, loss: float, gradient: float, training: Training) -> str:
        """Say why a step must be skipped, or nothing if it is sound; either way it is counted.

        A spike is many times the running mean. Gradients are given much more room than losses: they are
        clipped, and in sound fine-tunings some are dozens of times the usual, where no loss is twice the usual.
        """
        reason = self._what_is_wrong(loss, gradient, training)
        if reason:
            self.skipped += 1
            self.in_a_row += 1
            return reason
        self.in_a_row = 0
        self.learned += 1
        share = max(1 - _MEMORY, 1 / self.learned)
        self.loss += share * (loss - self.loss)
        self.grad_norm += share * (gradient - self.grad_norm)
        return ""

    def _what_is_wrong(self, loss: float, gradient: float, training: Training) -> str:
        if not math.isfinite(loss):
            return f"its loss is {loss}"
        if not math.isfinite(gradient):
            return f"its gradient is {gradient}"
        if not training.skip_loss_spikes or self.learned < KNOWN:
            return ""
        for name, value, usual, most in (
            ("loss", loss, self.loss, training.skip_loss_spikes * max(self.loss, _HARD_LOSS)),
            (
                "gradient",
                gradient,
                self.grad_norm,
                100 * training.skip_loss_spikes * max(self.grad_norm, training.max_grad_norm),
            ),
        ):
            if value > most:
                return f"its {name} is {value:.3g}, usual is {usual:.3g}"
        return ""
