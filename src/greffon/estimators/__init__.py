"""Estimators for scikit-learn over the public verbs: a classifier of texts, and a transformer of texts into vectors."""
