"""Objectives: examples to batches, and model outputs to losses and metrics."""
