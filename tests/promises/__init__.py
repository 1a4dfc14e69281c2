"""The hard promises, shown: each file here attacks one of them and counts what gets through."""
