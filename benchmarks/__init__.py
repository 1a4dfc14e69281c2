"""Measurements: what Handrail's tools cost next to the barest program that does the same work on the same bytes."""
