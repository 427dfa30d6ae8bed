"""Greffon and its peers side by side: `python -m bench`. What the figures mean stands in BENCHMARKS.md."""
