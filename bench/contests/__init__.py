"""All contests by name. Importing them imports no peer, and no torch: every contestant imports its own."""

from bench.contest import Contest
from bench.contests import classification, finetuning, generation, pretraining, starting, tokenizing, translation

CONTESTS: dict[str, Contest] = {
    contest.name: contest
    for module in (pretraining, finetuning, classification, generation, translation, tokenizing, starting)
    for contest in module.CONTESTS
}
