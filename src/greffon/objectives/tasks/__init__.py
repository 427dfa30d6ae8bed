"""What is learned from labelled texts: one file per task. `objectives/task_texts.py` chooses among them."""
