"""Parse bash scripts without running them. Begin with `parse.py`."""
