"""Greffon."""
