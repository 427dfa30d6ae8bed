"""All contests by name. Importing them imports no peer, and no torch: every contestant imports its own."""

from bench.contest import Contest
from bench.contests import (
    classification,
    embedding,
    finetuning,
    generation,
    label_curve,
    neighbour,
    pretraining,
    starting,
    tokenizing,
    translation,
)

MODULES = (
    pretraining,
    finetuning,
    classification,
    generation,
    translation,
    tokenizing,
    starting,
    embedding,
    label_curve,
    neighbour,
)
CONTESTS: dict[str, Contest] = {contest.name: contest for module in MODULES for contest in module.CONTESTS}
