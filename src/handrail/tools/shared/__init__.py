"""Pieces of tools: what several of them share, or what would make one too long."""
