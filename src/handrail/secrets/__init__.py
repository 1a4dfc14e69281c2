"""Secrets: which paths hold them, and how their values are kept out of answers and records."""
