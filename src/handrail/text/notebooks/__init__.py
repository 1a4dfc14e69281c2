"""Jupyter notebooks as text."""
