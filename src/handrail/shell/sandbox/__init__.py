"""Confine commands: namespaces, bubblewrap, Landlock, seccomp and a clean environment. Start reading at `choose.py`."""
