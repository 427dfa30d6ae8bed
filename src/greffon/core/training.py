"""How a model is trained: steps, batches, optimizers, evaluations; impossible values are refused."""

import math
from dataclasses import dataclass

from greffon.core.choices import BestMetric, LrSchedule, Optimizer
from greffon.core.errors import check_at_least, out_of_range

EVALUATIONS = 10
"""Evaluations of a pretraining, unless the recipe says how many steps lie between two."""


@dataclass(frozen=True)
class Training:
    """How a model is trained."""

    steps: int = 0
    """Number of optimizer steps; 0 for as many as fit into `minutes`."""
    minutes: float = 0.0
    """Minutes of training if no number of steps is given."""
    batch_size: int = 8
    """Sequences in a batch when pretraining, texts when fine-tuning."""
    batch_tokens: int = 4096
    """Maximum tokens in a batch of sentence pairs, with padding, on the longer side (translation)."""
    gradient_accumulation: int = 1
    """Number of batches whose gradients are added up for one step."""
    optimizer: Optimizer = "muon"
    """AdamW for all parameters, or Muon for the matrices inside the blocks and AdamW for the rest."""
    learning_rate: float = 1e-2
    """Learning rate of AdamW."""
    muon_learning_rate: float = 1e-2
    """Learning rate of Muon."""
    weight_decay: float = 0.0
    """Decoupled weight decay of both optimizers."""
    warmup_steps: int = 100
    """Steps over which the learning rate rises linearly to its full value; at most a fifth of all steps."""
    lr_schedule: LrSchedule = "linear"
    """Schedule of the learning rate after the warmup."""
    max_grad_norm: float = 1.0
    """Maximum gradient norm; larger gradients are scaled down to it."""
    skip_loss_spikes: float = 5.0
    """Skip a step whose loss is this many times the recent one; 0 disables the check, except for NaN and infinity."""
    label_smoothing: float = 0.0
    """Label smoothing (translation)."""
    average_checkpoints: int = 0
    """Average the weights of the last N evaluations at the end, and keep the mean if it is better; 0 disables it."""
    metric_for_best: BestMetric = "loss"
    """Validation metric that selects the best weights and stops training early: loss, or BLEU (translation)."""
    layer_decay: float = 1.0
    """Learning rate of each layer as a fraction of the rate of the layer above it."""
    unfreeze_every: int = 0
    """Unfreeze one more layer, from the top, every N steps; 0 trains all layers from the start."""
    patience: int = 0
    """Stop after N evaluations with neither a better score nor a lower loss; 0 disables early stopping."""
    compile: bool = False
    """Compile the blocks with torch.compile: takes about a minute, and seldom pays off on a CPU."""
    seed: int = 0
    """Random seed (default: 0)."""
    evaluate_every: int = 0
    """Steps between two evaluations; 0 for ten in all when pretraining, and for one an epoch when fine-tuning."""
    eval_tokens: int = 65_536
    """Maximum tokens of held-out text that an evaluation reads."""
    checkpoint_minutes: float = 2.0
    """Maximum minutes between two checkpoints."""

    def __post_init__(self) -> None:
        for name in (
            "steps",
            "warmup_steps",
            "evaluate_every",
            "seed",
            "patience",
            "unfreeze_every",
            "average_checkpoints",
        ):
            check_at_least(name, getattr(self, name), 0)
        for name in ("batch_size", "batch_tokens", "gradient_accumulation", "eval_tokens"):
            check_at_least(name, getattr(self, name), 1)
        for name in ("learning_rate", "muon_learning_rate", "max_grad_norm", "checkpoint_minutes"):
            if not 0 < getattr(self, name) < math.inf:
                raise out_of_range(name, getattr(self, name), "choose a number above 0")
        if not (self.skip_loss_spikes == 0 or 1 < self.skip_loss_spikes < math.inf):
            raise out_of_range("skip_loss_spikes", self.skip_loss_spikes, "choose a number above 1, or 0 for none")
        if not 0 < self.layer_decay <= 1:
            raise out_of_range("layer_decay", self.layer_decay, "choose a share above 0 and up to 1")
        if not 0 <= self.label_smoothing < 1:
            raise out_of_range("label_smoothing", self.label_smoothing, "choose a share from 0 up to, not including, 1")
        if not 0 <= self.weight_decay < 1:
            raise out_of_range("weight_decay", self.weight_decay, "choose a number from 0 up to, not including, 1")

    @property
    def eval_interval(self) -> int:
        """Steps between two evaluations."""
        return self.evaluate_every or max(1, -(-self.steps // EVALUATIONS))

    def evaluates(self, step: int) -> bool:
        """Whether held-out text is scored after a step: the first (0), the last, and at even distances between."""
        return step == self.steps or step % self.eval_interval == 0


PAIR_SETTINGS = ("batch_tokens", "label_smoothing", "metric_for_best")
