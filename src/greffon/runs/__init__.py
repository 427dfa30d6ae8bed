"""The directory that a recipe leaves behind, and other tools' checkpoints in and out."""
