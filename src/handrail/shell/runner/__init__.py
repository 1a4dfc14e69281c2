"""Running commands: whole process trees that always end, their output, and jobs. Begin with `runs.py`."""
