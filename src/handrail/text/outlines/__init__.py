"""Outlines of source files."""
