"""Run commands: process trees that always end, their output, and background jobs. Start reading at `run.py`."""
