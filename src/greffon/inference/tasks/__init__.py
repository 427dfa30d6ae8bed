"""What the outputs of a head mean, and how good they are: one file per task; `inference/measures.py` chooses."""
