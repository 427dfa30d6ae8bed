"""Carry out a recipe: the one loop, its optimizers, its watchers, and the commands that train."""
