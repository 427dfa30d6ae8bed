"""Use finished runs: classify, generate, fill, embed, translate, evaluate, export. Knows no training."""
