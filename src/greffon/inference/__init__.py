"""What a finished run is for: classify, generate, fill, embed, translate, evaluate, export. Knows no training."""
