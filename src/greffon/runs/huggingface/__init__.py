"""Checkpoints of Hugging Face in and out: families (`families.py`) as configurations of our bodies.

No code of theirs is run: `config.json`, safetensors and tokenizer files are read and written here.
"""
