"""The client of the helper, started by hooks and wrapped commands. It imports nothing of this package."""
