"""Carry out a recipe: the one loop, its optimisers, its watchers, and the commands that train."""
